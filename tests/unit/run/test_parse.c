/* What API objects mean for us. */
#include "run/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define CLAIM(mode, phase)                                                                         \
    "{\"spec\":{\"accessModes\":[\"ReadWriteOnce\"," mode "]},\"status\":{\"phase\":\"" phase "\"" \
    "}}"
#define MANY "\"ReadWriteMany\""
#define FREE "{\"spec\":{}}"
#define TIED "{\"spec\":{\"nodeAffinity\":{\"required\":{}}}}"

struct row {
    const char *name, *claim, *volume;
    bool want;
};

static struct row rows[] = {
    {"parse_lets_any_node_read_what_many_may_write", CLAIM(MANY, "Bound"), FREE, true},
    {"parse_lets_any_node_read_what_many_may_read", CLAIM("\"ReadOnlyMany\"", "Bound"), FREE, true},
    {"parse_keeps_a_volume_for_one_node_there", CLAIM("\"ReadWriteOncePod\"", "Bound"), FREE,
     false},
    {"parse_does_not_decide_where_a_claim_is_bound", CLAIM(MANY, "Pending"), FREE, false},
    {"parse_keeps_a_volume_that_is_tied_to_nodes_there", CLAIM(MANY, "Bound"), TIED, false},
    {"parse_reads_no_claim_without_its_volume", CLAIM(MANY, "Bound"), NULL, false},
    {"parse_reads_no_claim_that_is_not_there", NULL, NULL, false},
    {"parse_reads_no_claim_of_nonsense", "{\"spec\":{\"accessModes\":7},\"status\":[]}", FREE,
     false},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

static struct json *parse(const char *text)
{
    struct json *json = NULL;

    if (text)
        assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    return json;
}

static void check_row(void **state)
{
    const struct row *row = *state;
    struct json *claim = parse(row->claim);
    struct json *volume = parse(row->volume);

    assert_int_equal(parse_is_everywhere(claim, volume), row->want);
    json_free(claim);
    json_free(volume);
}

int main(void)
{
    struct CMUnitTest tests[N_ROWS];

    for (size_t i = 0; i < N_ROWS; i++)
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name, .test_func = check_row, .initial_state = &rows[i]};
    return _cmocka_run_group_tests("parse", tests, N_ROWS, NULL, NULL);
}
