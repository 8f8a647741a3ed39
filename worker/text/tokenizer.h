/* text/tokenizer.h - a model's tokenizer: its vocabulary and its case.
 *
 * The vocabulary is vocab.txt or, as current transformers saves it, the WordPiece model in
 * tokenizer.json. Case is a property of the model and is read from its own files:
 * `do_lower_case` in tokenizer_config.json, the normalizer in tokenizer.json. What those files
 * request and SkyJob does not support (lower case with accents, for example) is refused. Layer:
 * text. Threads: any; everything is read, nothing kept.
 */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "api/spec.h"
#include "base/json.h"
#include "text/vocab.h"

#define TOKENIZER_JSON_FILE "tokenizer.json"

struct tokenizer {
    struct vocab vocab;
    bool is_cased; /* keeps capitals and accents */
};

/* Read the tokenizer of the model in `model_folder` (NULL: trained from scratch); where that holds
 * no vocabulary, the one in `data_folder` (NULL: none).
 *
 * `asked` is spec.model.case. A value that contradicts the files is refused; without one, and
 * where no file states the case, a vocabulary with capitals is cased.
 *
 * On ERR_OK the caller owns *out: tokenizer_deinit(). ERR_NOT_FOUND: no vocabulary; ERR_INVALID
 * names the file and what is wrong in it; errors of vocab_load() and folder_json().
 */
MUST_CHECK enum err_code tokenizer_load(const char *data_folder, const char *model_folder,
                                        enum spec_case asked, struct tokenizer *out,
                                        struct err *err);
void tokenizer_deinit(struct tokenizer *t); /* a zeroed one is fine */

/* The vocabulary in a parsed tokenizer.json; `name` stands for the file in errors. Errors as
 * above. */
MUST_CHECK enum err_code tokenizer_vocab(const char *name, const struct json *root,
                                         struct vocab *out, struct err *err);

#endif
