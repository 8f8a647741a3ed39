#include "api/identity.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define FACT(member) FIELD_AT(struct identity_fact, member)
const struct field identity_fact_fields[] = {
    {"field", FIELD_TEXT, FACT(field), .min = 1, .flags = FIELD_REQUIRED | FIELD_UNIQUE},
    {"value", FIELD_TEXT, FACT(value)},
    {0}};

static const char *const keys[] = {
    "model.vocabSize",
    "model.hiddenSize",
    "model.layers",
    "model.attentionHeads",
    "model.feedForwardSize",
    "model.maxPositions",
    "data.task",
    "data.files.train",
    "data.columns.text",
    "data.columns.pair",
    "data.columns.label",
    "training.batchSize",
    "training.seed",
    "training.optimizer.type",
};
_Static_assert(sizeof keys / sizeof keys[0] + 1 <= IDENTITY_FACTS_MAX, "there is room for all");

static const struct field *find_field(const char *key)
{
    const struct field *f = spec_fields;

    while (strcmp(f->key, key) != 0)
        f++;
    return f;
}

static void print_value(const struct spec *s, const struct field *f,
                        char out[static IDENTITY_VALUE_BYTES])
{
    const void *at = (const char *)s + f->offset;

    if (f->kind == FIELD_INT)
        (void)snprintf(out, IDENTITY_VALUE_BYTES, "%d", *(const int *)at);
    else if (f->kind == FIELD_INT64)
        (void)snprintf(out, IDENTITY_VALUE_BYTES, "%lld", (long long)*(const int64_t *)at);
    else if (f->kind == FIELD_ENUM)
        (void)snprintf(out, IDENTITY_VALUE_BYTES, "%s", f->words[*(const int *)at]);
    else
        (void)snprintf(out, IDENTITY_VALUE_BYTES, "%s", (const char *)at);
}

void identity_of(const struct spec *s, struct identity *out)
{
    struct identity_fact *labels;

    *out = (struct identity){.n = 0};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct identity_fact *fact = &out->list[out->n++];

        (void)snprintf(fact->field, sizeof fact->field, "%s", keys[i]);
        print_value(s, find_field(keys[i]), fact->value);
    }
    labels = &out->list[out->n++];
    (void)snprintf(labels->field, sizeof labels->field, "data.labels");
    for (int i = 0; i < s->data.labels.n; i++)
        text_add(labels->value, sizeof labels->value, "%s%s", i > 0 ? ", " : "",
                 s->data.labels.names[i]);
}

static const char *value_of(const struct identity *of, const char *field)
{
    for (int i = 0; i < of->n; i++)
        if (strcmp(of->list[i].field, field) == 0)
            return of->list[i].value;
    return "";
}

bool identity_differs(const struct identity *there, const struct identity *here, char *out,
                      size_t bytes)
{
    bool differs = false;

    out[0] = '\0';
    for (int i = 0; i < here->n && there->n > 0; i++) {
        const char *value = value_of(there, here->list[i].field);

        if (strcmp(value, here->list[i].value) == 0)
            continue;
        text_add(out, bytes, "%sspec.%s is %s there and %s here", differs ? ", " : "",
                 here->list[i].field, *value ? value : "not set",
                 here->list[i].value[0] ? here->list[i].value : "not set");
        differs = true;
    }
    return differs;
}
