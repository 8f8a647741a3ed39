/* files/alias.h - the names that one tensor goes by in other people's files.
 *
 * Ours are those of transformers' BertForSequenceClassification and BertForPreTraining. Older
 * checkpoints have gamma and beta for LayerNorm's weight and bias; a bare BertModel has no "bert."
 * in front.
 * Layer: files. Threads: any; pure.
 */
#ifndef FILES_ALIAS_H
#define FILES_ALIAS_H

#include "api/model.h"

#define ALIAS_MAX 5

/* The name number `i`, 0 <= i < ALIAS_MAX, most usual first, of the tensor that we call `name`;
 * false when it has no such one. */
bool alias_make(const char *name, int i, char out[static MODEL_NAME_BYTES]);

#endif
