/* kubectl-skyjob status: the progress of a job in the cluster, once or until it has ended. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/show.h"
#include "cli/target.h"

struct followed {
    bool follows; /* an argument */
    struct status status;
};

/* Print what has changed. */
static void print_news(const struct status *s, struct show *show, int *revision)
{
    bool is_over = status_is_final(s);
    bool is_new = s->revision != *revision;
    char line[SHOW_LINE_BYTES];

    if (is_over || (is_new && s->n_stages > 0))
        show_end(show);
    if (s->n_stages > 0 && (is_over || is_new)) {
        if (is_new && s->revision > 1)
            (void)printf("revision %d\n", s->revision);
        show_status_placement(stdout, s, is_new);
        (void)printf("\n");
        *revision = s->revision;
    }
    if (is_over) {
        show_status_end(stdout, s);
        return;
    }
    show_status_text(s, line);
    show_line(show, line, false, clock_now_ms());
}

/* Once, or until the job has ended or Ctrl-C. */
static enum err_code watch(void *ctx, struct target *t, struct err *err)
{
    struct followed *f = ctx;
    struct show show;
    int revision = 0;
    bool was_seen = false;
    enum err_code rc;

    interrupt_catch();
    show_init(&show, stdout);
    show.is_tty = show.is_tty && f->follows; /* else a line need not fit the width */
    for (;;) {
        rc = target_get(t, &f->status, NULL, err);
        if (rc == ERR_OK) {
            was_seen = true;
            print_news(&f->status, &show, &revision);
            if (!f->follows || status_is_final(&f->status))
                break;
        } else if (!was_seen || !err_is_transient(rc)) {
            break;
        } else {
            show_line(&show, err->text, true, clock_now_ms());
        }
        if (interrupt_pause()) {
            rc = err_set(err, ERR_GONE, "interrupted; the job continues");
            break;
        }
    }
    show_end(&show);
    return rc;
}

int command_status(int argc, char **argv)
{
    struct followed f = {.follows = false};
    const struct command_option options[] = {
        {"follow", 'f', .is_set = &f.follows},
        {.name = NULL},
    };
    int code = target_run(argc, argv, options, (struct target_action){&f, watch});

    return status_is(&f.status, CONDITION_FAILED) ? EXIT_FAILED : code;
}
