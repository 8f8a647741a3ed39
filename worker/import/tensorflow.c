#include "import/tensorflow.h"

#include <stdio.h>
#include <string.h>

#include "import/bundle.h"

void tensorflow_name(const char *name, char out[static MODEL_NAME_BYTES], bool *out_transposed)
{
    static const struct {
        const char *end, *by;
        bool transposed;
    } ends[] = {
        {"_embeddings.weight", "_embeddings", false},
        {"LayerNorm.weight", "LayerNorm.gamma", false},
        {"LayerNorm.bias", "LayerNorm.beta", false},
        {"predictions.bias", "predictions.output_bias", false},
        {"seq_relationship.weight", "seq_relationship.output_weights", false},
        {"seq_relationship.bias", "seq_relationship.output_bias", false},
        {"classifier.weight", "output_weights", false},
        {"classifier.bias", "output_bias", false},
        {".weight", ".kernel", true},
    };
    char *layer;

    *out_transposed = false;
    (void)snprintf(out, MODEL_NAME_BYTES, "%s", name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t at = strlen(out) - strlen(ends[i].end);

        if (strlen(out) < strlen(ends[i].end) || strcmp(out + at, ends[i].end) != 0)
            continue;
        (void)snprintf(out + at, MODEL_NAME_BYTES - at, "%s", ends[i].by);
        *out_transposed = ends[i].transposed;
        break;
    }
    layer = strstr(out, ".layer.");
    if (layer)
        layer[strlen(".layer")] = '_';
    for (char *p = out; *p; p++)
        *p = *p == '.' ? '/' : *p;
}

enum err_code tensorflow_find(const void *from, const char *name, struct weight *out,
                              struct err *err)
{
    const struct weight *found;
    char path[MODEL_NAME_BYTES];
    bool is_transposed;
    enum err_code rc;

    tensorflow_name(name, path, &is_transposed);
    rc = bundle_find(from, path, &found, err);
    if (rc != ERR_OK)
        return rc;
    if (!found)
        return ERR_NOT_FOUND;
    *out = *found;
    out->is_transposed = is_transposed && out->n_dims == 2;
    if (out->is_transposed) {
        out->dims[0] = found->dims[1];
        out->dims[1] = found->dims[0];
    }
    return ERR_OK;
}
