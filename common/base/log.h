/* base/log.h - one JSON object per line on stderr: a constant message, facts as fields.
 *
 *     LOG(LOG_INFO, "stage ready", LOG_S("job", key), LOG_I("stage", s));
 *
 * Only operator/run, worker/train, files/store, cli and the mains log; lower layers return errors,
 * which are logged once, where they are handled. Never log secrets or tensors.
 * Layer: base. Threads: any; a line is written by one call.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    LOG_ERROR,
};

enum log_kind {
    LOG_KIND_TEXT,
    LOG_KIND_INT,
    LOG_KIND_DOUBLE,
};

struct log_field {
    const char *key;
    enum log_kind kind;
    const char *text;
    int64_t integer;
    double number;
};

#define LOG_S(k, v) ((struct log_field){(k), LOG_KIND_TEXT, (v), 0, 0})
#define LOG_I(k, v) ((struct log_field){(k), LOG_KIND_INT, NULL, (int64_t)(v), 0})
#define LOG_F(k, v) ((struct log_field){(k), LOG_KIND_DOUBLE, NULL, 0, (double)(v)})

/* Fields may be left out: LOG(LOG_INFO, "started"). */
#define LOG(level, ...)           LOG_CALL(level, __VA_ARGS__, {.key = 0})
#define LOG_CALL(level, msg, ...) log_write((level), (msg), (const struct log_field[]){__VA_ARGS__})

/* Lines below `level` are not written. LOG_INFO at first. */
void log_set_level(enum log_level level);

/* `fields` ends with one whose key is NULL. Text that is NULL is written as "". */
void log_write(enum log_level level, const char *msg, const struct log_field *fields);

#endif
