#include "train/edges.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "train/message.h"
#include "train/stage.h"

static struct plan plan;

/* Slots need not follow the pipeline. */
static int slot_of(int stage)
{
    return 9 - stage;
}

static const struct edges *make_edges(int n_stages)
{
    static struct edges edges[4];

    plan.n_workers = n_stages;
    plan.micro_batches = 2;
    plan.spec.training.batch_size = 8;
    plan.spec.training.max_length = 16;
    plan.spec.model.hidden = 32;
    for (int s = 0; s < n_stages; s++) {
        plan.workers[s].slot = slot_of(s);
        plan.workers[s].incarnation = 1 + s;
    }
    for (int s = 0; s < n_stages; s++)
        edges[s] = edges_of(&plan, s);
    return edges;
}

static const struct link_edge *find(const struct edges *edges, enum edge_role role)
{
    assert_in_range(edges->index[role], 0, edges->n - 1);
    return &edges->list[edges->index[role]];
}

/* Is `out` of one stage the other end of `in` of another? */
static void check_ends(const struct link_edge *out, int from, const struct link_edge *in, int to)
{
    assert_false(out->is_incoming);
    assert_true(in->is_incoming);
    assert_int_equal(out->id, in->id);
    assert_int_equal(out->peer, slot_of(to));
    assert_int_equal(in->peer, slot_of(from));
    assert_int_equal(out->peer_incarnation, 1 + to);
    assert_int_equal(in->peer_incarnation, 1 + from);
    assert_int_equal(out->meta_max_bytes, in->meta_max_bytes);
    assert_int_equal(out->tensor_max_bytes, in->tensor_max_bytes);
}

static void edges_of_neighbours_are_the_same_edges(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++) {
        const struct edges *edges = make_edges(n);

        for (int s = 0; s + 1 < n; s++) {
            check_ends(find(&edges[s], EDGE_FORWARD_OUT), s, find(&edges[s + 1], EDGE_FORWARD_IN),
                       s + 1);
            check_ends(find(&edges[s + 1], EDGE_BACKWARD_OUT), s + 1,
                       find(&edges[s], EDGE_BACKWARD_IN), s);
        }
    }
}

static void edges_of_the_first_and_the_last_stage_are_two(void **state)
{
    const struct edges *edges = make_edges(3);

    (void)state;
    assert_int_equal(edges[0].n, 2);
    assert_int_equal(edges[0].index[EDGE_FORWARD_IN], -1);
    assert_int_equal(edges[0].index[EDGE_BACKWARD_OUT], -1);
    assert_int_equal(edges[1].n, 4);
    assert_int_equal(edges[2].n, 2);
    assert_int_equal(edges[2].index[EDGE_FORWARD_OUT], -1);
    assert_int_equal(edges[2].index[EDGE_BACKWARD_IN], -1);
}

static void edges_of_a_single_stage_are_none(void **state)
{
    (void)state;
    assert_int_equal(make_edges(1)[0].n, 0);
}

static void edges_carry_the_largest_messages_and_have_names(void **state)
{
    const struct link_edge *forward = find(&make_edges(3)[1], EDGE_FORWARD_OUT);
    const struct link_edge *backward = find(&make_edges(3)[1], EDGE_BACKWARD_OUT);
    struct message_limits limits = message_limits_of(&plan.spec, plan.micro_batches);

    (void)state;
    assert_int_equal(forward->tensor_max_bytes, 4 * 16 * 32 * sizeof(float));
    assert_int_equal(backward->tensor_max_bytes, forward->tensor_max_bytes);
    assert_int_equal(forward->meta_max_bytes,
                     message_max_bytes(&limits, model_units(&plan.spec.model)));
    assert_int_equal(backward->meta_max_bytes, sizeof(struct message_end));
    assert_string_equal(forward->name, "forward edge");
    assert_string_equal(forward->peer_name, "stage 2");
    assert_string_equal(backward->name, "backward edge");
    assert_string_equal(backward->peer_name, "stage 0");
}

/* With four stages and 1F1B the second one has three inputs in use, and needs room for others. */
static void edges_keep_inputs_until_their_backward_pass(void **state)
{
    static const int want[4] = {2, 2 + 3, 2 + 2, 2 + 1};

    (void)state;
    (void)make_edges(4);
    plan.micro_batches = 8;
    for (int s = 1; s < 4; s++) {
        struct edges edges = edges_of(&plan, s);

        assert_int_equal(find(&edges, EDGE_FORWARD_IN)->n_slots, want[s]);
        assert_int_equal(find(&edges, EDGE_BACKWARD_OUT)->n_slots, 2);
        plan.spec.wire = SPEC_WIRE_BF16; /* unpacked, so released at once */
        edges = edges_of(&plan, s);
        assert_int_equal(find(&edges, EDGE_FORWARD_IN)->n_slots, 2);
        plan.spec.wire = SPEC_WIRE_FP32;
    }
}

