/* kubectl-skyjob init: a manifest to begin with. */
#include <getopt.h> /* optind */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/command.h"
#include "cli/draft.h"

static enum err_code print(const struct buf *text, const char *path, struct err *err)
{
    if (!path || strcmp(path, "-") == 0)
        return fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0
                   ? ERR_OK
                   : err_set(err, ERR_IO, "cannot write to stdout");
    if (access(path, F_OK) == 0)
        return err_set(err, ERR_INVALID, "-o: %.200s exists; name another file, or remove it",
                       path);
    return file_write(path, text->data, text->len, err);
}

int command_init(int argc, char **argv)
{
    struct draft d = {.name = NULL};
    const char *path = NULL;
    const struct command_option options[] = {
        {"name", .value = &d.name},
        {"task", .value = &d.task},
        {"data", .value = &d.data},
        {"preset", .value = &d.preset},
        {"from", .value = &d.from},
        {"output", .value = &d.output},
        {"epochs", .value = &d.epochs},
        {"steps", .value = &d.steps},
        {"batch-size", .value = &d.batch_size},
        {"replicas", .value = &d.replicas},
        {"file", 'o', .value = &path},
        {.name = NULL},
    };
    struct buf text = {.max = DRAFT_MAX_BYTES};
    struct err err;
    enum err_code rc;

    if (!command_options(argc, argv, options) || optind < argc)
        return command_usage(argv[0]);
    rc = draft_write(&d, &text, &err);
    if (rc == ERR_OK)
        rc = print(&text, path, &err);
    buf_deinit(&text);
    return rc == ERR_OK ? EXIT_DONE : command_failed(&err);
}
