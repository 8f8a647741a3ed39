/* A job's life from objects to decisions and new objects, in which each request for memory fails
 * once: the call returns ERR_NO_MEMORY, nothing leaks, and the same call succeeds afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/manifest.h"
#include "run/store.h"

#define NOW_MS    INT64_C(1800000000000)
#define CALLS_MAX 20000

/* --- requests for memory --- */

static int n_calls; /* so far */
static int failing; /* the number of the one that fails; 0: none does */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *text);

static bool fails(void)
{
    return ++n_calls == failing;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return fails() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

/* --- a life --- */

#define OWNER                                                                                      \
    "\"ownerReferences\":[{\"apiVersion\":\"skyjob.dev/v1alpha1\",\"kind\":\"SkyJob\","            \
    "\"name\":\"mnli\",\"uid\":\"u1\",\"controller\":true}]"
#define NODE(name)                                                                                 \
    "{\"metadata\":{\"name\":\"" name "\",\"labels\":{\"skyjob.dev/gflops\":\"50\",\"disk\":"      \
    "\"ssd\"}},\"spec\":{\"taints\":[{\"key\":\"gpu\",\"effect\":\"NoSchedule\"}]},\"status\":{"   \
    "\"allocatable\":{\"cpu\":\"2\",\"memory\":\"4Gi\"},\"conditions\":[{\"type\":\"Ready\","      \
    "\"status\":\"True\"}]}}"
/* With a status of `revision`. */
#define JOB(revision)                                                                              \
    "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\",\"uid\":\"u1\",\"resourceVersion\":"  \
    "\"5\",\"generation\":1},\"spec\":{\"model\":{\"preset\":\"BertTiny\"},\"data\":{\"source\":{" \
    "\"sample\":\"MNLI\"}},\"placement\":{\"minStages\":2,\"maxStages\":2},\"worker\":{"           \
    "\"nodeSelector\":{\"disk\":\"ssd\"},\"tolerations\":[{\"operator\":\"Exists\"}]}},"           \
    "\"status\":{\"revision\":" revision ",\"conditions\":[]}}"
#define POD                                                                                        \
    "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-w1-1\",\"uid\":\"p1\"," OWNER ","    \
    "\"labels\":{\"skyjob.dev/role\":\"worker\",\"skyjob.dev/slot\":\"1\","                        \
    "\"skyjob.dev/incarnation\":\"1\"}},\"spec\":{\"nodeName\":\"n1\",\"containers\":[{"           \
    "\"resources\":{\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\"}}}]},\"status\":{\"phase\":"    \
    "\"Running\",\"podIP\":\"10.0.0.1\"}}"

struct life {
    struct store store;
    struct store_view view;
    struct observed seen;
    struct decision decision;
    char revision[32768]; /* the ConfigMap that the first decision makes */
};

static enum err_code change(struct life *l, enum store_kind kind, const char *text)
{
    struct json *object = NULL;
    enum err_code rc = json_parse(text, strlen(text), &object, NULL);

    if (rc == ERR_OK)
        rc = store_change(&l->store, kind, KUBE_ADDED, object, NULL);
    json_free(object);
    return rc;
}

static enum err_code add_job(struct life *l)
{
    return change(l, STORE_JOBS, JOB("1"));
}

static enum err_code add_node(struct life *l)
{
    return change(l, STORE_NODES, NODE("n1"));
}

static enum err_code add_other_node(struct life *l)
{
    return change(l, STORE_NODES, NODE("n2"));
}

static enum err_code add_pod(struct life *l)
{
    return change(l, STORE_PODS, POD);
}

static enum err_code add_revision(struct life *l)
{
    return change(l, STORE_REVISIONS, l->revision);
}

static enum err_code observe(struct life *l)
{
    l->seen.now_ms = NOW_MS;
    return store_observe(&l->store, "team/mnli", &l->view, &l->seen, NULL);
}

/* A decision has no error: what it lacks memory for is decided later. */
static enum err_code make(struct life *l)
{
    enum err_code rc = ERR_OK;

    decide(&l->seen, &l->decision);
    for (int i = 0; i < l->decision.n_actions && rc == ERR_OK; i++) {
        const struct action *a = &l->decision.actions[i];
        struct buf text = {.max = MANIFEST_MAX_BYTES};
        char name[NAMES_BYTES];

        if (a->kind != ACTION_CREATE_REVISION && a->kind != ACTION_CREATE_WORKER_POD &&
            a->kind != ACTION_CREATE_POLICY)
            continue;
        rc = manifest_object(&l->seen, a, &l->decision.revision, name, &text, NULL);
        if (rc == ERR_OK && a->kind == ACTION_CREATE_REVISION)
            (void)snprintf(l->revision, sizeof l->revision, "%s", buf_text(&text));
        buf_deinit(&text);
    }
    return rc;
}

/* Again, when the plan could not be made. */
static enum err_code plan(struct life *l)
{
    enum err_code rc = make(l);

    return rc == ERR_OK && l->revision[0] == '\0' ? ERR_NO_MEMORY : rc;
}

typedef enum err_code step_fn(struct life *l);

/* Returns how many requests there were. */
static int live(int which)
{
    static step_fn *const steps[] = {add_job, add_node, add_other_node, observe, plan, add_revision,
                                     observe, make,     add_pod,        observe, make};
    struct life *l = calloc(1, sizeof *l);

    assert_non_null(l);
    n_calls = 0;
    failing = which;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        enum err_code rc = steps[i](l);

        if (rc != ERR_OK && (rc != ERR_NO_MEMORY || n_calls < which))
            fail_msg("request %d, step %zu: code %d", which, i, (int)rc);
        if (rc == ERR_NO_MEMORY && steps[i](l) != ERR_OK)
            fail_msg("request %d, step %zu: does not succeed afterwards: %s", which, i,
                     l->decision.status.message);
    }
    assert_true(l->seen.has_revision && l->seen.revision.plan.n_workers == 2);
    assert_int_equal(l->seen.n_pods, 1);
    store_view_deinit(&l->view);
    store_deinit(&l->store);
    failing = 0;
    free(l);
    return n_calls;
}

static void store_and_decision_survive_any_lack_of_memory(void **state)
{
    int n = live(0);

    (void)state;
    assert_in_range(n, 100, CALLS_MAX);
    for (int i = 2; i <= n; i++) /* the first is the life itself */
        (void)live(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_and_decision_survive_any_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