/* --- replicas --- */

/* Two replicas of a model of 7 units, cut at 3 and at 2 and 5. */
static const struct edges *make_replicas(void)
{
    static const int first[] = {0, 3, 0, 2, 5}, n_units[] = {3, 4, 2, 3, 2};
    static struct edges edges[5];

    (void)make_edges(4);
    assert_int_equal(model_preset("BertTiny", &plan.spec.model, NULL), ERR_OK);
    plan.n_workers = 5;
    plan.n_shares = 2;
    plan.shares[0] = plan.shares[1] = 1;
    for (int i = 0; i < 5; i++)
        plan.workers[i] = (struct plan_worker){.slot = slot_of(i),
                                               .incarnation = 1 + i,
                                               .replica = i >= 2,
                                               .first_unit = first[i],
                                               .n_units = n_units[i]};
    for (int i = 0; i < 5; i++)
        edges[i] = edges_of(&plan, i);
    return edges;
}

static void forget_replicas(void)
{
    plan.n_shares = 0;
    memset(plan.workers, 0, sizeof plan.workers);
    memset(&plan.spec.model, 0, sizeof plan.spec.model);
}

/* Every edge has its other end, with the same limits, in the list of its peer. */
static void edges_of_replicas_are_the_same_on_both_ends(void **state)
{
    const struct edges *edges = make_replicas();
    int n_ends = 0;

    (void)state;
    for (int i = 0; i < 5; i++)
        for (int e = 0; e < edges[i].n; e++) {
            const struct link_edge *one = &edges[i].list[e];
            int peer = 9 - (int)one->peer; /* slot_of() */

            for (int k = 0; k < edges[peer].n; k++) {
                const struct link_edge *other = &edges[peer].list[k];

                if (other->id != one->id || other->peer != (uint32_t)slot_of(i) ||
                    other->is_incoming == one->is_incoming)
                    continue;
                if (one->is_incoming)
                    check_ends(other, peer, one, i);
                else
                    check_ends(one, i, other, peer);
                n_ends++;
            }
        }
    for (int i = 0; i < 5; i++)
        n_ends -= edges[i].n;
    assert_int_equal(n_ends, 0);
    forget_replicas();
}

/* A unit's gradient has one way home, and its weights one way back. */
static void edges_lead_from_every_unit_to_its_home(void **state)
{
    const struct edges *edges = make_replicas();

    (void)state;
    for (int i = 0; i < 5; i++)
        for (int u = plan.workers[i].first_unit;
             u < plan.workers[i].first_unit + plan.workers[i].n_units; u++) {
            int n_ways = 0;

            for (int k = 0; k < edges[i].n_homes; k++) {
                const struct home_edges *to = &edges[i].homes[k];
                struct plan_home home;

                (void)plan_home(&plan, to->worker, &home);
                assert_int_equal(to->grads_out < 0, to->weights_in < 0);
                assert_int_equal(to->grads_in < 0, to->weights_out < 0);
                assert_int_equal(to->replica, 1 - plan.workers[i].replica);
                n_ways += to->grads_out >= 0 && u >= home.first_unit &&
                          u < home.first_unit + home.n_units;
            }
            for (int k = 0; k < 5; k++) {
                struct plan_home home;

                (void)plan_home(&plan, k, &home);
                if (u >= home.first_unit && u < home.first_unit + home.n_units)
                    n_ways += k == i;
            }
            assert_int_equal(n_ways, 1);
        }
    forget_replicas();
}

/* Where it goes from and to, worker by worker. */
static void walk(const struct edges *edges, enum route_kind kind, int root)
{
    bool is_sum = kind == ROUTE_TO_DECIDER || kind == ROUTE_TO_LEADER;
    int n_reached = 0;

    for (int i = 0; i < 5; i++) {
        struct route r = edges_route(&edges[i], kind);

        assert_int_equal(is_sum ? r.n_out : r.n_in, i != root); /* each but the root has one way */
        n_reached += is_sum ? r.n_in : r.n_out;
        for (int k = 0; k < r.n_in; k++)
            assert_true(find(&edges[i], (enum edge_role)r.in[k])->is_incoming);
        for (int k = 0; k < r.n_out; k++)
            assert_false(find(&edges[i], (enum edge_role)r.out[k])->is_incoming);
    }
    assert_int_equal(n_reached, 4);
}

