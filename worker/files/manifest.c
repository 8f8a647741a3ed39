#include "files/manifest.h"

#include <string.h>

#include "base/hash.h"

#define POINT(member) FIELD_AT(struct store_point, member)
static const struct field point_fields[] = {
    {"at", FIELD_OBJECT, POINT(at), .fields = resume_checkpoint_fields, .flags = FIELD_REQUIRED},
    {"origins", FIELD_LIST, FIELD_ITEMS(struct store_point, origins.list, origins.n),
     .fields = resume_origin_fields, .flags = FIELD_OMIT},
    {"best", FIELD_OBJECT, POINT(best), .fields = resume_origin_fields, .flags = FIELD_OMIT},
    {"job", FIELD_LIST, FIELD_ITEMS(struct store_point, identity.list, identity.n),
     .fields = identity_fact_fields, .flags = FIELD_OMIT},
    {0}};

#define BYTES .min = 0, .max = 9007199254740992.0 /* 2^53 */
#define CRC   .min = 0, .max = UINT32_MAX

#define RECORD(member) FIELD_AT(struct manifest_file, member)
static const struct field record_fields[] = {
    {"bytes", FIELD_INT64, RECORD(bytes), BYTES, .flags = FIELD_REQUIRED},
    {"crc32c", FIELD_INT64, RECORD(crc), CRC},
    {0}};

static const struct field crc_fields[] = {{"", FIELD_INT64, FIELD_ENTRY(int64_t), CRC}, {0}};

#define AT(member) FIELD_AT(struct manifest, member)
static const struct field fields[] = {
    {"version", FIELD_INT, AT(version), .min = MANIFEST_VERSION, .max = MANIFEST_VERSION,
     .flags = FIELD_REQUIRED},
    {"point", FIELD_OBJECT, AT(point), .fields = point_fields, .flags = FIELD_REQUIRED},
    {"stage", FIELD_INT, AT(stage), .max = SPEC_STAGES_MAX - 1, .flags = FIELD_REQUIRED},
    {"stageCount", FIELD_INT, AT(n_stages), .min = 1, .max = SPEC_STAGES_MAX,
     .flags = FIELD_REQUIRED},
    {"firstUnit", FIELD_INT, AT(first_unit), .max = MODEL_UNITS_MAX - 1, .flags = FIELD_REQUIRED},
    {"unitCrcs", FIELD_LIST, FIELD_ITEMS(struct manifest, unit_crcs, n_units), .min = 1,
     .fields = crc_fields, .flags = FIELD_REQUIRED},
    {"shardBytes", FIELD_INT64, AT(shard_bytes), BYTES, .flags = FIELD_REQUIRED},
    {"headerCrc", FIELD_INT64, AT(header_crc), CRC, .flags = FIELD_REQUIRED},
    {"history", FIELD_OBJECT, AT(history), .fields = record_fields, .flags = FIELD_OMIT},
    {"progress", FIELD_OBJECT, AT(progress), .fields = record_fields, .flags = FIELD_OMIT},
    {"crc32c", FIELD_INT64, AT(crc), CRC, .flags = FIELD_OMIT},
    {0}};

enum err_code manifest_write(const struct manifest *m, struct buf *out, struct err *err)
{
    struct manifest full = *m;
    struct buf text = {.max = MANIFEST_TEXT_MAX_BYTES};
    enum err_code rc;

    full.version = MANIFEST_VERSION;
    full.crc = 0;
    rc = fields_print(fields, &full, &text, err);
    full.crc = crc32c(0, buf_text(&text), text.len);
    if (rc == ERR_OK)
        rc = fields_print(fields, &full, out, err);
    buf_deinit(&text);
    return rc;
}

static enum err_code check(const struct manifest *m, struct err *err)
{
    const struct resume_checkpoint *at = &m->point.at;

    if (m->stage >= m->n_stages)
        return err_set(err, ERR_INVALID, "stage: %d is not below %d", m->stage, m->n_stages);
    if (m->n_units > MODEL_UNITS_MAX - m->first_unit)
        return err_set(err, ERR_INVALID, "unitCrcs: %d from unit %d; a model has at most %d units",
                       m->n_units, m->first_unit, MODEL_UNITS_MAX);
    if (at->evaluated > at->end.step)
        return err_set(err, ERR_INVALID, "evaluated: %lld is after step %lld",
                       (long long)at->evaluated, (long long)at->end.step);
    if (at->n_parts > 0)
        return err_set(err, ERR_INVALID, "parts: belong to a report");
    return resume_origins_check(&m->point.origins, at->lineage, err);
}

/* Is this the text that was written? Also a difference without a meaning is damage. */
static enum err_code check_text(const struct manifest *m, const char *text, size_t len,
                                struct err *err)
{
    struct buf own = {.max = MANIFEST_TEXT_MAX_BYTES};
    enum err_code rc = manifest_write(m, &own, err);

    if (rc == ERR_OK && (own.len != len || memcmp(own.data, text, len) != 0))
        rc = err_set(err, ERR_INVALID, "does not have its checksum: the file is damaged");
    buf_deinit(&own);
    return rc;
}

enum err_code manifest_parse(const char *text, size_t len, struct manifest *out, struct err *err)
{
    struct manifest m = {.version = 0};
    enum err_code rc = fields_parse(fields, text, len, FIELDS_STRICT, &m, err);

    if (rc == ERR_OK)
        rc = check(&m, err);
    if (rc == ERR_OK)
        rc = check_text(&m, text, len, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc == ERR_NO_MEMORY ? rc : ERR_INVALID, "manifest");
    *out = m;
    return ERR_OK;
}

bool manifest_is_of(const struct manifest *m, const struct store_shard *shard)
{
    const struct resume_checkpoint *at = &m->point.at;

    return m->stage == shard->stage && m->n_stages == shard->n_stages &&
           at->lineage == shard->lineage && at->end.step == shard->step;
}

bool manifest_same_point(const struct store_point *a, const struct store_point *b)
{
    struct buf texts[2] = {{.max = MANIFEST_TEXT_MAX_BYTES}, {.max = MANIFEST_TEXT_MAX_BYTES}};
    bool is_same = fields_print(point_fields, a, &texts[0], NULL) == ERR_OK &&
                   fields_print(point_fields, b, &texts[1], NULL) == ERR_OK &&
                   strcmp(buf_text(&texts[0]), buf_text(&texts[1])) == 0;

    buf_deinit(&texts[0]);
    buf_deinit(&texts[1]);
    return is_same;
}
