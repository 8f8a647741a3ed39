#include "base/log.h"

#include <math.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"

#define LOG_LINE_MAX_BYTES 8192

static atomic_int level_min = LOG_INFO;

void log_set_level(enum log_level level)
{
    atomic_store(&level_min, (int)level);
}

static bool write_line(struct buf *line, enum log_level level, const char *msg,
                       const struct log_field *fields)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char time[CLOCK_TEXT_BYTES];
    struct jsonw w;

    clock_format(clock_wall_ms(), time);
    jsonw_init(&w, line);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "time", time);
    jsonw_string(&w, "level", names[level]);
    jsonw_string(&w, "msg", msg);
    for (; fields->key; fields++) {
        if (fields->kind == LOG_KIND_INT)
            jsonw_int(&w, fields->key, fields->integer);
        else if (fields->kind == LOG_KIND_DOUBLE && isfinite(fields->number))
            jsonw_double(&w, fields->key, fields->number);
        else if (fields->kind == LOG_KIND_DOUBLE)
            jsonw_string(&w, fields->key, isnan(fields->number) ? "nan" : "inf");
        else
            jsonw_string(&w, fields->key, fields->text);
    }
    jsonw_close(&w);
    return jsonw_finish(&w, NULL) == ERR_OK && buf_add(line, "\n", 1, NULL) == ERR_OK;
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields)
{
    const struct log_field too_long[] = {LOG_S("note", "the fields were too long"), {.key = 0}};
    struct buf line = {.max = LOG_LINE_MAX_BYTES};
    bool is_written;

    if ((int)level < atomic_load(&level_min))
        return;
    is_written = write_line(&line, level, msg, fields);
    if (!is_written) { /* too long: write the line without its fields */
        buf_reset(&line);
        is_written = write_line(&line, level, msg, too_long);
    }
    if (is_written)
        (void)!write(STDERR_FILENO, line.data, line.len); /* a failure cannot be reported */
    buf_deinit(&line);
}
