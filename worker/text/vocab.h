/* text/vocab.h - the tokens of a model: vocab.txt, one token per line; its line number is its id.
 *
 * BERT's own format. [PAD], [UNK], [CLS] and [SEP] must be there. A token that appears twice keeps
 * its last line and an empty line only takes up an id, as in the reference tokenizer.
 * Layer: text. Threads: any, once loaded.
 */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

#define VOCAB_FILE            "vocab.txt"
#define VOCAB_TOKENS_MAX      (1 << 20)
#define VOCAB_TOKEN_MAX_BYTES 1024
#define VOCAB_FILE_MAX_BYTES  ((size_t)64 << 20)

struct vocab {
    int n_tokens;
    int32_t pad, unk, cls, sep; /* ids */
    int32_t mask;               /* [MASK]; -1: none */
    size_t token_max_bytes;     /* of the longest token */
    const char **tokens;        /* [n_tokens] by id */
    struct map ids;             /* private: of the tokens; owns their text */
};

/* Read a file. On ERR_OK the caller owns *out: vocab_deinit().
 *
 * Returns ERR_NOT_FOUND or ERR_DENIED for the file, ERR_INVALID with file and line for what is in
 * it, ERR_LIMIT, ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code vocab_load(const char *path, struct vocab *out, struct err *err);
/* The same from memory; `name` stands for the file in errors. `text` is copied. */
MUST_CHECK enum err_code vocab_parse(const char *name, const char *text, size_t len,
                                     struct vocab *out, struct err *err);

/* Write folder/vocab.txt. Errors of file_write(). */
MUST_CHECK enum err_code vocab_save(const struct vocab *v, const char *folder, struct err *err);

/* Id of a token, -1 if there is no such token. */
int32_t vocab_find(const struct vocab *v, const char *token, size_t len);

void vocab_deinit(struct vocab *v);

#endif
