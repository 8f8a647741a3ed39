/* The sizes of the model to start from, where the spec leaves them to the model's own files: a pod
 * with the model's volume reports them, and the status keeps them. The next observation then has a
 * spec with these sizes. */
#include <stdio.h>
#include <string.h>

#include "api/bert_config.h"
#include "base/buf.h"
#include "control/context.h"

/* The pod that reads them, or the one that has taken its name. */
static const struct seen_pod *find_reader(const struct context *c)
{
    char name[NAMES_BYTES];

    names_model_pod(c->seen->name, name);
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if ((p->role == POD_MODEL || p->role == POD_TAKEN) && strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}

/* A user may correct the spec while the model cannot be read: then read it anew. */
static bool is_edited(const struct context *c)
{
    return c->seen->status.generation != c->seen->generation;
}

enum err_code model_check_given(const struct context *c, struct err *err)
{
    const struct model *read = &c->seen->status.model;

    if (spec_has_sizes(&c->spec) || read->hidden == 0 || is_edited(c))
        return ERR_OK;
    return bert_config_check("config.json of spec.model.from", read, &c->spec.model, err);
}

/* What keeps the pod from starting or has ended it. */
static void show_reader(struct context *c, const struct seen_pod *pod, struct model_wait *out)
{
    const struct spec_volume *from = &c->spec.from;
    char why[STATUS_MESSAGE_BYTES / 2] = "";
    bool has_failed = oneshot_has_failed(c, pod);

    if (pod->phase == POD_PENDING && !has_failed)
        attempt_request_events(c, pod);
    if (attempt_image_problem(c, pod, why)) {
        out->news = NEWS_WARNING;
        out->reason = "ImagePullFailed";
        (void)snprintf(out->text, sizeof out->text, "%s", why);
    } else if (has_failed) {
        out->news = NEWS_WARNING;
        out->reason = "ModelNotRead";
        if (pod->has_exit_code && pod->message[0]) {
            (void)snprintf(why, sizeof why, "%s", pod->message);
        } else {
            oneshot_describe(pod, "the pod that reads it", why, sizeof why);
            text_add(why, sizeof why, "%s%s", pod->message[0] ? ": " : "", pod->message);
        }
        (void)snprintf(out->text, sizeof out->text,
                       "Cannot read the sizes of the model in PersistentVolumeClaim \"%.60s\", "
                       "folder \"%.80s\": %s. Correct that, or create the job with "
                       "spec.model.preset or sizes. Trying again every minute.",
                       from->claim, from->path[0] ? from->path : "/", why);
    } else if (attempt_start_problem(pod, why, sizeof why)) {
        text_add(out->text, sizeof out->text, " %s", why);
    }
    if (has_failed)
        oneshot_retry(c, POD_MODEL);
}

bool model_waits(struct context *c, struct model_wait *out)
{
    const struct seen_pod *pod = find_reader(c);
    bool is_ours = pod && pod->role == POD_MODEL;

    if (spec_has_sizes(&c->spec)) {
        if (is_ours)
            context_delete_pod(c, pod);
        return false;
    }
    *out = (struct model_wait){.news = NEWS_NORMAL, .reason = "ReadingModel"};
    (void)snprintf(out->text, sizeof out->text,
                   "Reading the sizes of the model in PersistentVolumeClaim \"%.100s\".",
                   c->spec.from.claim);
    context_requeue(c, DECIDE_NODES_RETRY_MS); /* the pod may be late by then */
    if (is_edited(c))
        c->out->status.model = (struct model){.hidden = 0};
    if (!pod)
        context_add(c, ACTION_CREATE_MODEL_POD)->image = oneshot_image(c);
    else if (is_ours && (is_edited(c) || oneshot_is_outdated(c, pod)))
        context_delete_pod(c, pod);
    else if (is_ours && pod->has_model)
        c->out->status.model = pod->model;
    else
        show_reader(c, pod, out);
    return true;
}
