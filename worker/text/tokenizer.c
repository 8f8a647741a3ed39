#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "text/wordpiece.h"

#define CONFIG_FILE "tokenizer_config.json"

/* --- the vocabulary of a tokenizer.json --- */

static bool is_text(const struct json *v, const char *text)
{
    return strcmp(json_string(v, ""), text) == 0;
}

static enum err_code check_model(const char *name, const struct json *root, struct err *err)
{
    const struct json *model = json_get(root, "model");
    const struct json *longest = json_get(model, "max_input_chars_per_word");

    if (!is_text(json_get(model, "type"), "WordPiece"))
        return err_set(err, ERR_INVALID,
                       "%s: model.type is \"%.32s\"; SkyJob reads \"WordPiece\" only", name,
                       json_string(json_get(model, "type"), ""));
    if (!is_text(json_get(model, "unk_token"), "[UNK]") ||
        !is_text(json_get(model, "continuing_subword_prefix"), "##"))
        return err_set(err, ERR_INVALID,
                       "%s: model.unk_token must be \"[UNK]\" and "
                       "model.continuing_subword_prefix \"##\", as in every BERT",
                       name);
    if (longest && json_i64(longest, 0) != WORDPIECE_WORD_MAX)
        return err_set(err, ERR_INVALID, "%s: model.max_input_chars_per_word must be %d", name,
                       WORDPIECE_WORD_MAX);
    if (json_kind_of(json_get(model, "vocab")) != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "%s: model.vocab must be an object", name);
    if (!is_text(json_path(root, "normalizer.type"), "BertNormalizer") ||
        !is_text(json_path(root, "pre_tokenizer.type"), "BertPreTokenizer"))
        return err_set(err, ERR_INVALID,
                       "%s: normalizer and pre_tokenizer must be BertNormalizer and "
                       "BertPreTokenizer",
                       name);
    return ERR_OK;
}

/* Order the tokens by id: each of 0..n-1 must be there once. */
static enum err_code order_tokens(const char *name, const struct json *words, const char **tokens,
                                  size_t n, struct err *err)
{
    for (const struct json *v = json_first(words); v; v = json_next(v)) {
        int64_t id = json_i64(v, -1);

        if (id < 0 || id >= (int64_t)n || tokens[id])
            return err_set(err, ERR_INVALID,
                           "%s: model.vocab: the id of \"%.40s\" must be a whole number in 0..%zu "
                           "that no other token has",
                           name, json_key(v), n - 1);
        tokens[id] = json_key(v);
    }
    return ERR_OK;
}

/* As vocab.txt would have it. */
static enum err_code write_lines(const char *name, const char **tokens, size_t n, struct buf *out,
                                 struct err *err)
{
    enum err_code rc = ERR_OK;

    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        if (strpbrk(tokens[i], "\r\n"))
            return err_set(err, ERR_INVALID, "%s: model.vocab: token %zu holds a line break", name,
                           i);
        rc = buf_addf(out, err, "%s\n", tokens[i]);
    }
    return rc;
}

/* A token that was added later is cut out of the text before WordPiece sees it, which SkyJob does
 * not do. Those of the vocabulary are [CLS] and its like. */
static enum err_code check_added(const char *name, const struct json *root,
                                 const struct vocab *vocab, struct err *err)
{
    for (const struct json *v = json_first(json_get(root, "added_tokens")); v; v = json_next(v)) {
        const char *token = json_string(json_get(v, "content"), "");

        if (vocab_find(vocab, token, strlen(token)) < 0)
            return err_set(err, ERR_INVALID,
                           "%s: added_tokens: \"%.40s\" is not in model.vocab; tokens that were "
                           "added to a vocabulary are not supported",
                           name, token);
    }
    return ERR_OK;
}

enum err_code tokenizer_vocab(const char *name, const struct json *root, struct vocab *out,
                              struct err *err)
{
    const struct json *words = json_path(root, "model.vocab");
    size_t n = json_count(words);
    struct buf text = {.max = VOCAB_FILE_MAX_BYTES};
    struct vocab vocab = {0};
    const char **tokens = NULL;
    enum err_code rc = check_model(name, root, err);

