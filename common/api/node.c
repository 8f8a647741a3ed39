#include "api/node.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonw.h"

enum err_code node_probe_write(const struct node_probe *p, struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_double(&w, "gflops", p->gflops);
    jsonw_double(&w, "unitMs", p->unit_ms);
    jsonw_double(&w, "memoryBytesPerSecond", p->memory_bytes_per_s);
    jsonw_open_object(&w, "lengths");
    jsonw_double(&w, "mean", p->lengths.mean);
    jsonw_double(&w, "meanSquare", p->lengths.mean_square);
    jsonw_close(&w);
    jsonw_int(&w, "threads", p->threads);
    jsonw_string(&w, "blasCore", p->blas_core);
    jsonw_string(&w, "cpuModel", p->cpu_model);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

/* The mean square is at least the square of the mean, but for rounding. */
static bool are_lengths(const struct spec_lengths *l)
{
    if (l->mean == 0 && l->mean_square == 0)
        return true;
    return l->mean >= 1 && l->mean <= 65536 && l->mean_square >= 0.999 * l->mean * l->mean &&
           l->mean_square <= 65536.0 * 65536.0;
}

enum err_code node_probe_read(const char *text, struct node_probe *out, struct err *err)
{
    struct node_probe p = {0};
    struct json *root;
    enum err_code rc = json_parse(text, strlen(text), &root, err);

    if (rc != ERR_OK)
        return err_wrap(err, rc, "probe result");
    p.gflops = json_double(json_get(root, "gflops"), -1);
    p.unit_ms = json_double(json_get(root, "unitMs"), -1);
    p.memory_bytes_per_s = json_double(json_get(root, "memoryBytesPerSecond"), 0);
    p.lengths.mean = json_double(json_path(root, "lengths.mean"), 0);
    p.lengths.mean_square = json_double(json_path(root, "lengths.meanSquare"), 0);
    p.threads = json_int(json_get(root, "threads"), 0);
    (void)snprintf(p.blas_core, sizeof p.blas_core, "%s",
                   json_string(json_get(root, "blasCore"), ""));
    (void)snprintf(p.cpu_model, sizeof p.cpu_model, "%s",
                   json_string(json_get(root, "cpuModel"), ""));
    json_free(root);
    if (!(p.gflops > 0 && p.gflops < 1e9) || !(p.unit_ms >= 0 && p.unit_ms < 1e6) || p.threads < 1)
        return err_set(err, ERR_INVALID,
                       "probe result: %g GFLOP/s, %g ms, %d threads make no sense", p.gflops,
                       p.unit_ms, p.threads);
    if (!(p.memory_bytes_per_s >= 0 && p.memory_bytes_per_s < 1e15) || !are_lengths(&p.lengths))
        return err_set(err, ERR_INVALID,
                       "probe result: %g bytes/s of memory, sequences of %g tokens with a mean "
                       "square of %g make no sense",
                       p.memory_bytes_per_s, p.lengths.mean, p.lengths.mean_square);
    *out = p;
    return ERR_OK;
}
