/* cli/job.h - a SkyJob in a file.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "api/spec.h"

#define JOB_FILE_MAX_BYTES ((size_t)1 << 20)

struct job {
    char namespace[64];
    char name[64];
    struct json *document; /* owns everything below but `filled` */
    struct json *filled;   /* the spec with the sizes of its model; NULL: as in the file */
    const struct json *spec_json;
    struct spec spec;
};

/* Hand each document of a YAML or JSON file ("-" is stdin) to `take`, which may keep *root and set
 * it to NULL; anything but ERR_OK ends the reading. Errors name the file: those of file_read(),
 * ERR_INVALID, those of `take`. */
struct document_taker {
    void *ctx;
    enum err_code (*take)(void *ctx, struct json **root, struct err *err);
};
MUST_CHECK enum err_code document_each(const char *path, size_t max_bytes,
                                       struct document_taker taker, struct err *err);

/* Read the one SkyJob in a YAML or JSON file ("-" is stdin); documents of other kinds are
 * skipped. What the API server would refuse is refused here, with the field. The sizes of
 * spec.model are those of the model in the folder `model` or, if that is NULL, those in the status
 * beside a spec that leaves them to its model. The caller owns *out: job_deinit(). Returns
 * ERR_INVALID, ERR_NOT_FOUND (no file, no folder, or no SkyJob in it), or the errors of
 * file_read(). */
MUST_CHECK enum err_code job_load(const char *path, const char *model, struct job *out,
                                  struct err *err);

/* Would job_load() take a file of this text, with no folder of a model? Its errors. */
MUST_CHECK enum err_code job_check(const char *text, size_t len, struct err *err);

/* Give a spec without sizes those in `status`, the status of the job in the cluster, if it has any.
 * The errors of spec_parse(). */
MUST_CHECK enum err_code job_take_status(struct job *job, const struct json *status,
                                         struct err *err);
/* ERR_INVALID, with the remedy, when the sizes of the model are not known. */
MUST_CHECK enum err_code job_check_sizes(const struct job *job, struct err *err);
void job_deinit(struct job *job);

#endif
