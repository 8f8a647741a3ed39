/* The manifest of a stage's part of a checkpoint. What is accepted lies within its bounds, and is
 * written again as the very same text.
 *
 * An input without a checksum gets the right one, so that the fuzzer need not guess it. */
#include "files/manifest.h"

#include <string.h>

#include "base/hash.h"
#include "fuzz.h"

static bool is_crc(int64_t n)
{
    return n >= 0 && n <= UINT32_MAX;
}

static void check_point(const struct store_point *p)
{
    MUST(p->at.lineage >= 1 && p->at.end.step >= 1 && p->at.end.step <= RESUME_STEP_MAX);
    MUST(p->at.evaluated >= 0 && p->at.evaluated <= p->at.end.step);
    MUST(p->origins.n >= 0 && p->origins.n <= RESUME_ORIGINS_MAX);
    for (int i = 0; i < p->origins.n; i++)
        MUST(p->origins.list[i].lineage < p->at.lineage);
    MUST(manifest_same_point(p, p));
}

static void check_manifest(const char *text, size_t n)
{
    static struct manifest m;
    struct buf again = {.max = 2 * MANIFEST_TEXT_MAX_BYTES};

    if (manifest_parse(text, n, &m, NULL) != ERR_OK)
        return;
    check_point(&m.point);
    MUST(m.n_stages >= 1 && m.n_stages <= SPEC_STAGES_MAX);
    MUST(m.stage >= 0 && m.stage < m.n_stages);
    MUST(m.first_unit >= 0 && m.n_units >= 1 && m.first_unit + m.n_units <= MODEL_UNITS_MAX);
    for (int i = 0; i < m.n_units; i++)
        MUST(is_crc(m.unit_crcs[i]));
    MUST(m.shard_bytes >= 0 && is_crc(m.header_crc));
    MUST(m.history.bytes >= 0 && is_crc(m.history.crc));
    MUST(m.progress.bytes >= 0 && is_crc(m.progress.crc));
    MUST(manifest_write(&m, &again, NULL) == ERR_OK);
    MUST(again.len == n && memcmp(again.data, text, n) == 0);
    buf_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *text = (const char *)bytes;
    struct buf sealed = {.max = MANIFEST_TEXT_MAX_BYTES};

    check_manifest(text, n);
    if (n > 0 && n < MANIFEST_TEXT_MAX_BYTES / 2 && text[n - 1] == '}') {
        MUST(buf_add(&sealed, text, n - 1, NULL) == ERR_OK);
        MUST(buf_addf(&sealed, NULL, ",\"crc32c\":%u}", (unsigned)crc32c(0, text, n)) == ERR_OK);
        check_manifest(buf_text(&sealed), sealed.len);
    }
    buf_deinit(&sealed);
    return 0;
}
