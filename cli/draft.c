#include "cli/draft.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/names.h"
#include "cli/command.h"
#include "cli/job.h"

/* The options, as they are understood. */
struct chosen {
    char name[NAMES_BYTES];
    const struct task *task;
    enum spec_source source;
    char config_map[SPEC_NAME_BYTES];
    struct spec_volume data, from, output; /* no claim: not given */
    int epochs, steps, batch_size;
    int replicas; /* 0: Auto */
};

/* --- reading options --- */

static enum err_code read_task(const struct draft *d, struct chosen *c, struct err *err)
{
    const char *task = d->task ? d->task : "MNLI";
    char all[200] = "";

    for (int i = 0; task_names[i]; i++) {
        if (strcasecmp(task_names[i], task) == 0)
            c->task = task_find(task_names[i]);
        text_add(all, sizeof all, "%s%s", i ? ", " : "", task_names[i]);
    }
    if (!c->task)
        return err_set(err, ERR_INVALID, "--task: must be one of %s, not \"%.40s\"", all, task);
    return ERR_OK;
}

static enum err_code read_name(const struct draft *d, struct chosen *c, struct err *err)
{
    (void)snprintf(c->name, sizeof c->name, "%s", d->name ? d->name : c->task->name);
    for (char *p = c->name; !d->name && *p; p++)
        *p = (char)tolower((unsigned char)*p);
    if (!spec_is_name(d->name ? d->name : c->name, NAMES_JOB_MAX))
        return err_set(err, ERR_INVALID,
                       "--name: must be 1 to %d lower-case letters, digits or '-', and start and "
                       "end with a letter or digit, not \"%.60s\"",
                       NAMES_JOB_MAX, d->name);
    return ERR_OK;
}

/* Does `text` begin with `kind` and a name? What follows the name is a path. */
static bool read_object(const char *text, const char *kind, char name[static SPEC_NAME_BYTES],
                        const char **out_rest)
{
    size_t n = strlen(kind);
    size_t n_name;

    if (strncmp(text, kind, n) != 0)
        return false;
    n_name = strcspn(text + n, "/");
    if (n_name >= SPEC_NAME_BYTES || !spec_is_domain(text + n, n_name))
        return false;
    (void)snprintf(name, SPEC_NAME_BYTES, "%.*s", (int)n_name, text + n);
    *out_rest = text + n + n_name;
    return true;
}

static bool read_claim(const char *text, struct spec_volume *out)
{
    struct spec_volume v;
    const char *rest;

    if (!read_object(text, "pvc/", v.claim, &rest))
        return false;
    rest += *rest == '/';
    if (strlen(rest) >= sizeof v.path)
        return false;
    (void)snprintf(v.path, sizeof v.path, "%s", rest);
    *out = v;
    return true;
}

static enum err_code read_volume(const char *option, const char *text, struct spec_volume *out,
                                 struct err *err)
{
    if (text && !read_claim(text, out))
        return err_set(err, ERR_INVALID,
                       "--%s: must be pvc/NAME or pvc/NAME/PATH, with the name of a "
                       "PersistentVolumeClaim, not \"%.60s\"",
                       option, text);
    return ERR_OK;
}

static enum err_code read_data(const struct draft *d, struct chosen *c, struct err *err)
{
    bool has_sample = strcmp(c->task->name, "MNLI") == 0;
    const char *rest;

    if (!d->data && !has_sample)
        return err_set(err, ERR_INVALID,
                       "--data: must be given for %s: configmap/NAME, pvc/NAME or pvc/NAME/PATH",
                       c->task->name);
    if (!d->data || strcmp(d->data, "sample") == 0) {
        c->source = SPEC_SOURCE_SAMPLE;
        if (!has_sample)
            return err_set(err, ERR_INVALID,
                           "--data: there is a sample of MNLI only; for %s name configmap/NAME, "
                           "pvc/NAME or pvc/NAME/PATH",
                           c->task->name);
        return ERR_OK;
    }
    if (read_claim(d->data, &c->data)) {
        c->source = SPEC_SOURCE_CLAIM;
        return ERR_OK;
    }
    c->source = SPEC_SOURCE_CONFIG_MAP;
    if (!read_object(d->data, "configmap/", c->config_map, &rest) || *rest)
        return err_set(err, ERR_INVALID,
                       "--data: must be sample, configmap/NAME, pvc/NAME or pvc/NAME/PATH, not "
                       "\"%.60s\"",
                       d->data);
    return ERR_OK;
}