    if (rc != ERR_OK)
        return rc;
    tokens = calloc(n + 1, sizeof *tokens);
    if (!tokens)
        return err_set(err, ERR_NO_MEMORY, "%s: no memory for %zu tokens", name, n);
    rc = order_tokens(name, words, tokens, n, err);
    if (rc == ERR_OK)
        rc = write_lines(name, tokens, n, &text, err);
    if (rc == ERR_OK)
        rc = vocab_parse(name, buf_text(&text), text.len, &vocab, err);
    if (rc == ERR_OK)
        rc = check_added(name, root, &vocab, err);
    if (rc == ERR_OK) {
        *out = vocab;
        vocab = (struct vocab){0};
    }
    vocab_deinit(&vocab);
    free(tokens);
    buf_deinit(&text);
    return rc;
}

/* --- case --- */

/* What the two files have in common: three switches, of which BERT uses two combinations. */
struct switches {
    const struct json *lower_case;    /* NULL or null: not stated */
    const struct json *strip_accents; /* likewise: as lower_case */
    const struct json *split_chinese; /* likewise: yes */
};

static bool is_stated(const struct json *v)
{
    return json_kind_of(v) == JSON_BOOL;
}

/* Leaves *out alone where the file does not state the case. */
static enum err_code read_case(const char *path, const struct switches *s, enum tokenizer_case *out,
                               struct err *err)
{
    bool lower;

    if (!json_bool(s->split_chinese, true))
        return err_set(err, ERR_INVALID,
                       "%s: does not split Chinese characters, which SkyJob always does; use "
                       "another model",
                       path);
    if (!is_stated(s->lower_case))
        return ERR_OK;
    lower = json_bool(s->lower_case, false);
    if (is_stated(s->strip_accents) && json_bool(s->strip_accents, false) != lower)
        return err_set(err, ERR_INVALID,
                       "%s: %s, but SkyJob does both (uncased) or neither (cased); use another "
                       "model",
                       path,
                       lower ? "lower-cases text and keeps its accents"
                             : "keeps capitals and strips accents");
    *out = lower ? TOKENIZER_CASE_UNCASED : TOKENIZER_CASE_CASED;
    return ERR_OK;
}

static bool is_capital(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* [PAD] and its like are in capitals everywhere. */
static bool has_capitals(const struct vocab *vocab)
{
    for (int32_t id = 0; id < vocab->n_tokens; id++) {
        const char *token = vocab_token(vocab, id);

        if (token[0] != '[' &&
            (is_capital(token[0]) || (strncmp(token, "##", 2) == 0 && is_capital(token[2]))))
            return true;
    }
    return false;
}

static const char *case_name(enum tokenizer_case letters)
{
    return letters == TOKENIZER_CASE_CASED ? "Cased" : "Uncased";
}

/* --- a folder --- */

/* What the files of one folder state. */
struct found {
    struct vocab vocab;
    enum tokenizer_case config_case; /* of tokenizer_config.json */
    enum tokenizer_case json_case;   /* of tokenizer.json */
};

static enum err_code read_config(const char *folder, struct found *out, struct err *err)
{
    struct json *root = NULL;
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, CONFIG_FILE, path, err);

    if (rc == ERR_OK)
        rc = folder_json(folder, CONFIG_FILE, &root, err);
    if (rc == ERR_OK) {
        const struct switches s = {json_get(root, "do_lower_case"), json_get(root, "strip_accents"),
                                   json_get(root, "tokenize_chinese_chars")};

        rc = read_case(path, &s, &out->config_case, err);
    }
    json_free(root);
    return rc;
}

static enum err_code read_json(const char *folder, bool wants_vocab, struct found *out,
                               struct err *err)
{
    struct json *root = NULL;
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, TOKENIZER_JSON_FILE, path, err);

    if (rc == ERR_OK)
        rc = folder_json(folder, TOKENIZER_JSON_FILE, &root, err);
    if (rc == ERR_OK && wants_vocab)
        rc = tokenizer_vocab(path, root, &out->vocab, err);
    if (rc == ERR_OK && is_text(json_path(root, "normalizer.type"), "BertNormalizer")) {
        const struct switches s = {json_path(root, "normalizer.lowercase"),
                                   json_path(root, "normalizer.strip_accents"),
                                   json_path(root, "normalizer.handle_chinese_chars")};

        rc = read_case(path, &s, &out->json_case, err);
    }
    json_free(root);
    return rc;
}

