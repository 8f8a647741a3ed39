/* Shares and cuts for replicas whose nodes have become slower, held against trying all of them. */
#include "balance/reshare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS_MAX 8
#define MICRO       8
#define ROOM_BYTES  ((int64_t)16 << 30)

/* BertMini as replicas of as many stages each. */
static struct {
    struct spec spec;
    struct plan plan;
    struct node nodes[WORKERS_MAX];
    struct partition_request request;
} job;

static void begin(int n_replicas, int n_stages)
{
    static const char text[] =
        "{\"model\":{\"preset\":\"BertMini\"},\"data\":{\"source\":{\"sample\":\"MNLI\"}}}";
    struct json *json = NULL;
    struct replicas planned;

    memset(&job, 0, sizeof job);
    assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    assert_int_equal(spec_parse(json, &job.spec, NULL), ERR_OK);
    json_free(json);
    job.request = partition_request_of(&job.spec);
    job.request.job.micro_batches = MICRO;
    job.request.min_stages = job.request.max_stages = n_stages;
    job.request.nodes = job.nodes;
    job.request.n_nodes = n_replicas * n_stages;
    for (int i = 0; i < job.request.n_nodes; i++) {
        job.nodes[i] = (struct node){.cpu_milli = 1000, .memory_bytes = ROOM_BYTES, .gflops = 40};
        (void)snprintf(job.nodes[i].name, sizeof job.nodes[i].name, "node-%d", i);
    }
    assert_int_equal(replicas_choose(&job.request, n_replicas, &planned, NULL), ERR_OK);
    replicas_to_plan(&job.request, &planned, &job.plan);
    for (int i = 0; i < job.plan.n_workers; i++) /* the request's nodes are those of the workers */
        memcpy(job.nodes[i].name, job.plan.workers[i].node, sizeof job.nodes[i].name);
}

/* T(m) of a replica of one or two workers, `first_units` of its units on the first; written again.
 */
static double pipeline_ms(int replica, int first_units, int share)
{
    struct plan_replica r = plan_replica(&job.plan, replica);
    struct cost_job without_update = cost_job_in_replica(&job.request.job);
    struct cost_unit units[MODEL_UNITS_MAX];
    double ms[2] = {0};
    double edge_ms = 0;
    int n = model_units(&job.spec.model);

    cost_of_units(&without_update, units);
    for (int u = 0; u < n; u++)
        ms[u >= first_units] +=
            cost_unit_ms(&units[u], &job.nodes[r.first_worker + (u >= first_units)]);
    if (first_units < n) {
        edge_ms = cost_edge_ms(&units[first_units - 1], &job.request.link);
        for (int s = 0; s < 2; s++)
            ms[s] += cost_messages_ms(&units[COST_LAYER_UNIT], &job.nodes[r.first_worker + s]);
    }
    return ms[0] + ms[1] + 2 * edge_ms + (share - 1) * fmax(fmax(ms[0], ms[1]), edge_ms);
}

static double least_ms(int replica, int share)
{
    int n = model_units(&job.spec.model);
    double least = INFINITY;

    for (int first = 1; first < n; first++)
        least = fmin(least, pipeline_ms(replica, first, share));
    return least;
}

static void shares_are_those_with_the_shortest_slowest_replica(void **state)
{
    static const double times[][3] = {{1, 1, 1}, {1, 1, 3}, {3, 1, 1}, {1, 2, 4}, {1, 1, 40}};
    static struct replicas got;

    (void)state;
    for (size_t row = 0; row < sizeof times / sizeof times[0]; row++) {
        double least = INFINITY;

        begin(3, 1);
        for (int i = 0; i < 3; i++)
            job.nodes[i].gflops /= times[row][i];
        assert_int_equal(reshare_find(&job.request, &job.plan, false, &got, NULL), ERR_OK);
        for (int a = 1; a <= MICRO - 2; a++)
            for (int b = 1; b <= MICRO - 1 - a; b++) {
                int n = model_units(&job.spec.model);
                double ms = fmax(fmax(pipeline_ms(0, n, a), pipeline_ms(1, n, b)),
                                 pipeline_ms(2, n, MICRO - a - b));

                least = fmin(least, ms);
            }
        assert_true(fabs(got.step.slowest_ms / least - 1) < 1e-9);
        assert_int_equal(got.shares[0] + got.shares[1] + got.shares[2], MICRO);
    }
}

