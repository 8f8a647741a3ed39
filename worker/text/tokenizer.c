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
                       json_text(model, "type"));
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

/* The vocabulary as vocab.txt would have it: tokens by id, each of 0..n-1 once. */
static enum err_code write_lines(const char *name, const struct json *words, struct buf *out,
                                 struct err *err)
{
    size_t n = json_count(words);
    const char **tokens = calloc(n + 1, sizeof *tokens);
    enum err_code rc =
        tokens ? ERR_OK : err_set(err, ERR_NO_MEMORY, "%s: no memory for %zu tokens", name, n);

    for (const struct json *v = json_first(words); v && rc == ERR_OK; v = json_next(v)) {
        int64_t id = json_i64(v, -1);

        if (id < 0 || id >= (int64_t)n || tokens[id])
            rc = err_set(err, ERR_INVALID,
                         "%s: model.vocab: the id of \"%.40s\" must be a whole number in 0..%zu "
                         "that no other token has",
                         name, json_key(v), n - 1);
        else
            tokens[id] = json_key(v);
    }
    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        if (strpbrk(tokens[i], "\r\n"))
            rc =
                err_set(err, ERR_INVALID, "%s: model.vocab: token %zu holds a line break", name, i);
        else
            rc = buf_addf(out, err, "%s\n", tokens[i]);
    }
    free(tokens);
    return rc;
}

enum err_code tokenizer_vocab(const char *name, const struct json *root, struct vocab *out,
                              struct err *err)
{
    const struct json *added = json_first(json_get(root, "added_tokens"));
    struct buf text = {.max = VOCAB_FILE_MAX_BYTES};
    struct vocab vocab = {0};
    enum err_code rc = check_model(name, root, err);

    if (rc == ERR_OK)
        rc = write_lines(name, json_path(root, "model.vocab"), &text, err);
    if (rc == ERR_OK)
        rc = vocab_parse(name, buf_text(&text), text.len, &vocab, err);
    /* A token that was added later is cut out of the text before WordPiece sees it, which SkyJob
     * does not do. Those of the vocabulary are [CLS] and its like. */
    for (; added && rc == ERR_OK; added = json_next(added)) {
        const char *token = json_text(added, "content");

        if (vocab_find(&vocab, token, strlen(token)) < 0)
            rc = err_set(err, ERR_INVALID,
                         "%s: added_tokens: \"%.40s\" is not in model.vocab; tokens that were "
                         "added to a vocabulary are not supported",
                         name, token);
    }
    if (rc == ERR_OK)
        *out = vocab;
    else
        vocab_deinit(&vocab);
    buf_deinit(&text);
    return rc;
}

/* --- case --- */

/* What two files have in common: three switches, of which BERT uses two combinations. Absent or
 * null, a switch is not stated; accents go with lower case then, and Chinese is split. */
static const struct switches {
    const char *file;
    const char *lower_case, *strip_accents, *split_chinese; /* paths in it */
} config_switches = {CONFIG_FILE, "do_lower_case", "strip_accents", "tokenize_chinese_chars"},
  json_switches = {TOKENIZER_JSON_FILE, "normalizer.lowercase", "normalizer.strip_accents",
                   "normalizer.handle_chinese_chars"};

/* Leaves *out alone where the file does not state the case. */
static enum err_code read_case(const char *folder, const struct json *root,
                               const struct switches *s, enum spec_case *out, struct err *err)
{
    const struct json *lower_case = json_path(root, s->lower_case);
    bool lower = json_bool(lower_case, false);

    if (!json_bool(json_path(root, s->split_chinese), true))
        return err_set(err, ERR_INVALID,
                       "%s/%s: does not split Chinese characters, which SkyJob always does; use "
                       "another model",
                       folder, s->file);
    if (json_kind_of(lower_case) != JSON_BOOL)
        return ERR_OK;
    if (json_bool(json_path(root, s->strip_accents), lower) != lower)
        return err_set(err, ERR_INVALID,
                       "%s/%s: %s, but SkyJob does both (uncased) or neither (cased); use another "
                       "model",
                       folder, s->file,
                       lower ? "lower-cases text and keeps its accents"
                             : "keeps capitals and strips accents");
    *out = lower ? SPEC_CASE_UNCASED : SPEC_CASE_CASED;
    return ERR_OK;
}

/* --- a folder --- */

/* What the files of one folder state. */
struct found {
    struct vocab vocab;
    enum spec_case config_case; /* of tokenizer_config.json */
    enum spec_case json_case;   /* of tokenizer.json */
};

