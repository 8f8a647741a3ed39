#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "text/chars.h"

/* Count the lines and check each: what follows may trust the text. */
static enum err_code check_lines(const char *name, const char *text, size_t len, int *out_lines,
                                 struct err *err)
{
    int lines = 0;

    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;

        lines++;
        if (lines > VOCAB_TOKENS_MAX)
            return err_set(err, ERR_LIMIT, "%s: more than %d tokens; is it a vocabulary?", name,
                           VOCAB_TOKENS_MAX);
        if (n > VOCAB_TOKEN_MAX_BYTES)
            return err_set(err, ERR_INVALID,
                           "%s line %d: token of %zu bytes; put one token on a line, at most %d "
                           "bytes",
                           name, lines, n, VOCAB_TOKEN_MAX_BYTES);
        if (chars_check(text + at, n) < n || memchr(text + at, '\0', n))
            return err_set(err, ERR_INVALID,
                           "%s line %d: not UTF-8 text; convert the file to UTF-8", name, lines);
        at += n + 1;
    }
    *out_lines = lines;
    return ERR_OK;
}

/* The slot that holds `token`, or the free one where it belongs. */
static size_t slot_of(const struct vocab *v, const char *token, size_t len)
{
    size_t mask = v->n_slots - 1;
    size_t i = (size_t)hash_bytes(HASH_START, token, len) & mask;

    while (v->slots[i] >= 0) {
        const char *other = vocab_token(v, v->slots[i]);

        if (strlen(other) == len && memcmp(other, token, len) == 0)
            break;
        i = (i + 1) & mask;
    }
    return i;
}

/* Copy the lines, each closed by a NUL, and enter them into the table. */
static void fill(struct vocab *v, const char *text, size_t len)
{
    char *to = v->text;

    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        size_t kept = n > 0 && text[at + n - 1] == '\r' ? n - 1 : n;

        v->starts[v->n_tokens] = (uint32_t)(to - v->text);
        memcpy(to, text + at, kept);
        to[kept] = '\0';
        v->slots[slot_of(v, to, kept)] = v->n_tokens++;
        if (kept > v->token_max_bytes)
            v->token_max_bytes = kept;
        to += kept + 1;
        at += n + 1;
    }
    v->starts[v->n_tokens] = (uint32_t)(to - v->text);
}

static enum err_code find_special(const char *name, const struct vocab *v, const char *token,
                                  int32_t *out_id, struct err *err)
{
    int32_t id = vocab_find(v, token, strlen(token));

    if (id < 0)
        return err_set(err, ERR_INVALID,
                       "%s: no token \"%s\"; take the vocabulary that belongs to the model, or add "
                       "it",
                       name, token);
    *out_id = id;
    return ERR_OK;
}

static enum err_code find_specials(const char *name, struct vocab *v, struct err *err)
{
    enum err_code rc = find_special(name, v, "[PAD]", &v->pad, err);

    if (rc == ERR_OK)
        rc = find_special(name, v, "[UNK]", &v->unk, err);
    if (rc == ERR_OK)
        rc = find_special(name, v, "[CLS]", &v->cls, err);
    if (rc == ERR_OK)
        rc = find_special(name, v, "[SEP]", &v->sep, err);
    v->mask = vocab_find(v, "[MASK]", strlen("[MASK]"));
    return rc;
}

enum err_code vocab_parse(const char *name, const char *text, size_t len, struct vocab *out,
                          struct err *err)
{
    struct vocab v = {0};
    enum err_code rc;
    int lines = 0;

    if (len == 0)
        return err_set(err, ERR_INVALID, "%s: empty; it must hold one token a line", name);
    if (len > VOCAB_FILE_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "%s: larger than %zu bytes", name, VOCAB_FILE_MAX_BYTES);
    rc = check_lines(name, text, len, &lines, err);
    if (rc != ERR_OK)
        return rc;
    v.n_slots = 16;
    while (v.n_slots < 2 * (size_t)lines)
        v.n_slots *= 2;
    v.text = malloc(len + 1);
    v.starts = calloc((size_t)lines + 1, sizeof *v.starts);
    v.slots = malloc(v.n_slots * sizeof *v.slots);
    if (!v.text || !v.starts || !v.slots) {
        rc = err_set(err, ERR_NO_MEMORY, "%s: no memory for %d tokens", name, lines);
        goto out;
    }
    memset(v.slots, 0xff, v.n_slots * sizeof *v.slots); /* all -1 */
    fill(&v, text, len);
    rc = find_specials(name, &v, err);
    if (rc != ERR_OK)
        goto out;

    *out = v;
    v = (struct vocab){0};
out:
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

int32_t vocab_find(const struct vocab *v, const char *token, size_t len)
{
    return v->slots[slot_of(v, token, len)];
}

const char *vocab_token(const struct vocab *v, int32_t id)
{
    return v->text + v->starts[id];
}

void vocab_deinit(struct vocab *v)
{
    free(v->text);
    free(v->starts);
    free(v->slots);
    *v = (struct vocab){0};
}
