#include "base/folder.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define JSON_FILE_MAX_BYTES ((size_t)16 << 20)

enum err_code folder_path(const char *folder, const char *file, char out[static PATH_MAX],
                          struct err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", folder, file) >= PATH_MAX)
        return err_set(err, ERR_INVALID, "the path of folder %.80s is too long", folder);
    return ERR_OK;
}

bool folder_has(const char *folder, const char *file)
{
    char path[PATH_MAX];

    return folder_path(folder, file, path, NULL) == ERR_OK && access(path, F_OK) == 0;
}

enum err_code folder_make(const char *folder, struct err *err)
{
    /* Several stages may come to make it at the same time. */
    if (mkdir(folder, 0755) != 0 && errno != EEXIST)
        return file_error(err, "create folder", folder);
    return ERR_OK;
}

enum err_code folder_json(const char *folder, const char *file, struct json **out, struct err *err)
{
    struct buf text = {.max = JSON_FILE_MAX_BYTES};
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, file, path, err);

    if (rc == ERR_OK)
        rc = file_read(path, &text, err);
    if (rc == ERR_OK) {
        rc = json_parse(buf_text(&text), text.len, out, err);
        if (rc != ERR_OK)
            err_wrap(err, rc, "%s", path);
    }
    buf_deinit(&text);
    return rc;
}
