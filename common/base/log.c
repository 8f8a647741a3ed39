#include "base/log.h"

#include <math.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/jsonw.h"

#define LOG_LINE_MAX_BYTES 8192

static atomic_int level_min = LOG_INFO;

void log_set_level(enum log_level level)
{
    atomic_store(&level_min, (int)level);
}

static void write_fields(struct jsonw *w, const struct log_field *fields)
{
    for (; fields->key; fields++) {
        if (fields->kind == LOG_KIND_INT)
            jsonw_int(w, fields->key, fields->integer);
        else if (fields->kind == LOG_KIND_DOUBLE && isfinite(fields->number))
            jsonw_double(w, fields->key, fields->number);
        else if (fields->kind == LOG_KIND_DOUBLE)
            jsonw_string(w, fields->key, isnan(fields->number) ? "nan" : "inf");
        else
            jsonw_string(w, fields->key, fields->text);
    }
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    struct buf line = {.max = LOG_LINE_MAX_BYTES};
    char time[CLOCK_TEXT_BYTES];
    struct jsonw w;

    if ((int)level < atomic_load(&level_min))
        return;
    clock_format(clock_wall_ms(), time);
    jsonw_init(&w, &line);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "time", time);
    jsonw_string(&w, "level", names[level]);
    jsonw_string(&w, "msg", msg);
    write_fields(&w, fields);
    jsonw_close(&w);
    /* A line that cannot be written has nowhere else to be reported. */
    if (jsonw_finish(&w, NULL) == ERR_OK && buf_add(&line, "\n", 1, NULL) == ERR_OK)
        (void)!write(STDERR_FILENO, line.data, line.len);
    buf_deinit(&line);
}
