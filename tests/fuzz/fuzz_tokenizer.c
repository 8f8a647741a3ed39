/* tokenizer.json: every token is found under the id that the document gives it. */
#include "text/tokenizer.h"

#include <string.h>

#include "fuzz.h"

static void check_words(const struct json *root, const struct vocab *v)
{
    const struct json *words = json_path(root, "model.vocab");

    MUST((size_t)v->n_tokens == json_count(words));
    for (const struct json *word = json_first(words); word; word = json_next(word)) {
        const char *token = json_key(word);

        MUST(vocab_find(v, token, strlen(token)) == json_int(word, -1));
        MUST(strcmp(v->tokens[json_int(word, -1)], token) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct json *root = NULL;
    struct vocab v = {0};
    struct err err = {0};
    enum err_code rc = json_parse((const char *)bytes, n, &root, &err);

    if (rc == ERR_OK) {
        rc = tokenizer_vocab("tokenizer.json", root, &v, &err);
        MUST(rc == err.code);
        MUST(rc == ERR_OK || (rc == ERR_INVALID && strncmp(err.text, "tokenizer.json", 14) == 0));
        if (rc == ERR_OK)
            check_words(root, &v);
    }
    vocab_deinit(&v);
    json_free(root);
    return 0;
}
