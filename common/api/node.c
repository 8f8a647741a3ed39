#include "api/node.h"

#include <stdio.h>
#include <string.h>

static const struct field message_fields[] = {
    {"ms", FIELD_DOUBLE, FIELD_AT(struct node_message, ms), .max = 1e4, .flags = FIELD_REQUIRED},
    {"byteNs", FIELD_DOUBLE, FIELD_AT(struct node_message, byte_ns), .max = 1e6,
     .flags = FIELD_REQUIRED},
    {0}};

static const struct field length_fields[] = {
    {"mean", FIELD_DOUBLE, FIELD_AT(struct node_lengths, mean), .max = 65536},
    {"meanSquare", FIELD_DOUBLE, FIELD_AT(struct node_lengths, mean_square),
     .max = 65536.0 * 65536.0},
    {0}};

static const struct field pace_fields[] = {
    {"attention", FIELD_DOUBLE, FIELD_AT(struct node_pace, attention), .max = 1e6,
     .flags = FIELD_REQUIRED | FIELD_ABOVE},
    {"feedForward", FIELD_DOUBLE, FIELD_AT(struct node_pace, ffn), .max = 1e6,
     .flags = FIELD_REQUIRED | FIELD_ABOVE},
    {"parameter", FIELD_DOUBLE, FIELD_AT(struct node_pace, parameter), .max = 1e9,
     .flags = FIELD_REQUIRED},
    {"element", FIELD_DOUBLE, FIELD_AT(struct node_pace, element), .max = 1e9,
     .flags = FIELD_REQUIRED},
    {"update", FIELD_DOUBLE, FIELD_AT(struct node_pace, update), .max = 1e9,
     .flags = FIELD_REQUIRED},
    {"sequence", FIELD_DOUBLE, FIELD_AT(struct node_pace, sequence), .max = 1e15},
    {0}};

static const struct field link_fields[] = {
    {"node", FIELD_TEXT, FIELD_AT(struct node_link, node), .min = 1,
     .flags = FIELD_REQUIRED | FIELD_LINE},
    {"bytesPerSecond", FIELD_DOUBLE, FIELD_AT(struct node_link, bytes_per_s), .max = 1e13,
     .flags = FIELD_REQUIRED | FIELD_ABOVE},
    {"latencyMs", FIELD_DOUBLE, FIELD_AT(struct node_link, latency_ms), .max = 1e5,
     .flags = FIELD_REQUIRED},
    {0}};

#define AT(member) FIELD_AT(struct node_probe, member)
const struct field node_probe_fields[] = {
    {"gflops", FIELD_DOUBLE, AT(gflops), .max = 1e9, .flags = FIELD_REQUIRED | FIELD_ABOVE},
    {"unitMs", FIELD_DOUBLE, AT(unit_ms), .max = 1e6, .flags = FIELD_REQUIRED},
    {"blockMs", FIELD_DOUBLE, AT(block_ms), .max = 1e9},
    {"memoryBytesPerSecond", FIELD_DOUBLE, AT(memory_bytes_per_s), .max = 1e15},
    {"lengths", FIELD_OBJECT, AT(lengths), .fields = length_fields, .flags = FIELD_OMIT},
    {"pace", FIELD_OBJECT, AT(pace), .fields = pace_fields, .flags = FIELD_OMIT},
    {"message", FIELD_OBJECT, AT(message), .fields = message_fields, .flags = FIELD_OMIT},
    {"threads", FIELD_INT, AT(threads), .min = 1, .max = INT32_MAX, .flags = FIELD_REQUIRED},
    {"blasCore", FIELD_TEXT, AT(blas_core), .flags = FIELD_LINE},
    {"cpuModel", FIELD_TEXT, AT(cpu_model), .flags = FIELD_LINE},
    {"bf16", FIELD_ANSWER, AT(has_bf16)},
    {"links", FIELD_LIST, FIELD_ITEMS(struct node_probe, links, n_links), .fields = link_fields,
     .flags = FIELD_OMIT},
    {0}};

enum err_code node_probe_check(const struct node_probe *p, struct err *err)
{
    const struct node_lengths *l = &p->lengths;
    bool has_lengths = l->mean > 0 || l->mean_square > 0;
    /* As the API server has them: a name that needs escapes would not fit a termination message. */
    const char *of_name = "abcdefghijklmnopqrstuvwxyz0123456789-.";

    /* The mean square is at least the square of the mean, but for rounding. */
    if (has_lengths && (l->mean < 1 || l->mean_square < 0.999 * l->mean * l->mean))
        return err_set(err, ERR_INVALID,
                       "lengths: a mean of %g with a mean square of %g is impossible", l->mean,
                       l->mean_square);
    for (int i = 0; i < p->n_links; i++)
        if (p->links[i].node[strspn(p->links[i].node, of_name)] != '\0')
            return err_set(err, ERR_INVALID, "links[%d].node: \"%.60s\" cannot be a node's name", i,
                           p->links[i].node);
    return ERR_OK;
}

enum err_code node_probe_write(const struct node_probe *p, struct buf *out, struct err *err)
{
    return fields_print(node_probe_fields, p, out, err);
}

enum err_code node_probe_read(const char *text, struct node_probe *out, struct err *err)
{
    struct node_probe p = {0};
    enum err_code rc = fields_parse(node_probe_fields, text, strlen(text), FIELDS_STRICT, &p, err);

    if (rc == ERR_OK)
        rc = node_probe_check(&p, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "probe result");
    *out = p;
    return ERR_OK;
}

/* --- lengths of sequences --- */

static bool is_sample(const struct spec *spec)
{
    return spec->data.source == SPEC_SOURCE_SAMPLE && spec->data.sample[0];
}

struct node_lengths lengths_of(const struct spec *spec, const struct node_lengths *measured)
{
    double usual = is_sample(spec) ? LENGTHS_SAMPLE : LENGTHS_MEAN;
    double longest = spec->training.max_length;
    bool is_measured = measured->mean > 0;
    double mean = is_measured ? measured->mean : usual;
    double square;

    mean = longest < mean ? longest : mean;
    square = is_measured ? measured->mean_square : LENGTHS_SPREAD * mean * mean;
    return (struct node_lengths){
        .mean = mean, .mean_square = longest * longest < square ? longest * longest : square};
}

void lengths_guess(const struct spec *spec, const struct node_lengths *measured,
                   char out[static LENGTHS_TEXT_BYTES])
{
    out[0] = '\0';
    if (measured->mean == 0 && !is_sample(spec))
        (void)snprintf(out, LENGTHS_TEXT_BYTES,
                       "sequences are assumed to have %.0f tokens, since the data have not been "
                       "read",
                       lengths_of(spec, measured).mean);
}