static enum err_code read_preset(const struct draft *d, struct err *err)
{
    struct model model;
    enum err_code rc = d->preset ? model_preset(d->preset, &model, err) : ERR_OK;

    return rc == ERR_OK ? ERR_OK : err_wrap(err, ERR_INVALID, "--preset");
}

static enum err_code read_numbers(const struct draft *d, struct chosen *c, struct err *err)
{
    enum err_code rc;

    if (d->epochs && d->steps)
        return err_set(err, ERR_INVALID, "--steps: give either --steps or --epochs, not both");
    rc = command_count("epochs", d->epochs, 1, 100000, &c->epochs, err);
    if (rc == ERR_OK)
        rc = command_count("steps", d->steps, 1, 100000000, &c->steps, err);
    if (rc == ERR_OK)
        rc = command_count("batch-size", d->batch_size, 1, 65536, &c->batch_size, err);
    if (rc == ERR_OK && d->replicas && strcasecmp(d->replicas, "Auto") == 0)
        c->replicas = 0;
    else if (rc == ERR_OK &&
             command_count("replicas", d->replicas, 1, SPEC_REPLICAS_MAX, &c->replicas, err))
        rc = err_set(err, ERR_INVALID,
                     "--replicas: must be Auto or a number from 1 to %d, not "
                     "\"%.40s\"",
                     SPEC_REPLICAS_MAX, d->replicas);
    return rc;
}

static enum err_code read_all(const struct draft *d, struct chosen *c, struct err *err)
{
    enum err_code rc = read_task(d, c, err);

    if (rc == ERR_OK)
        rc = read_name(d, c, err);
    if (rc == ERR_OK)
        rc = read_data(d, c, err);
    if (rc == ERR_OK)
        rc = read_preset(d, err);
    if (rc == ERR_OK)
        rc = read_volume("from", d->from, &c->from, err);
    if (rc == ERR_OK)
        rc = read_volume("output", d->output, &c->output, err);
    return rc == ERR_OK ? read_numbers(d, c, err) : rc;
}

/* --- writing --- */

/* Names are in quotes: `on` and `1e3` are names of objects, but bare they are no strings of YAML's.
 * A path may contain anything, which JSON's strings escape as YAML's do. */
static enum err_code add_claim(const char *indent, const struct spec_volume *v, struct buf *out,
                               struct err *err)
{
    enum err_code rc =
        buf_addf(out, err, "%spersistentVolumeClaim: {claimName: \"%s\"", indent, v->claim);
    struct jsonw w;

    if (rc == ERR_OK && v->path[0]) {
        rc = buf_addf(out, err, ", path: ");
        jsonw_init(&w, out);
        jsonw_string(&w, NULL, v->path);
        if (rc == ERR_OK)
            rc = jsonw_finish(&w, err);
    }
    return rc == ERR_OK ? buf_addf(out, err, "}\n") : rc;
}

static enum err_code add_model(const struct draft *d, const struct chosen *c, struct buf *out,
                               struct err *err)
{
    enum err_code rc = buf_addf(out, err, "  model:\n");

    if (rc == ERR_OK && (d->preset || !d->from))
        rc = buf_addf(out, err,
                      "    preset: %s # BertTiny, BertMini, BertSmall, BertMedium, BertBase or "
                      "BertLarge\n",
                      d->preset ? d->preset : "BertMini");
    if (rc != ERR_OK || !d->from)
        return rc;
    rc = buf_addf(out, err, "    from: # a Hugging Face folder\n");
    return rc == ERR_OK ? add_claim("      ", &c->from, out, err) : rc;
}

/* What the task reads has names of its own where its files have not. */
static enum err_code add_own(const struct task *task, struct buf *out, struct err *err)
{
    bool is_labelled = task->head == MODEL_HEAD_CLASSIFIER;

