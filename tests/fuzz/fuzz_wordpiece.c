/* The tokenizer: any bytes become ids of the vocabulary, and the words of the ids become the same
 * ids again. The first byte chooses between the cased and the uncased tokenizer. */
#include "text/wordpiece.h"

#include <string.h>

#include "fuzz.h"
#include "text/chars.h"

/* Letters of several scripts, so that words are found; and "[", so that a forged "[SEP]" has a
 * chance to be taken for one. */
static const char tokens[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[\n]\nsep\ncls\nthe\n##e\n##s\na\nb\nc\ne\nt\nh\n##a\n"
    "##b\n##c\n##t\n##h\nA\nThe\n##A\n.\n,\n!\n#\n##!\n\xcf\x83\n##\xcf\x83\n##\xcf\x82\n\xce\xb1\n"
    "##\xce\xb1\n\xe4\xb8\xad\n\xe6\x96\x87\n\xed\x95\x9c\n\xe1\x84\x92\n##\xe1\x85\xa1\n"
    "##\xe1\x86\xab\n\xc3\xa9\n##\xc3\xa9\n0\n1\n##0\n##1\n";

static struct token_list encode(struct wordpiece *w, const char *text, size_t n)
{
    struct token_list list = {0};

    MUST(wordpiece_encode(w, text, n, &list, NULL) == ERR_OK);
    return list;
}

static bool is_same(const struct token_list *a, const struct token_list *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->ids, b->ids, a->n * sizeof *a->ids) == 0);
}

static bool has(const struct token_list *list, int32_t id)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->ids[i] == id)
            return true;
    return false;
}

/* The ids as text. "##" ties a piece to the one before it. */
static char *text_of(const struct vocab *v, const struct token_list *list)
{
    char *text = malloc(list->n * (v->token_max_bytes + 1) + 1);
    size_t at = 0;

    MUST(text);
    for (size_t i = 0; i < list->n; i++) {
        const char *token = v->tokens[list->ids[i]];
        bool is_rest = strlen(token) > 2 && strncmp(token, "##", 2) == 0;

        if (i > 0 && !is_rest)
            text[at++] = ' ';
        memcpy(text + at, token + (is_rest ? 2 : 0), strlen(token) - (is_rest ? 2 : 0));
        at += strlen(token) - (is_rest ? 2 : 0);
    }
    text[at] = '\0';
    return text;
}

static void check_ids(struct wordpiece *w, const struct token_list *list)
{
    const struct vocab *v = w->vocab;
    struct token_list again;
    char *text;

    for (size_t i = 0; i < list->n; i++)
        MUST(list->ids[i] >= 0 && list->ids[i] < v->n_tokens);
    MUST(!has(list, v->pad) && !has(list, v->cls) && !has(list, v->sep));
    if (has(list, v->unk))
        return;
    text = text_of(v, list);
    again = encode(w, text, strlen(text));
    MUST(is_same(list, &again));
    token_list_deinit(&again);
    free(text);
}

/* A space separates: two texts beside each other have the tokens of both. */
static void check_halves(struct wordpiece *w, const char *text, size_t n)
{
    char *pair = malloc(2 * n + 1);
    struct token_list one = encode(w, text, n), two;

    MUST(pair);
    memcpy(pair, text, n);
    pair[n] = ' ';
    memcpy(pair + n + 1, text, n);
    two = encode(w, pair, 2 * n + 1);
    MUST(two.n == 2 * one.n);
    for (size_t i = 0; i < two.n; i++)
        MUST(two.ids[i] == one.ids[i % one.n]);
    token_list_deinit(&one);
    token_list_deinit(&two);
    free(pair);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct vocab vocab;
    struct token_list list = {0};
    struct wordpiece w;
    struct err err = {0};
    enum err_code rc;

    if (n == 0)
        return 0;
    if (vocab.n_tokens == 0)
        MUST(vocab_parse("vocab.txt", tokens, sizeof tokens - 1, &vocab, NULL) == ERR_OK);
    w = (struct wordpiece){.vocab = &vocab, .keep_case = bytes[0] & 1};
    rc = wordpiece_encode(&w, (const char *)bytes + 1, n - 1, &list, &err);
    MUST((rc == ERR_OK) == (chars_check((const char *)bytes + 1, n - 1) == n - 1));
    MUST(rc == ERR_OK || (rc == ERR_INVALID && list.n == 0));
    if (rc == ERR_OK) {
        check_ids(&w, &list);
        check_halves(&w, (const char *)bytes + 1, n - 1);
    }
    token_list_deinit(&list);
    wordpiece_deinit(&w);
    return 0;
}