static enum err_code read_folder(const char *folder, bool wants_vocab, struct found *out,
                                 struct err *err)
{
    bool has_text = folder_has(folder, VOCAB_FILE);
    struct json *config = NULL;
    struct json *json = NULL;
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, has_text ? VOCAB_FILE : TOKENIZER_JSON_FILE, path, err);

    if (rc == ERR_OK && folder_has(folder, CONFIG_FILE))
        rc = folder_json(folder, CONFIG_FILE, &config, err);
    if (rc == ERR_OK)
        rc = read_case(folder, config, &config_switches, &out->config_case, err);
    if (rc == ERR_OK && wants_vocab && has_text)
        rc = vocab_load(path, &out->vocab, err);
    if (rc == ERR_OK && folder_has(folder, TOKENIZER_JSON_FILE))
        rc = folder_json(folder, TOKENIZER_JSON_FILE, &json, err);
    if (rc == ERR_OK && wants_vocab && !has_text)
        rc = tokenizer_vocab(path, json, &out->vocab, err);
    if (rc == ERR_OK && is_text(json_path(json, "normalizer.type"), "BertNormalizer"))
        rc = read_case(folder, json, &json_switches, &out->json_case, err);
    json_free(config);
    json_free(json);
    return rc;
}

static bool has_vocab(const char *folder)
{
    return folder && (folder_has(folder, VOCAB_FILE) || folder_has(folder, TOKENIZER_JSON_FILE));
}

static enum err_code settle_case(const char *folder, const struct found *found,
                                 enum spec_case asked, bool *out_is_cased, struct err *err)
{
    static const char *const names[] = {
        [SPEC_CASE_UNCASED] = "Uncased", [SPEC_CASE_CASED] = "Cased"};
    static const char *const kinds[] = {
        [SPEC_CASE_UNCASED] = "an uncased", [SPEC_CASE_CASED] = "a cased"};
    enum spec_case stated =
        found->config_case != SPEC_CASE_ABSENT ? found->config_case : found->json_case;

    if (found->json_case != SPEC_CASE_ABSENT && found->json_case != stated)
        return err_set(err, ERR_INVALID,
                       "%s: %s is of %s model but %s of %s one; correct the one that is wrong",
                       folder, CONFIG_FILE, kinds[stated], TOKENIZER_JSON_FILE,
                       kinds[found->json_case]);
    if (stated != SPEC_CASE_ABSENT && asked != SPEC_CASE_ABSENT && stated != asked)
        return err_set(err, ERR_INVALID,
                       "spec.model.case is %s but the model in %s is %s by its own files: leave "
                       "spec.model.case out",
                       names[asked], folder, names[stated]);
    if (asked != SPEC_CASE_ABSENT)
        stated = asked;
    *out_is_cased = stated == SPEC_CASE_CASED;
    /* A vocabulary with capitals is cased; [PAD] and its like are in capitals everywhere. */
    for (int32_t id = 0; stated == SPEC_CASE_ABSENT && id < found->vocab.n_tokens; id++) {
        const char *token = found->vocab.tokens[id];
        char first = strncmp(token, "##", 2) == 0 ? token[2] : token[0];

        *out_is_cased |= first >= 'A' && first <= 'Z';
    }
    return ERR_OK;
}

enum err_code tokenizer_load(const char *data_folder, const char *model_folder,
                             enum spec_case asked, struct tokenizer *out, struct err *err)
{
    bool is_models = has_vocab(model_folder);
    const char *folder = is_models ? model_folder : data_folder;
    struct found found = {.config_case = SPEC_CASE_ABSENT, .json_case = SPEC_CASE_ABSENT};
    bool is_cased = false;
    enum err_code rc;

    if (!has_vocab(folder))
        return err_set(err, ERR_NOT_FOUND,
                       "%s has neither %s nor %s; put the vocabulary beside the data, or beside "
                       "the weights that spec.model.from names",
                       folder ? folder : model_folder, VOCAB_FILE, TOKENIZER_JSON_FILE);
    rc = read_folder(folder, true, &found, err);
    if (rc == ERR_OK && model_folder && !is_models)
        rc = read_folder(model_folder, false, &found, err); /* it may state the case */
    if (rc == ERR_OK)
        rc = settle_case(model_folder ? model_folder : folder, &found, asked, &is_cased, err);
    if (rc == ERR_OK)
        *out = (struct tokenizer){.vocab = found.vocab, .is_cased = is_cased};
    else
        vocab_deinit(&found.vocab);
    return rc;
}

void tokenizer_deinit(struct tokenizer *t)
{
    vocab_deinit(&t->vocab);
    *t = (struct tokenizer){0};
}
