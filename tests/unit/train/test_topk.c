#include "train/topk.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N     5000
#define ROOM  (4 * N + 8)
#define SEEDS 20

struct piece {
    float grads[N], unsent[N], arrived[N], sums[N];
    size_t bytes;
    char wire[ROOM];
};

/* Some are alike, in size at least, and some are zero. */
static float entry(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)((int32_t)(*seed >> 24) - 128) * ldexpf(1, (int)(*seed >> 16 & 7));
}

static void fill(struct piece *p, size_t n, uint32_t seed)
{
    memset(p, 0, sizeof *p);
    for (size_t i = 0; i < n; i++) {
        p->grads[i] = entry(&seed);
        p->unsent[i] = entry(&seed);
        p->sums[i] = p->grads[i] + p->unsent[i];
    }
}

static void send(const struct topk *t, struct piece *p, size_t n)
{
    struct err err;

    p->bytes = topk_take(t, p->grads, p->unsent, n, p->wire);
    assert_true(p->bytes <= topk_max_bytes(t, n) && topk_max_bytes(t, n) <= 4 * n + 8);
    assert_int_equal(topk_read(t, p->wire, p->bytes, p->arrived, n, &err), ERR_OK);
}

static int count(const float *x, size_t n)
{
    int sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i] != 0;
    return sum;
}

static void topk_sends_the_largest_and_keeps_the_rest(void **state)
{
    static const size_t sizes[] = {1, 2, 99, 100, 101, 256, 1000, N};
    static const int percents[] = {1, 3, 20, SPEC_GRADIENT_PERCENT_MAX};
    static struct piece p;

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t k = 0; k < sizeof percents / sizeof percents[0]; k++)
            for (uint32_t seed = 0; seed < SEEDS; seed++) {
                const struct topk t = {.percent = percents[k]};
                size_t n = sizes[s], most = n * (size_t)t.percent / 100;
                float least = INFINITY, left = 0;

                fill(&p, n, seed);
                send(&t, &p, n);
                assert_int_equal(count(p.grads, n), 0);
                for (size_t i = 0; i < n; i++) {
                    assert_true(p.arrived[i] == 0 || p.unsent[i] == 0);
                    assert_true(p.arrived[i] + p.unsent[i] == p.sums[i]);
                    least = p.arrived[i] != 0 ? fminf(least, fabsf(p.arrived[i])) : least;
                    left = fmaxf(left, fabsf(p.unsent[i]));
                }
                assert_true(least >= left);
                assert_true(count(p.arrived, n) <= (int)(most > 0 ? most : 1));
                assert_true(left == 0 || count(p.arrived, n) == (int)(most > 0 ? most : 1));
            }
}

static void topk_keeps_what_rounding_loses(void **state)
{
    const struct topk t = {.percent = 10, .is_bf16 = true};
    static struct piece p;

    (void)state;
    fill(&p, N, 1);
    p.grads[7] = 1e6f + 1;
    p.sums[7] = p.grads[7] + p.unsent[7];
    send(&t, &p, N);
    assert_true(p.unsent[7] != 0);
    for (size_t i = 0; i < N; i++)
        assert_true(p.arrived[i] + p.unsent[i] == p.sums[i]);
    assert_true(p.bytes < 3 * N / 10 + 100);
}

static void topk_sends_small_entries_once_they_add_up(void **state)
{
    const struct topk t = {.percent = 1};
    float grads[100], unsent[100] = {0}, arrived[100], sum[100] = {0};
    char wire[408];
    struct err err;

    (void)state;
    for (int step = 0; step < 10000; step++) { /* one of 100 travels in each */
        for (int i = 0; i < 100; i++)
            grads[i] = (float)(1 + i);
        assert_int_equal(
            topk_read(&t, wire, topk_take(&t, grads, unsent, 100, wire), arrived, 100, &err),
            ERR_OK);
        for (int i = 0; i < 100; i++)
            sum[i] += arrived[i];
    }
    for (int i = 0; i < 100; i++) {
        assert_true(sum[i] + unsent[i] == 10000.0f * (float)(1 + i));
        assert_true(sum[i] > 0); /* even the smallest has come through */
    }
}

static void topk_sends_what_is_not_finite_and_forgets_it(void **state)
{
    static const bool kinds[] = {false, true};

    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const struct topk t = {.percent = 1, .is_bf16 = kinds[k]};
        static struct piece p;

        fill(&p, 100, 3);
        p.grads[50] = INFINITY;
        p.grads[60] = -NAN;
        p.grads[70] = NAN;
        send(&t, &p, 100);
        assert_int_equal(count(p.arrived, 100), 1);
        assert_true(isnan(p.arrived[60]) || isnan(p.arrived[70]));
        for (size_t i = 0; i < 100; i++)
            assert_true(isfinite(p.unsent[i]));
    }
}

static void topk_has_the_same_bytes_for_the_same_gradients(void **state)
{
    const struct topk t = {.percent = 5};
    static struct piece a, b;

    (void)state;
    fill(&a, N, 4);
    fill(&b, N, 4);
    send(&t, &a, N);
    send(&t, &b, N);
    assert_int_equal(a.bytes, b.bytes);
    assert_memory_equal(a.wire, b.wire, a.bytes);
}

static void topk_read_refuses_what_does_not_fit(void **state)
{
    static const struct {
        const char *gaps; /* behind two values of 100 */
        size_t n;
        enum err_code rc;
    } table[] = {{"\0\0", 2, ERR_OK},         {"\x62\0", 2, ERR_OK},
                 {"\x62\1", 2, ERR_PROTOCOL}, {"\x64\0", 2, ERR_PROTOCOL},
                 {"\0", 1, ERR_PROTOCOL},     {"", 0, ERR_PROTOCOL},
                 {"\xff\0", 2, ERR_PROTOCOL}, {"\0\xff", 2, ERR_PROTOCOL},
                 {"\0\0\0", 3, ERR_PROTOCOL}, {"\0\xfe", 2, ERR_PROTOCOL}};
    const struct topk t = {.percent = 2};

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        size_t bytes = 2 * sizeof(float) + table[i].n;
        char *wire = malloc(bytes); /* as large as the message: sanitizers see its end */
        float out[100];
        struct err err;

        assert_non_null(wire);
        memset(wire, 0, bytes);
        memcpy(wire + 2 * sizeof(float), table[i].gaps, table[i].n);
        if (topk_read(&t, wire, bytes, out, 100, &err) != table[i].rc)
            fail_msg("line %zu", i);
        free(wire);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topk_sends_the_largest_and_keeps_the_rest),
        cmocka_unit_test(topk_keeps_what_rounding_loses),
        cmocka_unit_test(topk_sends_small_entries_once_they_add_up),
        cmocka_unit_test(topk_sends_what_is_not_finite_and_forgets_it),
        cmocka_unit_test(topk_has_the_same_bytes_for_the_same_gradients),
        cmocka_unit_test(topk_read_refuses_what_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
