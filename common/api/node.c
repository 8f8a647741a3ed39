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
    jsonw_int(&w, "threads", p->threads);
    jsonw_string(&w, "blasCore", p->blas_core);
    jsonw_string(&w, "cpuModel", p->cpu_model);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
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
    *out = p;
    return ERR_OK;
}