    if (!task->is_own || (!is_labelled && task->head != MODEL_HEAD_REGRESSION))
        return ERR_OK;
    return buf_addf(out, err,
                    "    columns: {text: text, label: label} # of your files; pair: of a second "
                    "text\n%s",
                    is_labelled ? "    labels: [\"0\", \"1\"] # as your files have them\n" : "");
}

/* The folder, with the files that the task needs as a comment. */
static enum err_code add_source(const struct chosen *c, struct buf *out, struct err *err)
{
    const struct spec spec = {.model.head = c->task->head, .from = c->from};
    const char *files[SPEC_FILES_MAX];
    int n = spec_data_files(&spec, files);
    enum err_code rc;

    if (c->source == SPEC_SOURCE_SAMPLE)
        return buf_addf(out, err,
                        "    source:\n"
                        "      sample: MNLI # in the worker's image, to try it out\n");
    rc = buf_addf(out, err, "    source: # with");
    for (int i = 0; i < n && rc == ERR_OK; i++)
        rc = buf_addf(out, err, "%s %s", i ? " and" : "", files[i]);
    if (rc == ERR_OK)
        rc = buf_addf(out, err, "; other names: data.files\n");
    if (rc == ERR_OK && c->source == SPEC_SOURCE_CLAIM)
        rc = add_claim("      ", &c->data, out, err);
    else if (rc == ERR_OK)
        rc = buf_addf(out, err, "      configMap: {name: \"%s\"}\n", c->config_map);
    return rc;
}

static enum err_code add_training(const struct chosen *c, struct buf *out, struct err *err)
{
    enum err_code rc =
        buf_addf(out, err,
                 "  training:\n"
                 "    %s: %d\n"
                 "    batchSize: %d # sequences per step\n",
                 c->steps ? "steps" : "epochs", c->steps ? c->steps : c->epochs, c->batch_size);

    if (rc == ERR_OK && c->replicas == 0)
        rc = buf_addf(out, err, "  replicas: Auto # as many pipelines as are quickest\n");
    else if (rc == ERR_OK && c->replicas > 1)
        rc = buf_addf(out, err, "  replicas: %d # pipelines, each on nodes of its own\n",
                      c->replicas);
    return rc;
}

static enum err_code add_output(const struct chosen *c, struct buf *out, struct err *err)
{
    enum err_code rc;

    if (!c->output.claim[0])
        return buf_addf(out, err,
                        "  # The trained model is not kept. To keep it:\n"
                        "  # output:\n"
                        "  #   persistentVolumeClaim: {claimName: models, path: tuned}\n");
    rc = buf_addf(out, err, "  output: # becomes a Hugging Face folder\n");
    return rc == ERR_OK ? add_claim("    ", &c->output, out, err) : rc;
}

enum err_code draft_write(const struct draft *d, struct buf *out, struct err *err)
{
    struct chosen c = {.epochs = 3, .batch_size = 32, .replicas = 1};
    size_t begin = out->len;
    enum err_code rc = read_all(d, &c, err);

    if (rc == ERR_OK)
        rc = buf_addf(out, err,
                      "# Every field: kubectl explain sj.spec\n"
                      "apiVersion: " NAMES_GROUP "/" NAMES_VERSION "\n"
                      "kind: SkyJob\n"
                      "metadata:\n"
                      "  name: \"%s\"\n"
                      "spec:\n",
                      c.name);
    if (rc == ERR_OK)
        rc = add_model(d, &c, out, err);
    if (rc == ERR_OK)
        rc = buf_addf(out, err, "  data:\n    task: %s\n", c.task->name);
    if (rc == ERR_OK)
        rc = add_own(c.task, out, err);
    if (rc == ERR_OK)
        rc = add_source(&c, out, err);
    if (rc == ERR_OK)
        rc = add_training(&c, out, err);
    if (rc == ERR_OK)
        rc = add_output(&c, out, err);
    return rc == ERR_OK ? job_check(out->data + begin, out->len - begin, err) : rc;
}
