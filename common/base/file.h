/* base/file.h - files and folders.
 *
 * Layer: base. Threads: any.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <limits.h>

#include "base/buf.h"
#include "base/json.h"

/* Append the file to `out`, whose `max` is the most that is read.
 *
 * Returns ERR_NOT_FOUND, ERR_DENIED, ERR_LIMIT (larger than `out` may hold) or ERR_IO, each with
 * the path in the text.
 */
MUST_CHECK enum err_code file_read(const char *path, struct buf *out, struct err *err);

/* Replace the file whole: written beside it, synced, renamed; a reader sees the old or the new. */
MUST_CHECK enum err_code file_write(const char *path, const void *bytes, size_t n, struct err *err);

/* The same piece by piece: after file_begin() has succeeded, call exactly one of file_finish() and
 * file_abandon(). */
struct file_writer {
    int fd;
    char path[PATH_MAX];
    char part[PATH_MAX]; /* its name while it is not complete */
};

MUST_CHECK enum err_code file_begin(struct file_writer *w, const char *path, struct err *err);
MUST_CHECK enum err_code file_add(struct file_writer *w, const void *bytes, size_t n,
                                  struct err *err);
/* Sync and rename. Whatever this returns, the part is gone. */
MUST_CHECK enum err_code file_finish(struct file_writer *w, struct err *err);
void file_abandon(struct file_writer *w);

/* A file as memory: only the pages that are used are read. The file must not shrink meanwhile.
 * Threads: any, once open. */
struct mapping {
    const unsigned char *bytes; /* never NULL once open */
    size_t n;
};

/* On ERR_OK the caller owns *out: mapping_close(). Returns ERR_NOT_FOUND, ERR_DENIED, ERR_IO with
 * the path, ERR_INVALID when it is not a file. */
MUST_CHECK enum err_code mapping_open(const char *path, struct mapping *out, struct err *err);
void mapping_close(struct mapping *m); /* a zeroed one is fine */

/* "folder/file". ERR_INVALID when that is too long for a path. */
MUST_CHECK enum err_code folder_path(const char *folder, const char *file,
                                     char out[static PATH_MAX], struct err *err);
/* Does it contain the file, of whatever kind? */
bool folder_has(const char *folder, const char *file);
/* Is there nothing in it? ERR_NOT_FOUND, ERR_DENIED, ERR_IO. */
MUST_CHECK enum err_code folder_is_empty(const char *folder, bool *out, struct err *err);
/* Create it, but not its parents, unless it exists. */
MUST_CHECK enum err_code folder_make(const char *folder, struct err *err);
/* Remove a folder of plain files. On an error, which is the folder's, what could be removed is
 * gone. ERR_NOT_FOUND, ERR_DENIED, ERR_IO. */
MUST_CHECK enum err_code folder_remove(const char *folder, struct err *err);
/* Read and parse a JSON file; the caller owns *out: json_free(). Errors name the file. */
MUST_CHECK enum err_code folder_json(const char *folder, const char *file, struct json **out,
                                     struct err *err);
/* Make renames within a folder survive a power cut. */
MUST_CHECK enum err_code file_sync_folder(const char *folder, struct err *err);

/* The code for an errno: ERR_NOT_FOUND, ERR_DENIED or ERR_IO. */
enum err_code file_error_code(int number);
/* The error of the last system call on `path`: "open PATH: No such file or directory". */
enum err_code file_error(struct err *err, const char *what, const char *path);

#endif
