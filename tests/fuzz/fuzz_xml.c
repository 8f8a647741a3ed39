/* What an S3 server answers. Whatever the bytes, the elements that are read have paths and texts
 * within their bounds, end in order, and are the same when the bytes are read again. */
#include "http/xml.h"

#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct xml x, again;
    enum err_code rc;

    xml_init(&x, (const char *)bytes, n);
    xml_init(&again, (const char *)bytes, n);
    do {
        rc = xml_next(&x, NULL);
        MUST(xml_next(&again, NULL) == rc);
        MUST(rc == ERR_OK || rc == ERR_GONE || rc == ERR_PROTOCOL);
        if (rc != ERR_OK)
            continue;
        MUST(memchr(x.path, '\0', sizeof x.path) && x.path[0]);
        MUST(memchr(x.text, '\0', sizeof x.text));
        MUST(strcmp(x.path, again.path) == 0 && strcmp(x.text, again.text) == 0);
    } while (rc == ERR_OK);
    return 0;
}
