/* base/folder.h - the files of one folder, by name.
 *
 * Layer: base. Threads: any.
 */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include <limits.h>

#include "base/err.h"
#include "base/json.h"

/* "folder/file". ERR_INVALID when that is too long for a path. */
MUST_CHECK enum err_code folder_path(const char *folder, const char *file,
                                     char out[static PATH_MAX], struct err *err);

/* Does it contain the file, of whatever kind? */
bool folder_has(const char *folder, const char *file);

/* Make it when it is not there (not its parents). */
MUST_CHECK enum err_code folder_make(const char *folder, struct err *err);

/* Read and parse a JSON file; the caller owns *out: json_free(). Errors name the file. */
MUST_CHECK enum err_code folder_json(const char *folder, const char *file, struct json **out,
                                     struct err *err);

#endif
