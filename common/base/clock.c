#include "base/clock.h"

#include <string.h>
#include <time.h>

static int64_t read_ns(clockid_t id)
{
    struct timespec t;

    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_now_ms(void)
{
    return read_ns(CLOCK_MONOTONIC) / 1000000;
}

int64_t clock_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t clock_cpu_ns(void)
{
    return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t clock_wall_ms(void)
{
    return read_ns(CLOCK_REALTIME) / 1000000;
}

void clock_format(int64_t wall_ms, char out[static CLOCK_TEXT_BYTES])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;

    if (!gmtime_r(&seconds, &tm))
        memset(&tm, 0, sizeof tm);
    if (strftime(out, CLOCK_TEXT_BYTES, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        out[0] = '\0';
}

enum err_code clock_parse(const char *text, int64_t *out_wall_ms, struct err *err)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t ms = 0;

    if (rest && *rest == '.') {
        int64_t unit_ms = 100;

        for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit_ms /= 10)
            ms += (*rest - '0') * unit_ms;
    }
    if (!rest || strcmp(rest, "Z") != 0)
        return err_set(err, ERR_INVALID, "\"%.40s\" is not a UTC time", text);
    *out_wall_ms = (int64_t)timegm(&tm) * 1000 + ms;
    return ERR_OK;
}

int64_t backoff_ms(int n_failures, int64_t first_ms, int64_t max_ms)
{
    int64_t ms = first_ms;

    if (n_failures < 1)
        return 0;
    for (int i = 1; i < n_failures && ms < max_ms; i++)
        ms *= 2;
    return ms < max_ms ? ms : max_ms;
}

int64_t bucket_wait_ms(const struct bucket *b, int64_t now_ms)
{
    int64_t wait_ms = b->full_ms - (b->burst - 1) * b->refill_ms - now_ms;

    return wait_ms > 0 ? wait_ms : 0;
}

bool bucket_take(struct bucket *b, int64_t now_ms)
{
    if (bucket_wait_ms(b, now_ms) > 0)
        return false;
    b->full_ms = (b->full_ms > now_ms ? b->full_ms : now_ms) + b->refill_ms;
    return true;
}
