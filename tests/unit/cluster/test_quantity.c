#include "cluster/quantity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BAD (-1)

struct row {
    const char *text;
    int64_t milli; /* BAD: refused */
    int64_t units;
};

static struct row rows[] = {
    {"0", 0, 0},
    {"1", 1000, 1},
    {"0.5", 500, 1},
    {"500m", 500, 1},
    {"1500m", 1500, 2},
    {"100m", 100, 1},
    {"0.1", 100, 1},
    {"1.5", 1500, 2},
    {".5", 500, 1},
    {"5.", 5000, 5},
    {"2k", 2000000, 2000},
    {"1Ki", 1024000, 1024},
    {"1.5Gi", 1610612736000, 1610612736},
    {"3Gi", 3221225472000, 3221225472},
    {"8127484Ki", 8322543616000, 8322543616},
    {"1e3", 1000000, 1000},
    {"1E3", 1000000, 1000},
    {"12e-1", 1200, 2},
    {"1e+3", 1000000, 1000},
    {"1u", 1, 1},
    {"1n", 1, 1},
    {"100000000n", 100, 1},
    {"0.0001", 1, 1},
    {"1E", BAD, 1000000000000000000},
    {"7Ei", BAD, 8070450532247928832},
    {"9Ei", BAD, BAD},
    {"1e18", BAD, 1000000000000000000},
    {"999999999999999999999", BAD, BAD},
    {"", BAD, BAD},
    {" 1", BAD, BAD},
    {"1 ", BAD, BAD},
    {"-1", BAD, BAD},
    {"+1", BAD, BAD},
    {".", BAD, BAD},
    {"..", BAD, BAD},
    {"1.2.3", BAD, BAD},
    {"1e", BAD, BAD},
    {"e3", BAD, BAD},
    {"1e3m", BAD, BAD},
    {"1e 3", BAD, BAD},
    {"1e99", BAD, BAD},
    {"1e-99", BAD, BAD},
    {"1e9999999999999999999", BAD, BAD},
    {"1ki", BAD, BAD},
    {"1K", BAD, BAD},
    {"1mi", BAD, BAD},
    {"1GiB", BAD, BAD},
    {"Gi", BAD, BAD},
    {"0x10", BAD, BAD},
    {"nan", BAD, BAD},
    {"inf", BAD, BAD},
    {"1,5", BAD, BAD},
    {"00000000000000000000000000000001", BAD, BAD},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    int64_t milli = BAD;
    int64_t units = BAD;
    enum err_code rc = quantity_milli(row->text, &milli, NULL);

    assert_int_equal(rc == ERR_OK, row->milli != BAD);
    assert_true(milli == row->milli);
    rc = quantity_units(row->text, &units, NULL);
    assert_int_equal(rc == ERR_OK, row->units != BAD);
    assert_true(units == row->units);
}

int main(void)
{
    enum { N = sizeof rows / sizeof rows[0] };
    static struct CMUnitTest tests[N];
    static char names[N][64];

    for (int i = 0; i < N; i++) {
        (void)snprintf(names[i], sizeof names[i], "quantity_%s \"%.40s\"",
                       rows[i].units == BAD ? "refuses" : "reads", rows[i].text);
        tests[i] = (struct CMUnitTest){names[i], check_row, NULL, NULL, &rows[i]};
    }
    return _cmocka_run_group_tests("quantity", tests, N, NULL, NULL);
}