static enum err_code read_text(const char *folder, struct vocab *out, struct err *err)
{
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, VOCAB_FILE, path, err);

    return rc == ERR_OK ? vocab_load(path, out, err) : rc;
}

static enum err_code read_folder(const char *folder, bool wants_vocab, struct found *out,
                                 struct err *err)
{
    bool has_text = folder_has(folder, VOCAB_FILE);
    enum err_code rc = ERR_OK;

    if (folder_has(folder, CONFIG_FILE))
        rc = read_config(folder, out, err);
    if (rc == ERR_OK && wants_vocab && has_text)
        rc = read_text(folder, &out->vocab, err);
    if (rc == ERR_OK && folder_has(folder, TOKENIZER_JSON_FILE))
        rc = read_json(folder, wants_vocab && !has_text, out, err);
    return rc;
}

static bool has_vocab(const char *folder)
{
    return folder && (folder_has(folder, VOCAB_FILE) || folder_has(folder, TOKENIZER_JSON_FILE));
}

static enum err_code settle_case(const char *folder, const struct found *found,
                                 enum tokenizer_case asked, bool *out_is_cased, struct err *err)
{
    enum tokenizer_case stated =
        found->config_case != TOKENIZER_CASE_ABSENT ? found->config_case : found->json_case;

    if (found->json_case != TOKENIZER_CASE_ABSENT && found->json_case != stated)
        return err_set(err, ERR_INVALID,
                       "%s: %s is of a%s model but %s of a%s one; correct the one that is wrong",
                       folder, CONFIG_FILE, stated == TOKENIZER_CASE_CASED ? " cased" : "n uncased",
                       TOKENIZER_JSON_FILE,
                       found->json_case == TOKENIZER_CASE_CASED ? " cased" : "n uncased");
    if (stated != TOKENIZER_CASE_ABSENT && asked != TOKENIZER_CASE_ABSENT && stated != asked)
        return err_set(err, ERR_INVALID,
                       "spec.model.case is %s but the model in %s is %s by its own files: leave "
                       "spec.model.case out",
                       case_name(asked), folder, case_name(stated));
    if (asked != TOKENIZER_CASE_ABSENT)
        stated = asked;
    *out_is_cased = stated == TOKENIZER_CASE_ABSENT ? has_capitals(&found->vocab)
                                                    : stated == TOKENIZER_CASE_CASED;
    return ERR_OK;
}

enum err_code tokenizer_load(const char *data_folder, const char *model_folder,
                             enum tokenizer_case asked, struct tokenizer *out, struct err *err)
{
    bool is_models = has_vocab(model_folder);
    const char *folder = is_models ? model_folder : data_folder;
    struct found found = {.config_case = TOKENIZER_CASE_ABSENT, .json_case = TOKENIZER_CASE_ABSENT};
    bool is_cased = false;
    enum err_code rc;

    if (!has_vocab(folder))
        return err_set(err, ERR_NOT_FOUND,
                       "%s/%s is not there, and no %s; the vocabulary must lie beside the data, or "
                       "beside the weights that spec.model.from names",
                       folder ? folder : model_folder, VOCAB_FILE, TOKENIZER_JSON_FILE);
    rc = read_folder(folder, true, &found, err);
    if (rc == ERR_OK && model_folder && !is_models)
        rc = read_folder(model_folder, false, &found, err); /* the case at least is there */
    if (rc == ERR_OK)
        rc = settle_case(model_folder ? model_folder : folder, &found, asked, &is_cased, err);
    if (rc != ERR_OK) {
        vocab_deinit(&found.vocab);
        return rc;
    }
    *out = (struct tokenizer){.vocab = found.vocab, .is_cased = is_cased};
    return ERR_OK;
}

void tokenizer_deinit(struct tokenizer *t)
{
    vocab_deinit(&t->vocab);
    *t = (struct tokenizer){0};
}
