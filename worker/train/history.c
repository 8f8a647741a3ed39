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
#include "base/json.h"
#include "base/log.h"
#include "train/scalars.h"

#define LINE_BYTES        1024 /* PROGRESS_METRICS_MAX metrics fit */
#define SCALARS_MAX_BYTES (4 * HISTORY_MAX_BYTES)

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

/* One record, with what is finite in it: TensorBoard draws a NaN as a mark at the edge, and the
 * history has null for it. */
static enum err_code add_scalars(const struct json *line, double start_seconds, struct buf *out,
                                 struct err *err)
{
    const struct json *metrics = json_get(line, "metrics");
    struct scalar values[SCALARS_MAX];
    char tags[SCALARS_MAX][SCALARS_TAG_BYTES];
    int n = 0;

    for (const struct json *v = json_first(metrics ? metrics : line); v && n < SCALARS_MAX;
         v = json_next(v)) {
        bool is_place =
            !metrics && (strcmp(json_key(v), "step") == 0 || strcmp(json_key(v), "seconds") == 0);

        if (is_place || json_kind_of(v) != JSON_NUMBER)
            continue;
        (void)snprintf(tags[n], sizeof tags[n], "%s/%s", metrics ? "evaluation" : "train",
                       json_key(v));
        values[n] = (struct scalar){tags[n], json_double(v, 0)};
        n++;
    }
    if (n == 0)
        return ERR_OK;
    return scalars_add(out, start_seconds + json_double(json_get(line, "seconds"), 0),
                       json_i64(json_get(line, "step"), 0), values, n, err);
}

/* `text` as an event file. The lines are ours; one that another worker has sent and that is none is
 * left out. */
static enum err_code make_scalars(const char *text, double start_seconds, struct buf *out,
                                  struct err *err)
{
    enum err_code rc = scalars_begin(out, start_seconds, err);

    for (size_t n; *text && rc == ERR_OK; text += n + (text[n] == '\n')) {
        struct json *line = NULL;

        n = strcspn(text, "\n");
        rc = json_parse(text, n, &line, err);
        if (rc == ERR_OK)
            rc = add_scalars(line, start_seconds, out, err);
        else if (rc != ERR_NO_MEMORY)
            rc = ERR_OK;
        json_free(line);
    }
    return rc;
}

static enum err_code save_file(const char *folder, const char *name, const struct buf *text,
                               struct err *err)
{
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, name, path, err);

    return rc == ERR_OK ? file_write(path, buf_text(text), text->len, err) : rc;
}

enum err_code history_save(const struct history *h, const char *folder, struct err *err)
{
    struct buf text = {.max = HISTORY_MAX_BYTES};
    struct buf events = {.max = SCALARS_MAX_BYTES};
    int64_t start_ms = clock_wall_ms() - (clock_now_ms() - h->start_ms);
    enum err_code rc;

    if (!h->is_kept)
        return ERR_OK;
    rc = history_text(h, &text, err);
    if (rc == ERR_OK)
        rc = save_file(folder, HISTORY_NAME, &text, err);
    if (rc == ERR_OK)
        rc = make_scalars(buf_text(&text), (double)start_ms / 1e3, &events, err);
    if (rc == ERR_OK)
        rc = save_file(folder, SCALARS_NAME, &events, err);
    buf_deinit(&events);
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
