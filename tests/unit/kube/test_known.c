#include "kube/known.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define N_MANY 5000

static void add(struct known *k, const char *namespace, const char *name, uint64_t list)
{
    struct known_object *o = NULL;

    assert_int_equal(known_add(k, namespace, name, "uid", &o, NULL), ERR_OK);
    o->list = list;
}

static void known_finds_what_was_added_by_namespace_and_name(void **state)
{
    struct known k = {0};

    (void)state;
    assert_null(known_find(&k, "a", "b"));
    add(&k, "a", "b", 1);
    add(&k, "", "ab", 1);
    add(&k, "ab", "", 1);
    assert_string_equal(known_find(&k, "a", "b")->uid, "uid");
    assert_string_equal(known_find(&k, "", "ab")->name, "ab");
    assert_string_equal(known_find(&k, "ab", "")->namespace, "ab");
    assert_null(known_find(&k, "b", "a"));
    known_remove(&k, known_find(&k, "a", "b"));
    assert_null(known_find(&k, "a", "b"));
    assert_int_equal(k.n_objects, 2);
    known_deinit(&k);
    known_deinit(&k);
}

static void count(void *ctx, const struct known_object *o)
{
    int *n = ctx;

    (*n)++;
    assert_true(o->list == 1);
}

static void known_sweep_removes_exactly_what_a_list_did_not_see(void **state)
{
    struct known k = {0};
    char name[32];
    int n_vanished = 0;

    (void)state;
    for (int i = 0; i < N_MANY; i++) {
        (void)snprintf(name, sizeof name, "pod-%d", i);
        add(&k, "ns", name, i % 3 == 0 ? 1 : 2);
    }
    known_sweep(&k, 2, count, &n_vanished);
    assert_int_equal(n_vanished, (N_MANY + 2) / 3);
    assert_int_equal(k.n_objects, N_MANY - n_vanished);
    for (int i = 0; i < N_MANY; i++) {
        (void)snprintf(name, sizeof name, "pod-%d", i);
        assert_true((known_find(&k, "ns", name) != NULL) == (i % 3 != 0));
    }
    known_deinit(&k);
    known_sweep(&k, 3, count, &n_vanished);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_finds_what_was_added_by_namespace_and_name),
        cmocka_unit_test(known_sweep_removes_exactly_what_a_list_did_not_see),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
