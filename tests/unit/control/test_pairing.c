/* Who measures the link to whom, and when the probes are told. */
#include "control/pairing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "row.h"

static void pairing_lets_everybody_meet_everybody_once(void **state)
{
    (void)state;
    for (int n = 2; n <= 64; n++) {
        static int met[64][64];

        memset(met, 0, sizeof met);
        for (int round = 0; round < pairing_rounds(n); round++) {
            int n_idle = 0;

            for (int i = 0; i < n; i++) {
                int k = pairing_partner(n, round, i);

                n_idle += k < 0;
                assert_true(k < n && k != i);
                if (k < 0)
                    continue;
                assert_int_equal(pairing_partner(n, round, k), i); /* so no node has two partners */
                met[i][k]++;
            }
            assert_int_equal(n_idle, n % 2);
        }
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++)
                assert_int_equal(met[i][k], i != k);
    }
}

static void pairing_of_one_is_none(void **state)
{
    (void)state;
    assert_int_equal(pairing_rounds(0), 0);
    assert_int_equal(pairing_rounds(1), 0);
    assert_int_equal(pairing_partner(1, 0, 0), -1);
}

static void wanted(struct world *w)
{
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].annotations.gflops = 0;
    (void)world_settle(w);
}

static void start(struct world *w, const char *node)
{
    struct seen_pod *p = world_probe(w, node);

    p->phase = POD_RUNNING;
    p->started_ms = w->seen.now_ms;
    (void)snprintf(p->ip, sizeof p->ip, "10.0.3.%c", node[5] + 1);
}

static void two_of_three(struct world *w)
{
    wanted(w);
    start(w, "node-0");
    start(w, "node-2");
}

static void all_three(struct world *w)
{
    two_of_three(w);
    start(w, "node-1");
}

static void two_and_a_while(struct world *w)
{
    two_of_three(w);
    w->seen.now_ms += 6000;
}

static void two_and_a_failure(struct world *w)
{
    two_of_three(w);
    world_probe(w, "node-1")->phase = POD_FAILED;
}

static void told(struct world *w)
{
    all_three(w);
    world_round(w);
}

static struct row rows[] = {
    ROW("pairing_waits_for_probes_that_do_not_run_yet", two_of_three, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_POST_PROBE_PEERS, 0), .is_waiting = true),
    ROW("pairing_begins_when_all_probes_run", all_three, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_POST_PROBE_PEERS, 3)),
    ROW("pairing_begins_without_late_ones", two_and_a_while, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_POST_PROBE_PEERS, 2)),
    ROW("pairing_begins_without_failed_ones", two_and_a_failure, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_POST_PROBE_PEERS, 2)),
    ROW("pairing_tells_each_once", told, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_POST_PROBE_PEERS, 0)),
};

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(pairing_lets_everybody_meet_everybody_once),
        cmocka_unit_test(pairing_of_one_is_none),
    };

    return row_main(rows, sizeof rows / sizeof rows[0], others, sizeof others / sizeof others[0]);
}
