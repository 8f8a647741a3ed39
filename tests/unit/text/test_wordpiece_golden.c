/* 10,000 lines, ordinary and hostile, against the reference tokenizer: see
 * hack/gen-golden-tokens.py, which also tells what the reference makes of a line. */
#include "text/wordpiece.h"

#include "base/hash.h"
#include "scratch.h"
#include "text/chars.h"
#include "text/lines.h"

#define GOLDEN_LINES "tests/unit/text/golden_tokens.txt"
#define GOLDEN_VOCAB "tests/unit/text/golden_vocab.txt"
#define N_LINES      10000
#define N_SHOWN      10

static struct vocab vocab;

/* "\{hex}" stands for one character. */
static void unescape(const char *text, size_t len, struct buf *out)
{
    char utf8[4];

    buf_reset(out);
    for (size_t i = 0; i < len; i++) {
        char *end;

        if (text[i] != '\\') {
            assert_int_equal(buf_add(out, text + i, 1, NULL), ERR_OK);
            continue;
        }
        assert_int_equal(
            buf_add(out, utf8, chars_encode((int32_t)strtol(text + i + 2, &end, 16), utf8), NULL),
            ERR_OK);
        assert_int_equal(*end, '}');
        i = (size_t)(end - text);
    }
}

static void join(const struct token_list *list, struct buf *out)
{
    buf_reset(out);
    for (size_t i = 0; i < list->n; i++)
        assert_int_equal(
            buf_addf(out, NULL, "%s%s", i ? " " : "", vocab_token(&vocab, list->ids[i])), ERR_OK);
}

static uint32_t fold(const struct buf *text)
{
    uint64_t hash = hash_bytes(HASH_START, buf_text(text), text->len);

    return (uint32_t)(hash >> 32 ^ hash);
}

static void check_lines(bool keep_case)
{
    struct buf text = {.max = LINES_MAX_BYTES};
    struct buf got = {.max = LINES_MAX_BYTES};
    struct token_list list = {0};
    struct wordpiece w;
    struct lines lines;
    const char *line;
    size_t len;
    bool end = false;
    int n_bad = 0;

    wordpiece_init(&w, &vocab, keep_case);
    assert_int_equal(lines_open(GOLDEN_LINES, &lines, NULL), ERR_OK);
    while (lines_next(&lines, &line, &len, &end, NULL) == ERR_OK && !end) {
        uint32_t want = (uint32_t)strtoul(line + (keep_case ? 9 : 0), NULL, 16);

        unescape(line + 18, len - 18, &text);
        list.n = 0;
        assert_int_equal(wordpiece_encode(&w, buf_text(&text), text.len, &list, NULL), ERR_OK);
        join(&list, &got);
        if (fold(&got) != want && n_bad++ < N_SHOWN)
            print_error("line %d: \"%.*s\" became: %s\n", (int)lines_number(&lines), (int)len - 18,
                        line + 18, buf_text(&got));
    }
    assert_true(end);
    assert_int_equal(lines_number(&lines), N_LINES);
    if (n_bad > 0)
        fail_msg("%d lines differ; `hack/gen-golden-tokens.py show N` tells what line N should be",
                 n_bad);
    lines_close(&lines);
    wordpiece_deinit(&w);
    token_list_deinit(&list);
    buf_deinit(&text);
    buf_deinit(&got);
}

static void wordpiece_gives_the_reference_tokens_of_10000_lines(void **state)
{
    (void)state;
    check_lines(false);
}

static void wordpiece_gives_the_reference_tokens_of_10000_lines_with_case(void **state)
{
    (void)state;
    check_lines(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wordpiece_gives_the_reference_tokens_of_10000_lines),
        cmocka_unit_test(wordpiece_gives_the_reference_tokens_of_10000_lines_with_case),
    };
    struct err err;
    int failed;

    if (vocab_load(GOLDEN_VOCAB, &vocab, &err) != ERR_OK) {
        print_error("%s\n", err.text);
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    vocab_deinit(&vocab);
    return failed;
}
