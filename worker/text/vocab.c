#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "text/chars.h"

/* Add the line `text` as the next token. */
static enum err_code add_token(struct vocab *v, const char *name, const char *text, size_t n,
                               struct err *err)
{
    struct map_entry *entry;
    enum err_code rc;

    if (n > VOCAB_TOKEN_MAX_BYTES)
        return err_set(err, ERR_INVALID,
                       "%s line %d: token of %zu bytes; write one token per line, at most %d bytes",
                       name, v->n_tokens + 1, n, VOCAB_TOKEN_MAX_BYTES);
    if (chars_check(text, n) < n || memchr(text, '\0', n))
        return err_set(err, ERR_INVALID, "%s line %d: not UTF-8 text; convert the file to UTF-8",
                       name, v->n_tokens + 1);
    if (n > 0 && text[n - 1] == '\r')
        n--;
    rc = map_add(&v->ids, text, n, &entry, err);
    if (rc != ERR_OK)
        return rc;
    entry->value.number = (uint64_t)v->n_tokens; /* of a repeated token the last line counts */
    v->tokens[v->n_tokens++] = entry->key;
    if (n > v->token_max_bytes)
        v->token_max_bytes = n;
    return ERR_OK;
}

enum err_code vocab_parse(const char *name, const char *text, size_t len, struct vocab *out,
                          struct err *err)
{
    struct vocab v = {.mask = -1};
    const struct {
        const char *token;
        int32_t *id;
    } specials[] = {{"[MASK]", &v.mask},
                    {"[PAD]", &v.pad},
                    {"[UNK]", &v.unk},
                    {"[CLS]", &v.cls},
                    {"[SEP]", &v.sep}};
    size_t cap = 0;
    enum err_code rc = ERR_OK;

    if (len == 0)
        return err_set(err, ERR_INVALID, "%s: empty; it must contain one token per line", name);
    if (len > VOCAB_FILE_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "%s: larger than %zu bytes", name, VOCAB_FILE_MAX_BYTES);
    for (size_t at = 0; at < len && rc == ERR_OK;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;

        if (v.n_tokens == VOCAB_TOKENS_MAX)
            rc = err_set(err, ERR_LIMIT, "%s: more than %d tokens; is it a vocabulary?", name,
                         VOCAB_TOKENS_MAX);
        if (rc == ERR_OK)
            rc = array_reserve(&v.tokens, sizeof *v.tokens, &cap, (size_t)v.n_tokens + 1, err);
        if (rc == ERR_OK)
            rc = add_token(&v, name, text + at, n, err);
        at += n + 1;
    }
    for (size_t i = 0; i < sizeof specials / sizeof specials[0] && rc == ERR_OK; i++) {
        *specials[i].id = vocab_find(&v, specials[i].token, strlen(specials[i].token));
        if (*specials[i].id < 0 && specials[i].id != &v.mask)
            rc = err_set(err, ERR_INVALID,
                         "%s: no token \"%s\"; take the vocabulary that belongs to the model, or "
                         "add it",
                         name, specials[i].token);
    }
    if (rc == ERR_OK)
        *out = v;
    else
        vocab_deinit(&v);
    return rc;
}

enum err_code vocab_load(const char *path, struct vocab *out, struct err *err)
{
    struct buf text = {.max = VOCAB_FILE_MAX_BYTES};
    enum err_code rc = file_read(path, &text, err);

    if (rc == ERR_OK)
        rc = vocab_parse(path, buf_text(&text), text.len, out, err);
    buf_deinit(&text);
    return rc;
}

enum err_code vocab_save(const struct vocab *v, const char *folder, struct err *err)
{
    struct buf text = {.max = VOCAB_FILE_MAX_BYTES + VOCAB_TOKENS_MAX};
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, VOCAB_FILE, path, err);

    for (int32_t id = 0; id < v->n_tokens && rc == ERR_OK; id++)
        rc = buf_addf(&text, err, "%s\n", v->tokens[id]);
    if (rc == ERR_OK)
        rc = file_write(path, text.data, text.len, err);
    buf_deinit(&text);
    return rc;
}

int32_t vocab_find(const struct vocab *v, const char *token, size_t len)
{
    const struct map_entry *entry = map_find(&v->ids, token, len);

    return entry ? (int32_t)entry->value.number : -1;
}

void vocab_deinit(struct vocab *v)
{
    map_deinit(&v->ids);
    free(v->tokens);
    *v = (struct vocab){0};
}