static void edges_have_a_route_to_and_from_all_workers(void **state)
{
    const struct edges *edges = make_replicas();

    (void)state;
    walk(edges, ROUTE_TO_DECIDER, 1);
    walk(edges, ROUTE_FROM_DECIDER, 1);
    walk(edges, ROUTE_TO_LEADER, 0);
    walk(edges, ROUTE_FROM_LEADER, 0);
    forget_replicas();
}

/* The decider passes on what it decides about its own replica's ticket to that one only. */
static void edges_have_a_route_within_a_replica(void **state)
{
    const struct edges *edges = make_replicas();

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct route here = edges_route(&edges[i], ROUTE_IN_REPLICA);
        struct route all = edges_route(&edges[i], ROUTE_FROM_DECIDER);

        assert_int_equal(here.n_in, all.n_in);
        assert_int_equal(here.n_out, i == 1 ? 1 : all.n_out);
    }
    forget_replicas();
}

/* A replica that trains alone hears from its own last stage. */
static void edges_have_a_route_from_any_last_stage(void **state)
{
    const struct edges *edges = make_replicas();

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct route r = edges_route(&edges[i], ROUTE_ALONE);
        bool is_last = i == 1 || i == 4;
        bool is_first = i == 0 || i == 2;

        assert_int_equal(r.n_in, !is_last);
        assert_int_equal(r.n_out, !is_first);
        assert_true(is_last || r.in[0] == EDGE_BACKWARD_IN);
        assert_true(is_first || r.out[0] == EDGE_BACKWARD_OUT);
    }
    forget_replicas();
}

/* Stages 0 and 1 are on one node, so the keeper of both is stage 2, whose own is stage 0. */
static void edges_for_copies_lead_to_another_node_and_back(void **state)
{
    static const int keepers[] = {2, 2, 0};
    static struct edges edges[3];

    (void)state;
    (void)make_edges(3);
    for (int s = 0; s < 3; s++) {
        (void)snprintf(plan.workers[s].node, sizeof plan.workers[s].node, "node-%d", s == 2);
        edges[s] = edges_of(&plan, s);
    }
    for (int s = 0; s < 3; s++)
        edges_add_copies(&edges[s], &plan, s);
    assert_int_equal(edges[0].n_kept, 1);
    assert_int_equal(edges[1].n_kept, 0);
    assert_int_equal(edges[2].n_kept, 2);
    for (int s = 0, next[3] = {0}; s < 3; s++) {
        int k = keepers[s];
        const struct copy_edges *kept = &edges[k].kept[next[k]++];

        assert_true(edges[s].has_keeper);
        check_ends(&edges[s].list[edges[s].keeper.copies], s, &edges[k].list[kept->copies], k);
        check_ends(&edges[k].list[kept->answers], k, &edges[s].list[edges[s].keeper.answers], s);
    }
    for (int s = 0; s < 3; s++)
        memset(plan.workers[s].node, 0, sizeof plan.workers[s].node);
}

static void edges_for_copies_are_none_on_one_node(void **state)
{
    struct edges edges = make_edges(3)[1];

    (void)state;
    edges_add_copies(&edges, &plan, 1);
    assert_false(edges.has_keeper);
    assert_int_equal(edges.n, 4);
    assert_int_equal(edges.n_kept, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_of_neighbours_are_the_same_edges),
        cmocka_unit_test(edges_of_the_first_and_the_last_stage_are_two),
        cmocka_unit_test(edges_of_a_single_stage_are_none),
        cmocka_unit_test(edges_carry_the_largest_messages_and_have_names),
        cmocka_unit_test(edges_keep_inputs_until_their_backward_pass),
        cmocka_unit_test(edges_of_replicas_are_the_same_on_both_ends),
        cmocka_unit_test(edges_lead_from_every_unit_to_its_home),
        cmocka_unit_test(edges_have_a_route_to_and_from_all_workers),
        cmocka_unit_test(edges_have_a_route_within_a_replica),
        cmocka_unit_test(edges_have_a_route_from_any_last_stage),
        cmocka_unit_test(edges_for_copies_lead_to_another_node_and_back),
        cmocka_unit_test(edges_for_copies_are_none_on_one_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