static void cuts_are_those_with_the_shortest_slowest_replica(void **state)
{
    static struct replicas kept, cut;

    (void)state;
    for (int slow = 0; slow < 4; slow++) {
        double least = INFINITY;

        begin(2, 2);
        job.nodes[slow].gflops /= 3;
        for (int m = 1; m < MICRO; m++)
            least = fmin(least, fmax(least_ms(0, m), least_ms(1, MICRO - m)));
        assert_int_equal(reshare_find(&job.request, &job.plan, false, &kept, NULL), ERR_OK);
        assert_int_equal(reshare_find(&job.request, &job.plan, true, &cut, NULL), ERR_OK);
        assert_true(fabs(cut.step.slowest_ms / least - 1) < 1e-9);
        assert_true(cut.step.slowest_ms < 0.95 * kept.step.slowest_ms);
        for (int k = 0; k < 2; k++)
            for (int s = 0; s < 2; s++) {
                assert_int_equal(cut.pipelines[k].stages[s].node, 2 * k + s);
                assert_int_equal(kept.pipelines[k].stages[s].n_units,
                                 job.plan.workers[2 * k + s].n_units);
            }
    }
}

static void units_stay_where_others_would_not_fit(void **state)
{
    static struct replicas got;

    (void)state;
    begin(2, 2);
    assert_int_equal(reshare_measure(&job.request, &job.plan, job.plan.shares, NULL, &got, NULL),
                     ERR_OK);
    for (int k = 0; k < 2; k++)
        for (int s = 0; s < 2; s++)
            job.nodes[2 * k + s].memory_bytes = got.pipelines[k].stages[s].memory_bytes * 101 / 100;
    job.nodes[1].gflops /= 3;
    assert_int_equal(reshare_find(&job.request, &job.plan, true, &got, NULL), ERR_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(got.pipelines[i / 2].stages[i % 2].n_units, job.plan.workers[i].n_units);
    assert_true(got.shares[0] < got.shares[1]);
}

static void a_measured_plan_is_predicted_as_it_was_planned(void **state)
{
    static struct replicas got;

    (void)state;
    begin(2, 2);
    assert_int_equal(reshare_measure(&job.request, &job.plan, job.plan.shares, NULL, &got, NULL),
                     ERR_OK);
    assert_true(fabs(got.step.step_ms / job.plan.summary.predicted_step_ms - 1) < 1e-9);
    assert_int_equal(got.step.homes_follow_shares, job.plan.homes_follow_shares);
}

/* Over a slow link it would hold up all. */
static void a_replica_that_has_become_slow_loses_its_homes(void **state)
{
    static struct replicas got;

    (void)state;
    begin(3, 1);
    job.request.link.bytes_per_s = 1e9;
    job.nodes[2].gflops /= 10;
    job.nodes[2].message.ms = 1;
    job.nodes[2].message.byte_ns = 100;
    assert_int_equal(reshare_find(&job.request, &job.plan, false, &got, NULL), ERR_OK);
    assert_true(got.step.homes_follow_shares);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_those_with_the_shortest_slowest_replica),
        cmocka_unit_test(cuts_are_those_with_the_shortest_slowest_replica),
        cmocka_unit_test(units_stay_where_others_would_not_fit),
        cmocka_unit_test(a_measured_plan_is_predicted_as_it_was_planned),
        cmocka_unit_test(a_replica_that_has_become_slow_loses_its_homes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
