#include "train/history.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

#define LINE_BYTES 1024 /* PROGRESS_METRICS_MAX metrics fit */

enum err_code history_open(struct history *h, bool is_kept, const char *path, struct err *err)
{
    *h = (struct history){.start_ms = clock_now_ms()};
    if (is_kept) {
        h->memory = memfd_create(HISTORY_NAME, MFD_CLOEXEC);
        if (h->memory < 0)
            return file_error(err, "create in memory", HISTORY_NAME);
        h->is_kept = true;
    }
    if (path) {
        h->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
        if (h->file < 0) {
            history_close(h);
            return file_error(err, "open", path);
        }
        h->has_file = true;
    }
    return ERR_OK;
}

enum err_code history_text(const struct history *h, struct buf *out, struct err *err)
{
    enum err_code rc = ERR_OK;
    char bytes[4096];
    off_t at = 0;
    ssize_t n;

    while (h->is_kept && rc == ERR_OK && (n = pread(h->memory, bytes, sizeof bytes, at)) > 0) {
        rc = buf_add(out, bytes, (size_t)n, err);
        at += n;
    }
    return rc;
}

enum err_code history_save(const struct history *h, const char *folder, struct err *err)
{
    struct buf text = {.max = HISTORY_MAX_BYTES};
    char path[PATH_MAX];
    enum err_code rc;

    if (!h->is_kept)
        return ERR_OK;
    (void)snprintf(path, sizeof path, "%s/%s", folder, HISTORY_NAME);
    rc = history_text(h, &text, err);
    if (rc == ERR_OK)
        rc = file_write(path, buf_text(&text), text.len, err);
    buf_deinit(&text);
    return rc;
}

void history_close(struct history *h)
{
    if (h->is_kept)
        (void)close(h->memory);
    if (h->has_file)
        (void)close(h->file);
    h->is_kept = h->has_file = false;
}

/* A file that cannot be written is dropped. */
static void write_text(struct history *h, const char *text, size_t len)
{
    if (h->is_kept && h->n_bytes + len <= HISTORY_MAX_BYTES &&
        write(h->memory, text, len) == (ssize_t)len)
        h->n_bytes += len;
    if (h->has_file && write(h->file, text, len) != (ssize_t)len) {
        LOG(LOG_WARN, "cannot write the history; it ends here", LOG_S("error", strerror(errno)));
        (void)close(h->file);
        h->has_file = false;
    }
}

void history_restart(struct history *h, const char *text, size_t len)
{
    if (h->is_kept && ftruncate(h->memory, 0) == 0) {
        (void)lseek(h->memory, 0, SEEK_SET);
        h->n_bytes = 0;
    }
    if (h->has_file)
        (void)!ftruncate(h->file, 0); /* later writes append */
    write_text(h, text, len);
}

enum err_code history_take_over(struct history *h, struct progress *own, const char *progress,
                                size_t n_progress, const struct buf *text, struct err *err)
{
    struct progress got;
    enum err_code rc = progress_parse(progress, n_progress, &got, err);

    if (rc != ERR_OK)
        return err_wrap(err, ERR_INVALID, "the leader's progress");
    got.state = own->state;
    got.slot = own->slot;
    got.revision = own->revision;
    got.cause = PROGRESS_CAUSE_NONE;
    got.error[0] = '\0';
    memcpy(got.blas, own->blas, sizeof got.blas);
    *own = got;
    history_restart(h, buf_text(text), text->len);
    return ERR_OK;
}

/* One line: the step, and `numbers` between `begin` and `end`. */
static void write_line(struct history *h, const struct progress *p, int64_t now_ms,
                       const char *begin, const struct progress_metric *numbers, int n,
                       const char *end)
{
    char line[LINE_BYTES] = "";

    if (!h->is_kept && !h->has_file)
        return; /* every stage but the leader */
    text_add(line, sizeof line, "{\"step\":%lld,\"seconds\":%.3f,%s", (long long)p->step,
             (double)(now_ms - h->start_ms) / 1e3, begin);
    for (int i = 0; i < n; i++) {
        text_add(line, sizeof line, "%s\"%s\":", i > 0 ? "," : "", numbers[i].name);
        if (isfinite(numbers[i].value))
            text_add(line, sizeof line, "%.6g", numbers[i].value);
        else
            text_add(line, sizeof line, "null");
    }
    text_add(line, sizeof line, "%s", end);
    write_text(h, line, strlen(line));
}

void history_step(struct history *h, const struct progress *p, int64_t now_ms)
{
    int64_t every = (p->total_steps + HISTORY_STEPS_MAX - 1) / HISTORY_STEPS_MAX;
    const struct progress_metric numbers[] = {{"loss", p->loss},
                                              {"tokensPerSecond", p->tokens_per_second},
                                              {"stepMilliseconds", p->step_ms}};

    if (every <= 1 || p->step % every == 0 || p->step == p->total_steps)
        write_line(h, p, now_ms, "", numbers, 3, "}\n");
}

void history_evaluation(struct history *h, const struct progress *p, int64_t now_ms)
{
    if (p->n_metrics > 0)
        write_line(h, p, now_ms, "\"metrics\":{", p->metrics, p->n_metrics, "}}\n");
}
