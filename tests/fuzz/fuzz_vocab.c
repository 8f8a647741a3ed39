/* Vocabularies: every token is found under the id of its last line, and nothing else is. */
#include "text/vocab.h"

#include <string.h>

#include "fuzz.h"
#include "text/chars.h"

static void check_token(const struct vocab *v, int32_t id)
{
    const char *token = v->tokens[id];
    int32_t found = vocab_find(v, token, strlen(token));

    MUST(strlen(token) <= v->token_max_bytes);
    MUST(strchr(token, '\n') == NULL);
    MUST(chars_check(token, strlen(token)) == strlen(token));
    MUST(found >= id && found < v->n_tokens);
    MUST(strcmp(v->tokens[found], token) == 0);
}

/* Lines of the text, by another way than the parser's. */
static int count_lines(const char *text, size_t n)
{
    int lines = n > 0 && text[n - 1] != '\n';

    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *text = (const char *)bytes;
    struct vocab v = {0};
    struct err err = {0};
    enum err_code rc = vocab_parse("vocab.txt", text, n, &v, &err);

    MUST(rc == err.code);
    if (rc != ERR_OK) {
        MUST(rc == ERR_INVALID && strncmp(err.text, "vocab.txt", 9) == 0);
        return 0;
    }
    MUST(v.n_tokens == count_lines(text, n));
    MUST(v.token_max_bytes <= VOCAB_TOKEN_MAX_BYTES);
    MUST(strcmp(v.tokens[v.pad], "[PAD]") == 0);
    MUST(strcmp(v.tokens[v.unk], "[UNK]") == 0);
    MUST(strcmp(v.tokens[v.cls], "[CLS]") == 0);
    MUST(strcmp(v.tokens[v.sep], "[SEP]") == 0);
    for (int32_t id = 0; id < v.n_tokens; id++)
        check_token(&v, id);
    MUST(vocab_find(&v, "a\nb", 3) == -1);
    vocab_deinit(&v);
    return 0;
}
