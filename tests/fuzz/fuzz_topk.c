/* The largest entries of a gradient: what a reader accepts are as many as travel, and they come out
 * of a writer again.
 *
 * The first byte chooses how they travel, the second how many entries there are.
 */
#include "train/topk.h"

#include <math.h>
#include <string.h>

#include "fuzz.h"

#define N_MAX 1024

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static float got[N_MAX], unsent[N_MAX], again[N_MAX];
    static char wire[4 * N_MAX + 8];
    struct topk t;
    bool is_finite = true;
    size_t n, n_got = 0;

    if (size < 2)
        return 0;
    t = (struct topk){.percent = 1 + bytes[0] / 2 % SPEC_GRADIENT_PERCENT_MAX,
                      .is_bf16 = bytes[0] % 2 == 1};
    n = 1 + bytes[1] * (size_t)4;
    if (topk_read(&t, bytes + 2, size - 2, got, n, NULL) != ERR_OK)
        return 0;
    for (size_t i = 0; i < n; i++) {
        n_got += got[i] != 0;
        is_finite = is_finite && isfinite(got[i]);
    }
    MUST(n_got <= (n * (size_t)t.percent / 100 > 0 ? n * (size_t)t.percent / 100 : 1));
    memcpy(unsent, got, n * sizeof *got);
    memset(again, 0, sizeof again);
    MUST(topk_read(&t, wire, topk_take(&t, again, unsent, n, wire), again, n, NULL) == ERR_OK);
    for (size_t i = 0; is_finite && i < n; i++)
        MUST(again[i] == got[i] && unsent[i] == 0);
    return 0;
}
