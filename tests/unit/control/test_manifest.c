/* Objects are read back as JSON and looked at where it matters. */
#include "control/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "balance/cost.h"
#include "base/file.h"
#include "world.h"

static const char spec_text[] =
    "{\"model\":{\"preset\":\"BertTiny\","
    "\"from\":{\"persistentVolumeClaim\":{\"claimName\":\"bert\",\"path\":\"tiny\"}}},"
    "\"data\":{\"source\":{\"persistentVolumeClaim\":{\"claimName\":\"glue\",\"path\":\"mnli\"}}},"
    "\"placement\":{\"minStages\":2,\"maxStages\":2},\"worker\":{\"image\":\"mine:2\"},"
    "\"checkpoint\":{\"store\":{\"persistentVolumeClaim\":{\"claimName\":\"saves\",\"path\":\"c\"}}"
    "},"
    "\"output\":{\"persistentVolumeClaim\":{\"claimName\":\"models\",\"path\":\"a/b\"}}}";

static struct json *parse(struct buf *text)
{
    struct json *json = NULL;
    struct err err = {0};

    if (json_parse(buf_text(text), text->len, &json, &err) != ERR_OK)
        fail_msg("%s in %s", err.text, buf_text(text));
    buf_deinit(text);
    return json;
}

static enum err_code write_for(const struct world *w, const struct action *action, struct buf *out)
{
    char name[NAMES_BYTES];

    return manifest_object(&w->seen, action, &w->seen.revision, name, out, NULL);
}

static enum err_code write_stage(const struct world *w, int stage, struct buf *out)
{
    struct action action = {.kind = ACTION_CREATE_WORKER_POD, .stage = stage};

    return write_for(w, &action, out);
}

static struct world *planned_world(void)
{
    struct world *w = world_new(spec_text);

    (void)world_settle(w);
    assert_true(w->seen.has_revision);
    return w;
}

static struct json *stage_pod(struct world *w, int stage)
{
    struct buf text = {.max = MANIFEST_MAX_BYTES};

    assert_int_equal(write_stage(w, stage, &text), ERR_OK);
    return parse(&text);
}

static const struct json *container(const struct json *pod)
{
    return json_first(json_path(pod, "spec.containers"));
}

/* A command line as one text: "skyjob-worker stage --slot ...". */
static void command_of(const struct json *pod, char *out, size_t bytes)
{
    out[0] = '\0';
    for (const struct json *a = json_first(json_get(container(pod), "command")); a;
         a = json_next(a)) {
        size_t n = strlen(out);

        (void)snprintf(out + n, bytes - n, "%s%s", n ? " " : "", json_string(a, ""));
    }
}

static const struct json *named(const struct json *list, const char *name)
{
    const struct json *v = json_first(list);

    while (v && strcmp(json_text(v, "name"), name) != 0)
        v = json_next(v);
    return v;
}

static void manifest_of_a_substitute_is_for_its_own_slot_and_node(void **state)
{
    struct world *w = planned_world();
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    struct action action = {.kind = ACTION_CREATE_SUBSTITUTE,
                            .stage = 1,
                            .slot = 65,
                            .node = "spare",
                            .cpu_milli = 700,
                            .memory_bytes = 1000};
    const struct json *terms, *field;
    struct json *pod;
    char command[512];

    (void)state;
    assert_int_equal(write_for(w, &action, &text), ERR_OK);
    pod = parse(&text);
    command_of(pod, command, sizeof command);
    assert_non_null(strstr(command, "stage --slot 65 --incarnation 1 --model"));
    assert_string_equal(json_text(pod, "metadata.name"), "mnli-0b7d-w65-1");
    terms = json_path(pod, "spec.affinity.nodeAffinity."
                           "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    field = json_first(json_get(json_first(terms), "matchFields"));
    assert_string_equal(json_string(json_first(json_get(field, "values")), ""), "spare");
    assert_string_equal(json_text(container(pod), "resources.limits.cpu"), "700m");
    json_free(pod);
    world_free(w);
}

static void manifest_of_the_leader_reads_the_data(void **state)
{
    struct world *w = planned_world();
    struct json *pod = stage_pod(w, 0);
    const struct json *mounts = json_get(container(pod), "volumeMounts");
    const struct json *volumes = json_path(pod, "spec.volumes");
    char command[512];

    (void)state;
    command_of(pod, command, sizeof command);
    assert_string_equal(command,
                        "skyjob-worker stage --slot 0 --incarnation 1 --data /data "
                        "--model /model --checkpoints /checkpoints/mnli-0b7d --output /output "
                        "--health 0.0.0.0:7072 --control 0.0.0.0:7070 --tensor 0.0.0.0:7071 "
                        "--key /etc/skyjob-key/key --termination-log /dev/termination-log");
    assert_string_equal(json_text(named(mounts, "data"), "subPath"), "mnli");
    assert_true(json_bool(json_get(named(mounts, "data"), "readOnly"), false));
    assert_string_equal(json_text(named(volumes, "data"), "persistentVolumeClaim.claimName"),
                        "glue");
    json_free(pod);
    world_free(w);
}

/* Probes, too: they listen like stages. */
static void manifest_of_every_pod_mounts_the_key_and_shows_it_nowhere(void **state)
{
    struct world *w = planned_world();
    struct action action = {.kind = ACTION_CREATE_PROBE_POD, .node = "node-1"};
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    struct json *pods[2];

    (void)state;
    assert_int_equal(write_for(w, &action, &text), ERR_OK);
    pods[0] = stage_pod(w, 1);
    pods[1] = parse(&text);
    for (int i = 0; i < 2; i++) {
        const struct json *mount = named(json_get(container(pods[i]), "volumeMounts"), "key");
        const struct json *secret =
            json_get(named(json_path(pods[i], "spec.volumes"), "key"), "secret");
        char name[NAMES_BYTES];

        names_child(w->seen.name, NAMES_KEY, name);
        assert_string_equal(json_text(secret, "secretName"), name);
        assert_int_equal(json_i64(json_get(secret, "defaultMode"), 0), 0440);
        assert_string_equal(json_text(mount, "mountPath"), "/etc/skyjob-key");
        assert_true(json_bool(json_get(mount, "readOnly"), false));
        json_free(pods[i]);
    }
    world_free(w);
}

static void manifest_of_a_pod_with_tls_mounts_its_own_certificate_only(void **state)
{
    static const char *const paths[] = {"ca.crt", "tls.crt", "tls.key"};
    struct world *w = planned_world();
    struct action action = {.kind = ACTION_CREATE_PROBE_POD, .node = "node-1"};
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    struct json *pods[2];

    (void)state;
    w->seen.n_pods = 0;
    w->seen.settings.has_tls = true;
    assert_int_equal(write_for(w, &action, &text), ERR_OK);
    pods[0] = stage_pod(w, 1);
    pods[1] = parse(&text);
    for (int i = 0; i < 2; i++) {
        const struct json *mount = named(json_get(container(pods[i]), "volumeMounts"), "tls");
        const struct json *secret =
            json_get(named(json_path(pods[i], "spec.volumes"), "tls"), "secret");
        const struct json *item = json_first(json_get(secret, "items"));
        const char *files[2][3] = {{"ca.crt", "w1-1.crt", "w1-1.key"},
                                   {"ca.crt", "w0-0.crt", "w0-0.key"}};
        char name[NAMES_BYTES];
        char command[1024];

        names_child(w->seen.name, NAMES_TLS, name);
        assert_string_equal(json_text(secret, "secretName"), name);
        assert_int_equal(json_i64(json_get(secret, "defaultMode"), 0), 0440);
        for (int k = 0; k < 3; k++, item = json_next(item)) {
            assert_string_equal(json_text(item, "key"), files[i][k]);
            assert_string_equal(json_text(item, "path"), paths[k]);
        }
        assert_null(item);
        assert_string_equal(json_text(mount, "mountPath"), "/etc/skyjob-tls");
        assert_true(json_bool(json_get(mount, "readOnly"), false));
        command_of(pods[i], command, sizeof command);
        assert_non_null(strstr(command, "--certificates /etc/skyjob-tls "));
        json_free(pods[i]);
    }
    world_free(w);
}

/* A pod that speaks TLS and one that does not could not connect. */
static void manifest_has_tls_as_the_pods_that_are_there(void **state)
{
    struct world *w = planned_world();
    struct observed *seen = &w->seen;

    (void)state;
    assert_true(seen->n_pods > 0 && seen->pods[0].role == POD_WORKER);
    assert_false(manifest_has_tls(seen, POD_WORKER));
    seen->settings.has_tls = true;
    assert_false(manifest_has_tls(seen, POD_WORKER));
    assert_true(manifest_has_tls(seen, POD_PROBE));
    for (int i = 0; i < seen->n_pods; i++)
        seen->pods[i].phase = POD_FAILED;
    assert_true(manifest_has_tls(seen, POD_WORKER));
    seen->settings.has_tls = false;
    seen->pods[0].phase = POD_RUNNING;
    seen->pods[0].has_tls = true;
    assert_true(manifest_has_tls(seen, POD_WORKER));
    world_free(w);
}

/* Of a stage only: a probe lives for seconds, and has nothing to report. */
static void manifest_of_a_stage_serves_metrics_if_the_settings_say_so(void **state)
{
    struct world *w = planned_world();
    struct action action = {.kind = ACTION_CREATE_PROBE_POD, .node = "node-1"};
    struct buf text = {.max = MANIFEST_MAX_BYTES};

    (void)state;
    w->seen.n_pods = 0;
    w->seen.settings.has_worker_metrics = true;
    for (int has_tls = 0; has_tls < 2; has_tls++) {
        struct json *pods[2];
        char commands[2][1024];

        w->seen.settings.has_tls = has_tls;
        assert_int_equal(write_for(w, &action, &text), ERR_OK);
        pods[0] = stage_pod(w, 1);
        pods[1] = parse(&text);
        for (int i = 0; i < 2; i++) {
            const struct json *volume = named(json_path(pods[i], "spec.volumes"), "tls");
            size_t n_files = json_count(json_path(volume, "secret.items"));

            command_of(pods[i], commands[i], sizeof commands[i]);
            assert_int_equal(n_files, !has_tls ? 0 : i == 0 ? 5 : 3);
        }
        assert_non_null(strstr(commands[0], " --metrics-address 0.0.0.0:7073 "));
        assert_int_equal(json_i64(json_get(named(json_get(container(pods[0]), "ports"), "metrics"),
                                           "containerPort"),
                                  0),
                         PORT_METRICS);
        assert_null(strstr(commands[1], "metrics"));
        assert_null(named(json_get(container(pods[1]), "ports"), "metrics"));
        json_free(pods[0]);
        json_free(pods[1]);
    }
    world_free(w);
}

static void manifest_of_a_reader_has_no_certificate(void **state)
{
    struct world *w = planned_world();
    struct action action = {.kind = ACTION_CREATE_MODEL_POD};
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    struct json *pod;

    (void)state;
    w->seen.settings.has_tls = true;
    assert_int_equal(write_for(w, &action, &text), ERR_OK);
    pod = parse(&text);
    assert_null(named(json_path(pod, "spec.volumes"), "tls"));
    json_free(pod);
    world_free(w);
}

static void manifest_of_the_certificates_belongs_to_the_job(void **state)
{
    struct world *w = planned_world();
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    struct json *texts = NULL, *secret;
    const struct json *owner;

    (void)state;
    assert_int_equal(json_parse("{\"ca.crt\":\"a\\nb\"}", 17, &texts, NULL), ERR_OK);
    assert_int_equal(manifest_certificates(&w->seen, texts, &text, NULL), ERR_OK);
    secret = parse(&text);
    owner = json_first(json_path(secret, "metadata.ownerReferences"));
    assert_string_equal(json_text(owner, "uid"), w->seen.uid);
    assert_string_equal(json_text(secret, "metadata.name"), "mnli-certificates");
    assert_false(json_bool(json_get(secret, "immutable"), false));
    assert_string_equal(json_string(json_get(json_get(secret, "stringData"), "ca.crt"), ""),
                        "a\nb");
    json_free(secret);
    json_free(texts);
    world_free(w);
}

static void manifest_of_the_key_belongs_to_the_job_and_never_changes(void **state)
{
    struct world *w = planned_world();
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    struct json *secret;
    const struct json *owner;

    (void)state;
    assert_int_equal(manifest_key(&w->seen, "abc", &text, NULL), ERR_OK);
    secret = parse(&text);
    owner = json_first(json_path(secret, "metadata.ownerReferences"));
    assert_string_equal(json_text(secret, "kind"), "Secret");
    assert_string_equal(json_text(owner, "uid"), w->seen.uid);
    assert_true(json_bool(json_get(secret, "immutable"), false));
    assert_string_equal(json_text(secret, "stringData.key"), "abc");
    json_free(secret);
    world_free(w);
}

static void manifest_probes_the_health_port_of_a_stage(void **state)
{
    static const char *const probes[] = {"livenessProbe", "readinessProbe"};
    struct world *w = planned_world();
    struct json *pod = stage_pod(w, 1);

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            json_i64(json_path(json_get(container(pod), probes[i]), "httpGet.port"), 0),
            PORT_HEALTH);
    json_free(pod);
    world_free(w);
}

static void manifest_of_other_stages_has_no_data_but_checkpoints_and_output(void **state)
{
    struct world *w = planned_world();
    struct json *pod = stage_pod(w, 1);
    const struct json *mounts = json_get(container(pod), "volumeMounts");
    char command[512];

    (void)state;
    command_of(pod, command, sizeof command);
    assert_null(strstr(command, "--data"));
    assert_null(named(mounts, "data"));
    assert_null(named(json_path(pod, "spec.volumes"), "data"));
    assert_non_null(strstr(command, " --checkpoints /checkpoints/mnli-0b7d "));
    assert_string_equal(json_text(named(mounts, "checkpoints"), "subPath"), "c");
    assert_string_equal(json_text(named(json_path(pod, "spec.volumes"), "checkpoints"),
                                  "persistentVolumeClaim.claimName"),
                        "saves");
    assert_string_equal(json_text(named(mounts, "output"), "subPath"), "a/b");
    json_free(pod);
    world_free(w);
}

/* A kubelet waits for ever for the second of two volumes of one claim. */
static void manifest_of_a_claim_that_is_mounted_twice_has_one_volume(void **state)
{
    struct world *w = world_new("{\"model\":{\"preset\":\"BertTiny\"},"
                                "\"data\":{\"source\":{\"sample\":\"MNLI\"}},"
                                "\"checkpoint\":{\"store\":{\"persistentVolumeClaim\":"
                                "{\"claimName\":\"one\",\"path\":\"c\"}}},"
                                "\"output\":{\"persistentVolumeClaim\":"
                                "{\"claimName\":\"one\",\"path\":\"o\"}}}");
    const struct json *volumes, *mount;
    struct json *pod;
    int n_mounts = 0, n_claims = 0;

    (void)state;
    (void)world_settle(w);
    pod = stage_pod(w, 0);
    volumes = json_path(pod, "spec.volumes");
    for (mount = json_first(json_get(container(pod), "volumeMounts")); mount;
         mount = json_next(mount)) {
        const struct json *volume = named(volumes, json_text(mount, "name"));

        assert_non_null(volume);
        n_mounts += json_get(volume, "persistentVolumeClaim") != NULL;
    }
    for (const struct json *v = json_first(volumes); v; v = json_next(v))
        n_claims += json_get(v, "persistentVolumeClaim") != NULL;
    assert_int_equal(n_mounts, 2);
    assert_int_equal(n_claims, 1);
    json_free(pod);
    world_free(w);
}

static void manifest_of_a_job_that_goes_on_from_another_names_its_checkpoints(void **state)
{
    struct world *w = planned_world();
    struct spec *spec = &w->seen.revision.plan.spec;
    struct json *pod;
    char command[512];

    (void)state;
    (void)snprintf(spec->resume_from, sizeof spec->resume_from, "old");
    pod = stage_pod(w, 1);
    command_of(pod, command, sizeof command);
    assert_non_null(
        strstr(command, " --checkpoints /checkpoints/mnli-0b7d --resume-from /checkpoints/old "));
    json_free(pod);
    world_free(w);
}

static void manifest_of_a_job_that_goes_on_from_another_in_a_bucket_names_its_prefix(void **state)
{
    struct world *w = planned_world();
    struct spec *spec = &w->seen.revision.plan.spec;
    struct json *pod;
    char command[512];

    (void)state;
    spec->checkpoint.volume = (struct spec_volume){.claim = ""};
    spec->checkpoint.s3 = (struct spec_bucket){.bucket = "runs", .prefix = "a/b", .secret = "keys"};
    (void)snprintf(spec->resume_from, sizeof spec->resume_from, "old");
    pod = stage_pod(w, 1);
    command_of(pod, command, sizeof command);
    assert_non_null(strstr(command, " --resume-from s3://runs/a/b/old "));
    assert_non_null(strstr(command, " --checkpoints s3://runs/a/b/mnli-0b7d "));
    json_free(pod);
    world_free(w);
}

static void manifest_of_a_stage_with_its_own_checkpoints_has_room_for_them(void **state)
{
    struct world *w = planned_world();
    struct spec *spec = &w->seen.revision.plan.spec;
    const struct json *volumes;
    struct json *pod;
    char command[512];
    char size[32];

    (void)state;
    spec->checkpoint.volume = (struct spec_volume){.claim = ""};
    spec->checkpoint.is_peers = true;
    spec->checkpoint.keep = 3;
    pod = stage_pod(w, 1);
    command_of(pod, command, sizeof command);
    assert_non_null(strstr(command, " --own-checkpoints /checkpoints/mnli-0b7d "));
    assert_null(strstr(command, " --checkpoints "));
    assert_non_null(named(json_get(container(pod), "volumeMounts"), "checkpoints"));
    volumes = json_path(pod, "spec.volumes");
    (void)snprintf(size, sizeof size, "%lld",
                   8 * ((long long)cost_checkpoint_bytes(spec) + (64 << 20)));
    assert_string_equal(json_text(named(volumes, "checkpoints"), "emptyDir.sizeLimit"), size);
    json_free(pod);
    world_free(w);
}

static void manifest_of_a_stage_with_a_bucket_has_its_credentials(void **state)
{
    struct world *w = planned_world();
    struct spec *spec = &w->seen.revision.plan.spec;
    const struct json *env;
    struct json *pod;
    char command[512];

    (void)state;
    spec->checkpoint.volume = (struct spec_volume){.claim = ""};
    spec->checkpoint.s3 =
        (struct spec_bucket){.bucket = "runs", .prefix = "a/b", .region = "eu", .secret = "keys"};
    pod = stage_pod(w, 1);
    command_of(pod, command, sizeof command);
    assert_non_null(strstr(command, " --checkpoints s3://runs/a/b/mnli-0b7d "));
    assert_non_null(strstr(command, " --own-checkpoints /checkpoints/mnli-0b7d "));
    assert_non_null(json_path(named(json_path(pod, "spec.volumes"), "checkpoints"), "emptyDir"));
    env = json_get(container(pod), "env");
    assert_null(named(env, "AWS_ENDPOINT_URL"));
    assert_string_equal(json_text(named(env, "AWS_REGION"), "value"), "eu");
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY";
        const struct json *from = json_path(named(env, name), "valueFrom.secretKeyRef");

        assert_string_equal(json_text(from, "name"), "keys");
        assert_string_equal(json_text(from, "key"), name);
    }
    json_free(pod);
    memcpy(spec->checkpoint.s3.endpoint, "https://s3.local", sizeof "https://s3.local");
    spec->checkpoint.s3.prefix[0] = '\0';
    pod = stage_pod(w, 1);
    command_of(pod, command, sizeof command);
    assert_non_null(strstr(command, " --checkpoints s3://runs/mnli-0b7d "));
    env = json_get(container(pod), "env");
    assert_string_equal(json_text(named(env, "AWS_ENDPOINT_URL"), "value"), "https://s3.local");
    json_free(pod);
    world_free(w);
}

/* A stage reads its own part of the weights, so each of them needs all of the folder. */
static void manifest_of_every_stage_has_the_model_to_start_from(void **state)
{
    struct world *w = planned_world();

    (void)state;
    for (int s = 0; s < w->seen.revision.plan.n_workers; s++) {
        struct json *pod = stage_pod(w, s);
        const struct json *mount = named(json_get(container(pod), "volumeMounts"), "model");
        const struct json *volume = named(json_path(pod, "spec.volumes"), "model");
        char command[512];

        command_of(pod, command, sizeof command);
        assert_non_null(strstr(command, " --model /model "));
        assert_string_equal(json_text(mount, "mountPath"), "/model");
        assert_string_equal(json_text(mount, "subPath"), "tiny");
        assert_true(json_bool(json_get(mount, "readOnly"), false));
        assert_string_equal(json_text(volume, "persistentVolumeClaim.claimName"), "bert");
        json_free(pod);
    }
    world_free(w);
}

static void manifest_of_random_weights_has_no_model(void **state)
{
    struct world *w = world_new(NULL);
    struct json *pod;
    char command[512];

    (void)state;
    (void)world_settle(w);
    pod = stage_pod(w, 0);
    command_of(pod, command, sizeof command);
    assert_null(strstr(command, "--model"));
    assert_null(named(json_get(container(pod), "volumeMounts"), "model"));
    assert_null(named(json_path(pod, "spec.volumes"), "model"));
    json_free(pod);
    world_free(w);
}

static void manifest_of_a_pod_is_placed_by_affinity_and_limited_by_the_plan(void **state)
{
    struct world *w = planned_world();
    struct json *pod = stage_pod(w, 1);
    const struct json *terms =
        json_path(pod, "spec.affinity.nodeAffinity."
                       "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    const struct json *field = json_first(json_get(json_first(terms), "matchFields"));
    const struct json *resources = json_get(container(pod), "resources");
    char cpu[32];

    (void)state;
    assert_string_equal(json_string(json_first(json_get(field, "values")), ""),
                        w->seen.revision.plan.workers[1].node);
    assert_null(json_path(pod, "spec.nodeName"));
    (void)snprintf(cpu, sizeof cpu, "%dm", w->seen.revision.plan.workers[1].cpu_milli);
    assert_string_equal(json_text(resources, "limits.cpu"), cpu);
    assert_true(json_equal(json_get(resources, "limits"), json_get(resources, "requests")));
    json_free(pod);
    world_free(w);
}

static void manifest_of_a_pod_keeps_the_restricted_standard(void **state)
{
    struct world *w = planned_world();
    struct json *pod = stage_pod(w, 0);
    const struct json *security = json_get(container(pod), "securityContext");

    (void)state;
    assert_true(json_bool(json_path(pod, "spec.securityContext.runAsNonRoot"), false));
    assert_string_equal(json_text(pod, "spec.securityContext.seccompProfile.type"),
                        "RuntimeDefault");
    assert_false(json_bool(json_get(security, "allowPrivilegeEscalation"), true));
    assert_true(json_bool(json_get(security, "readOnlyRootFilesystem"), false));
    assert_string_equal(json_string(json_first(json_path(security, "capabilities.drop")), ""),
                        "ALL");
    assert_false(json_bool(json_path(pod, "spec.automountServiceAccountToken"), true));
    assert_false(json_bool(json_path(pod, "spec.enableServiceLinks"), true));
    json_free(pod);
    world_free(w);
}

static void check_user(const struct json *pod, int64_t want)
{
    static const char *const keys[] = {"runAsUser", "runAsGroup", "fsGroup"};
    const struct json *security = json_path(pod, "spec.securityContext");

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_int_equal(json_i64(json_get(security, keys[i]), -1), want);
}

static void manifest_of_a_pod_has_the_user_of_the_settings_or_none(void **state)
{
    static const int64_t users[][2] = {{65532, 65532}, {1000, 1000}, {0, -1}};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct world *w = planned_world();
        struct json *pod;

        if (i > 0)
            w->seen.settings.worker_user = users[i][0];
        pod = stage_pod(w, 0);
        check_user(pod, users[i][1]);
        assert_true(json_bool(json_path(pod, "spec.securityContext.runAsNonRoot"), false));
        json_free(pod);
        world_free(w);
    }
}

/* The first of a pod's; "": it has none. The job has one of its own, or not. */
static const char *first_pull_secret(bool has_own, const struct json *of_settings, char out[64])
{
    struct world *w = world_new(
        has_own ? "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"placement\":{\"maxStages\":3},"
                  "\"worker\":{\"imagePullSecrets\":[{\"name\":\"own\"}]}}"
                : NULL);
    struct json *pod;

    world_settle(w);
    w->seen.settings.pull_secrets = of_settings;
    pod = stage_pod(w, 0);
    (void)snprintf(out, 64, "%s",
                   json_text(json_first(json_path(pod, "spec.imagePullSecrets")), "name"));
    json_free(pod);
    world_free(w);
    return out;
}

static void manifest_of_a_pod_has_pull_secrets_of_its_job_or_else_of_the_settings(void **state)
{
    struct json *of_settings = NULL;
    char name[64];

    (void)state;
    assert_int_equal(json_parse("[{\"name\":\"all\"}]", 16, &of_settings, NULL), ERR_OK);
    assert_string_equal(first_pull_secret(false, NULL, name), "");
    assert_string_equal(first_pull_secret(false, of_settings, name), "all");
    assert_string_equal(first_pull_secret(true, of_settings, name), "own");
    json_free(of_settings);
}

static void manifest_owns_what_it_makes(void **state)
{
    struct world *w = planned_world();
    struct json *pod = stage_pod(w, 0);
    const struct json *owner = json_first(json_path(pod, "metadata.ownerReferences"));

    (void)state;
    assert_string_equal(json_text(owner, "uid"), "0b7d");
    assert_true(json_bool(json_get(owner, "controller"), false));
    assert_string_equal(json_text(pod, "metadata.namespace"), "team");
    assert_string_equal(json_string(json_get(json_path(pod, "metadata.labels"), LABEL_SLOT), ""),
                        "0");
    assert_string_equal(
        json_string(json_get(json_path(pod, "metadata.labels"), LABEL_INCARNATION), ""), "1");
    json_free(pod);
    world_free(w);
}

static void manifest_of_a_revision_reads_back_as_the_revision(void **state)
{
    struct world *w = planned_world();
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    struct revision *revision = calloc(1, sizeof *revision);
    struct json *object;
    const char *inner;

    (void)state;
    assert_int_equal(write_for(w, &(struct action){.kind = ACTION_CREATE_REVISION}, &text), ERR_OK);
    object = parse(&text);
    assert_true(json_bool(json_get(object, "immutable"), false));
    inner = json_string(json_get(json_get(object, "data"), REVISION_FILE), "");
    assert_int_equal(revision_parse(inner, strlen(inner), revision, NULL), ERR_OK);
    assert_int_equal(revision->plan.n_workers, 2);
    assert_true(plan_hash(&revision->plan) == plan_hash(&w->seen.revision.plan));
    free(revision);
    json_free(object);
    world_free(w);
}

/* What was written by another version of the operator is not written anew. */
static void manifest_of_a_lost_revision_is_the_same_byte_for_byte(void **state)
{
    struct world *w = planned_world();
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    struct json *object;

    (void)state;
    assert_int_equal(buf_add(&w->text, " \n", 2, NULL), ERR_OK);
    assert_int_equal(write_for(w, &(struct action){.kind = ACTION_RESTORE_REVISION}, &text),
                     ERR_OK);
    object = parse(&text);
    assert_true(json_bool(json_get(object, "immutable"), false));
    assert_string_equal(json_text(object, "metadata.name"), "mnli-0b7d-r1");
    assert_string_equal(json_string(json_get(json_get(object, "data"), REVISION_FILE), ""),
                        buf_text(&w->text));
    json_free(object);
    world_free(w);
}

static void manifest_of_a_revision_can_keep_the_spec_of_the_last_one(void **state)
{
    static const char changed[] = "{\"model\":{\"preset\":\"BertTiny\"},\"data\":{\"source\":"
                                  "{\"sample\":\"MNLI\"}},\"worker\":{\"image\":\"other:1\"}}";

    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        struct world *w = planned_world();
        struct buf text = {.max = MANIFEST_MAX_BYTES};
        struct revision *revision = calloc(1, sizeof *revision);
        struct json *object;
        const char *inner;

        world_set_spec(w, changed);
        assert_int_equal(
            write_for(w, &(struct action){.kind = ACTION_CREATE_REVISION, .keeps_spec = keeps},
                      &text),
            ERR_OK);
        object = parse(&text);
        inner = json_string(json_get(json_get(object, "data"), REVISION_FILE), "");
        assert_int_equal(revision_parse(inner, strlen(inner), revision, NULL), ERR_OK);
        assert_int_equal(strcmp(revision->plan.spec.worker.image, "other:1") == 0, !keeps);
        free(revision);
        json_free(object);
        world_free(w);
    }
}

static void manifest_of_a_probe_gets_what_a_stage_would_get(void **state)
{
    struct world *w = planned_world();
    struct action action = {
        .kind = ACTION_CREATE_PROBE_POD, .cpu_milli = 700, .memory_bytes = 1 << 30};
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    const struct json *terms, *field;
    struct json *pod;
    char command[512];

    (void)state;
    (void)snprintf(action.node, sizeof action.node, "node-1");
    assert_int_equal(write_for(w, &action, &text), ERR_OK);
    pod = parse(&text);
    command_of(pod, command, sizeof command);
    assert_string_equal(command, "skyjob-worker probe --spec /etc/skyjob/spec.json "
                                 "--control 0.0.0.0:7070 --tensor 0.0.0.0:7071 "
                                 "--key /etc/skyjob-key/key "
                                 "--termination-log /dev/termination-log");
    assert_int_equal(json_count(json_path(pod, "spec.volumes")), 3); /* no claim holds it up */
    assert_int_equal(json_count(json_get(container(pod), "ports")), 2);
    assert_string_equal(json_text(container(pod), "resources.limits.cpu"), "700m");
    assert_int_equal(json_i64(json_path(pod, "spec.activeDeadlineSeconds"), 0),
                     MANIFEST_ONESHOT_SECONDS);
    assert_null(json_path(pod, "spec.priorityClassName"));
    terms = json_path(pod, "spec.affinity.nodeAffinity."
                           "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    field = json_first(json_get(json_first(terms), "matchFields"));
    assert_string_equal(json_string(json_first(json_get(field, "values")), ""), "node-1");
    json_free(pod);
    world_free(w);
}

static void manifest_of_a_reader_mounts_the_model_and_nothing_else(void **state)
{
    static const char from[] = "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"model\":{\"from\":"
                               "{\"persistentVolumeClaim\":{\"claimName\":\"models\"}}}}";
    struct world *w = world_new(from);
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    const struct json *volume;
    struct json *pod;
    char command[512];

    (void)state;
    assert_int_equal(write_for(w, &(struct action){.kind = ACTION_CREATE_MODEL_POD}, &text),
                     ERR_OK);
    pod = parse(&text);
    command_of(pod, command, sizeof command);
    assert_string_equal(command, "skyjob-worker inspect --model /model "
                                 "--termination-log /dev/termination-log");
    assert_string_equal(json_text(pod, "metadata.name"), "mnli-0b7d-model");
    assert_string_equal(json_string(json_get(json_path(pod, "metadata.labels"), LABEL_ROLE), ""),
                        "model");
    assert_null(json_path(pod, "spec.affinity")); /* where the volume is, the scheduler knows */
    assert_null(json_get(container(pod), "ports"));
    volume = json_first(json_path(pod, "spec.volumes"));
    assert_int_equal(json_count(json_path(pod, "spec.volumes")), 2);
    assert_string_equal(json_text(volume, "name"), "tmp");
    assert_string_equal(json_text(json_next(volume), "persistentVolumeClaim.claimName"), "models");
    volume = json_next(json_first(json_get(container(pod), "volumeMounts")));
    assert_true(json_bool(json_get(volume, "readOnly"), false));
    assert_int_equal(json_i64(json_path(pod, "spec.activeDeadlineSeconds"), 0),
                     MANIFEST_ONESHOT_SECONDS);
    json_free(pod);
    world_free(w);
}

static void manifest_of_a_probe_has_the_priority_of_the_settings(void **state)
{
    struct world *w = planned_world();
    struct action action = {.kind = ACTION_CREATE_PROBE_POD, .node = "node-1"};
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    struct json *pod;

    (void)state;
    (void)snprintf(w->seen.settings.probe_priority_class, NODE_NAME_BYTES, "low");
    assert_int_equal(write_for(w, &action, &text), ERR_OK);
    pod = parse(&text);
    assert_string_equal(json_text(pod, "spec.priorityClassName"), "low");
    json_free(pod);
    pod = stage_pod(w, 0);
    assert_null(json_path(pod, "spec.priorityClassName"));
    json_free(pod);
    world_free(w);
}

static void manifest_of_a_probe_reads_data_that_are_everywhere(void **state)
{
    static const char *const sources[][3] = {
        {"{\"data\":{\"source\":{\"sample\":\"MNLI\"}}}", " --data /usr/share/skyjob/mnli ", "3"},
        {"{\"data\":{\"source\":{\"configMap\":{\"name\": \"nli\"}}}}", " --data /data ", "4"},
    };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world *w = world_new(sources[i][0]);
        struct action action = {.kind = ACTION_CREATE_PROBE_POD, .node = "node-1"};
        struct buf text = {.max = MANIFEST_MAX_BYTES};
        struct json *pod;
        char command[512];

        assert_int_equal(write_for(w, &action, &text), ERR_OK);
        pod = parse(&text);
        command_of(pod, command, sizeof command);
        assert_non_null(strstr(command, sources[i][1]));
        assert_int_equal(json_count(json_path(pod, "spec.volumes")), atoi(sources[i][2]));
        json_free(pod);
        world_free(w);
    }
}

static void manifest_of_a_probe_reads_a_claim_that_any_node_can_read(void **state)
{
    struct world *w = world_new("{\"data\":{\"source\":{\"persistentVolumeClaim\":{"
                                "\"claimName\":\"glue\",\"path\":\"mnli\"}}}}");
    struct action action = {.kind = ACTION_CREATE_PROBE_POD, .node = "node-1"};
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    const struct json *mount;
    struct json *pod;
    char command[512];

    (void)state;
    w->seen.data.is_everywhere = true;
    assert_int_equal(write_for(w, &action, &text), ERR_OK);
    pod = parse(&text);
    command_of(pod, command, sizeof command);
    assert_non_null(strstr(command, " --data /data "));
    mount = named(json_get(container(pod), "volumeMounts"), "data");
    assert_true(json_bool(json_get(mount, "readOnly"), false));
    assert_string_equal(json_text(mount, "subPath"), "mnli");
    assert_string_equal(
        json_text(named(json_path(pod, "spec.volumes"), "data"), "persistentVolumeClaim.claimName"),
        "glue");
    json_free(pod);
    world_free(w);
}

static void manifest_pull_policy_goes_with_the_image(void **state)
{
    struct world *w = world_new(NULL); /* names no image */
    struct json *pod;

    (void)state;
    (void)snprintf(w->seen.settings.pull_policy, SPEC_WORD_BYTES, "Never");
    (void)world_settle(w);
    pod = stage_pod(w, 0);
    assert_string_equal(json_text(container(pod), "image"), "worker:1");
    assert_string_equal(json_text(container(pod), "imagePullPolicy"), "Never");
    json_free(pod);
    world_free(w);
    w = planned_world();
    (void)snprintf(w->seen.settings.pull_policy, SPEC_WORD_BYTES, "Never");
    pod = stage_pod(w, 0);
    assert_string_equal(json_text(container(pod), "image"), "mine:2");
    assert_string_equal(json_text(container(pod), "imagePullPolicy"), "IfNotPresent");
    json_free(pod);
    world_free(w);
}

static void has_image(struct world *w, const char *image)
{
    struct json *pod = stage_pod(w, 0);

    assert_string_equal(json_text(container(pod), "image"), image);
    json_free(pod);
}

/* As after an upgrade of the operator. */
static void manifest_keeps_the_default_image_for_workers_that_replace_others(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    (void)world_settle(w);
    world_run_pods(w);
    (void)snprintf(w->seen.settings.worker_image, SPEC_IMAGE_BYTES, "worker:2");
    world_remove_pod(w, world_pod(w, 0));
    (void)world_settle(w);
    w->seen.now_ms += DECIDE_BACKOFF_MS + 1000;
    (void)world_settle(w);
    assert_int_equal(w->seen.status.revision, 2);
    has_image(w, "worker:1");
    world_free(w);
}

/* As when the default could not be pulled, and was corrected. */
static void manifest_takes_another_default_image_for_a_job_that_starts_anew(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    (void)world_settle(w);
    (void)snprintf(w->seen.settings.worker_image, SPEC_IMAGE_BYTES, "worker:2");
    (void)world_settle(w);
    has_image(w, "worker:1");
    w->seen.now_ms += DECIDE_CREATING_MS + 1000;
    (void)world_settle(w);
    w->seen.now_ms += DECIDE_BACKOFF_MS + 1000;
    (void)world_settle(w);
    assert_int_equal(w->seen.status.revision, 2);
    assert_string_equal(w->seen.status.placement.image, "worker:2");
    has_image(w, "worker:2");
    world_free(w);
}

static void manifest_leaves_the_image_to_a_spec_that_names_one(void **state)
{
    struct world *w = planned_world();

    (void)state;
    assert_string_equal(w->seen.status.placement.image, "");
    has_image(w, "mine:2");
    world_free(w);
}

/* The rule for a port of the policy. */
static const struct json *rule_for(const struct json *policy, int port)
{
    const struct json *v = json_first(json_path(policy, "spec.ingress"));

    while (v && json_i64(json_get(json_first(json_get(v, "ports")), "port"), 0) != port)
        v = json_next(v);
    assert_int_equal(json_count(json_get(v, "ports")), 1);
    return v;
}

static struct json *policy_of(struct world *w)
{
    struct buf text = {.max = MANIFEST_MAX_BYTES};

    assert_int_equal(write_for(w, &(struct action){.kind = ACTION_CREATE_POLICY}, &text), ERR_OK);
    return parse(&text);
}

static const char *job_uid_in(const struct json *selector)
{
    return json_string(json_get(json_get(selector, "matchLabels"), LABEL_JOB_UID), "");
}

static void manifest_of_a_policy_lets_in_the_own_workers_and_the_operator(void **state)
{
    struct world *w = planned_world();
    struct settings *s = &w->seen.settings;
    const struct json *from;
    struct json *policy;

    (void)state;
    (void)snprintf(s->operator_namespace, sizeof s->operator_namespace, "skyjob-system");
    (void)snprintf(s->operator_labels, sizeof s->operator_labels, "a.b/c=d,e=");
    policy = policy_of(w);
    assert_string_equal(json_text(policy, "apiVersion"), "networking.k8s.io/v1");
    assert_string_equal(job_uid_in(json_path(policy, "spec.podSelector")), "0b7d");
    assert_string_equal(json_string(json_first(json_path(policy, "spec.policyTypes")), ""),
                        "Ingress");
    assert_int_equal(json_count(json_path(policy, "spec.policyTypes")), 1);
    assert_int_equal(json_count(json_path(policy, "spec.ingress")), 3);
    from = json_get(rule_for(policy, PORT_TENSOR), "from");
    assert_int_equal(json_count(from), 1);
    assert_int_equal(json_count(json_first(from)), 1); /* of the same namespace */
    assert_string_equal(job_uid_in(json_get(json_first(from), "podSelector")), "0b7d");
    from = json_get(rule_for(policy, PORT_CONTROL), "from");
    assert_int_equal(json_count(from), 1);
    assert_string_equal(
        json_string(json_get(json_path(json_first(from), "namespaceSelector.matchLabels"),
                             "kubernetes.io/metadata.name"),
                    ""),
        "skyjob-system");
    from = json_path(json_first(from), "podSelector.matchLabels");
    assert_int_equal(json_count(from), 2);
    assert_string_equal(json_string(json_get(from, "a.b/c"), ""), "d");
    assert_string_equal(json_string(json_get(from, "e"), "-"), "");
    assert_null(json_get(rule_for(policy, PORT_HEALTH), "from"));
    json_free(policy);
    world_free(w);
}

static void manifest_of_a_policy_does_not_lock_out_an_operator_that_runs_elsewhere(void **state)
{
    struct world *w = planned_world();
    struct json *policy = policy_of(w);

    (void)state;
    assert_null(json_get(rule_for(policy, PORT_CONTROL), "from"));
    assert_non_null(json_get(rule_for(policy, PORT_TENSOR), "from"));
    json_free(policy);
    world_free(w);
}

static void manifest_of_a_policy_lets_readers_of_metrics_in_to_their_port_only(void **state)
{
    struct world *w = planned_world();
    struct settings *s = &w->seen.settings;
    const struct json *from;
    struct json *policy;

    (void)state;
    s->has_worker_metrics = true;
    policy = policy_of(w);
    assert_int_equal(json_count(json_path(policy, "spec.ingress")), 4);
    assert_null(json_get(rule_for(policy, PORT_METRICS), "from")); /* not known: all */
    json_free(policy);
    for (int has_labels = 0; has_labels < 2; has_labels++) {
        (void)snprintf(s->readers_namespace, sizeof s->readers_namespace, "monitoring");
        (void)snprintf(s->readers_labels, sizeof s->readers_labels, has_labels ? "a=b" : "");
        policy = policy_of(w);
        from = json_get(rule_for(policy, PORT_METRICS), "from");
        assert_int_equal(json_count(from), 1);
        assert_string_equal(
            json_string(json_get(json_path(json_first(from), "namespaceSelector.matchLabels"),
                                 "kubernetes.io/metadata.name"),
                        ""),
            "monitoring");
        from = json_path(json_first(from), "podSelector.matchLabels");
        assert_non_null(from);
        assert_int_equal(json_count(from), has_labels);
        assert_string_equal(json_text(from, "a"), has_labels ? "b" : "");
        assert_null(json_get(rule_for(policy, PORT_CONTROL), "from"));
        json_free(policy);
    }
    world_free(w);
}

static void manifest_of_the_other_objects_is_whole_json(void **state)
{
    struct world *w = planned_world();
    struct action action = {.kind = ACTION_ANNOTATE_NODE, .node = "node-2", .name = "probe"};
    struct seen_pod *probe = &w->seen.pods[w->seen.n_pods++];
    struct buf text = {.max = MANIFEST_MAX_BYTES};
    const struct node_probe found = {.gflops = 6.1728, .unit_ms = 0.01, .threads = 1};
    struct annotations annotations;
    struct json *json;

    (void)state;
    assert_int_equal(write_for(w, &(struct action){.kind = ACTION_CREATE_PROBE_SPEC}, &text),
                     ERR_OK);
    json_free(parse(&text));
    *probe = (struct seen_pod){.name = "probe",
                               .role = POD_PROBE,
                               .cpu_milli = 1500,
                               .digest = "sha256:12",
                               .probe = &found};
    assert_int_equal(manifest_node_patch(&w->seen, &action, &text, NULL), ERR_OK);
    json = parse(&text);
    assert_string_equal(
        json_string(json_get(json_path(json, "metadata.labels"), LABEL_MEASURED_GFLOPS), ""),
        "12.346");
    annotations_read(json, &annotations);
    assert_true(annotations.has_probe);
    assert_true(annotations.probe.subject.cpu_milli == 3000);
    assert_string_equal(annotations.probe.subject.image, "mine:2");
    assert_string_equal(annotations.probe.subject.digest, "sha256:12");
    assert_false(annotations.probe.is_contradicted);
    assert_int_equal(json_kind_of(json_get(json_path(json, "metadata.annotations"),
                                           "skyjob.dev/probe-contradicted")),
                     JSON_NULL); /* a merge patch takes it away */
    json_free(json);
    assert_int_equal(manifest_contradicted_patch(&w->seen, &text, NULL), ERR_OK);
    json = parse(&text);
    assert_non_null(json_string(
        json_get(json_path(json, "metadata.annotations"), "skyjob.dev/probe-contradicted"), NULL));
    json_free(json);
    assert_int_equal(manifest_status_patch(&w->seen.status, "77", &text, NULL), ERR_OK);
    json = parse(&text);
    assert_string_equal(json_text(json, "metadata.resourceVersion"), "77");
    json_free(json);
    world_free(w);
}

/* --- golden objects --- */

static const char configured[] = "{\"data\":{\"source\":{\"configMap\":{\"name\":\"nli\"}}}}";

/* All that a user can say about pods. */
static const char own_pods[] =
    "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"worker\":{"
    "\"labels\":{\"team\":\"nlp\",\"example.com/queue\":\"fast\"},"
    "\"annotations\":{\"example.com/note\":\"two\\nlines\"},"
    "\"nodeSelector\":{\"disk\":\"ssd\"},"
    "\"tolerations\":[{\"key\":\"gpu\",\"operator\":\"Exists\"},"
    "{\"key\":\"old\",\"value\":\"x\",\"effect\":\"NoSchedule\"}],"
    "\"imagePullSecrets\":[{\"name\":\"pull\"}],\"priorityClassName\":\"high\"}}";

/* The group's label and annotations stand beside a user's own. */
static const char queued[] =
    "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"worker\":{\"labels\":{"
    "\"kueue.x-k8s.io/queue-name\":\"nlp\"},\"annotations\":{\"example.com/note\":\"two\"}}}";

static enum err_code write_stage_0(const struct world *w, struct buf *out)
{
    return write_stage(w, 0, out);
}

static enum err_code write_stage_1(const struct world *w, struct buf *out)
{
    return write_stage(w, 1, out);
}

static enum err_code write_member(const struct world *w, struct buf *out)
{
    return write_for(
        w,
        &(struct action){.kind = ACTION_CREATE_WORKER_POD, .stage = 1, .group = 1, .group_size = 2},
        out);
}

static enum err_code write_probe(const struct world *w, struct buf *out)
{
    struct action action = {.kind = ACTION_CREATE_PROBE_POD,
                            .node = "node-1",
                            .cpu_milli = 700,
                            .memory_bytes = 1 << 30};

    return write_for(w, &action, out);
}

static enum err_code write_policy(const struct world *w, struct buf *out)
{
    return write_for(w, &(struct action){.kind = ACTION_CREATE_POLICY}, out);
}

static enum err_code write_key(const struct world *w, struct buf *out)
{
    return manifest_key(&w->seen, "a \"key\"", out, NULL);
}

static enum err_code write_probe_spec(const struct world *w, struct buf *out)
{
    return write_for(w, &(struct action){.kind = ACTION_CREATE_PROBE_SPEC}, out);
}

static enum err_code write_contradicted(const struct world *w, struct buf *out)
{
    return manifest_contradicted_patch(&w->seen, out, NULL);
}

static const struct golden {
    const char *name; /* of the file */
    const char *spec;
    enum err_code (*write)(const struct world *w, struct buf *out);
    bool has_settings; /* all that an operator can be started with */
    bool is_data_everywhere;
    bool has_metrics; /* and certificates */
} goldens[] = {
    {"stage-0-with-claims", spec_text, write_stage_0, false, false, false},
    {"stage-1-with-claims", spec_text, write_stage_1, true, false, false},
    {"stage-0-of-sample", NULL, write_stage_0, true, false, false},
    {"stage-0-of-config-map", configured, write_stage_0, false, false, false},
    {"probe-of-claims", spec_text, write_probe, false, false, false},
    {"probe-of-shared-claims", spec_text, write_probe, false, true, false},
    {"probe-of-sample", NULL, write_probe, true, false, false},
    {"probe-of-config-map", configured, write_probe, false, false, false},
    {"stage-0-of-own-pods", own_pods, write_stage_0, true, false, false},
    {"stage-1-of-group", queued, write_member, true, false, false},
    {"probe-of-own-pods", own_pods, write_probe, true, false, false},
    {"policy-of-operator", NULL, write_policy, true, false, false},
    {"policy-of-unknown-operator", NULL, write_policy, false, false, false},
    {"stage-0-with-metrics", NULL, write_stage_0, true, false, true},
    {"policy-with-metrics", NULL, write_policy, true, false, true},
    {"key", own_pods, write_key, false, false, false},
    {"probe-spec", spec_text, write_probe_spec, false, false, false},
    {"contradicted-patch", NULL, write_contradicted, false, false, false},
};

/* Two stages with figures of their own, whatever the planner would choose. */
static struct world *golden_world(const struct golden *g)
{
    struct world *w = world_new(g->spec);
    struct settings *s = &w->seen.settings;

    if (g->has_settings) {
        (void)snprintf(s->pull_policy, sizeof s->pull_policy, "Never");
        (void)snprintf(s->probe_priority_class, sizeof s->probe_priority_class, "low");
        (void)snprintf(s->operator_namespace, sizeof s->operator_namespace, "skyjob-system");
        (void)snprintf(s->operator_labels, sizeof s->operator_labels, "a.b/c=d,e=");
    }
    if (g->has_metrics) {
        s->has_tls = s->has_worker_metrics = true;
        (void)snprintf(s->readers_namespace, sizeof s->readers_namespace, "monitoring");
        (void)snprintf(s->readers_labels, sizeof s->readers_labels, "app=prometheus");
    }
    w->seen.data.is_everywhere = g->is_data_everywhere;
    w->seen.revision.plan.revision = 3;
    w->seen.revision.plan.n_workers = 2;
    assert_non_null(w->seen.spec);
    w->seen.revision.plan.spec = *w->seen.spec;
    for (int i = 0; i < 2; i++) {
        struct plan_worker *stage = &w->seen.revision.plan.workers[i];

        stage->slot = i;
        stage->incarnation = 3;
        stage->first_unit = 3 * i;
        (void)snprintf(stage->node, sizeof stage->node, "node-%d", i);
        stage->cpu_milli = 500 * (i + 1);
        stage->memory_bytes = (int64_t)5 << (30 + i);
    }
    return w;
}

static void manifest_writes_the_golden_objects(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        struct world *w = golden_world(&goldens[i]);
        struct buf text = {.max = MANIFEST_MAX_BYTES};
        struct buf golden = {.max = MANIFEST_MAX_BYTES};
        struct json *got = NULL;
        struct json *want = NULL;
        char path[128];

        (void)snprintf(path, sizeof path, "tests/golden/manifest/%s.json", goldens[i].name);
        assert_int_equal(goldens[i].write(w, &text), ERR_OK);
        assert_int_equal(json_parse(buf_text(&text), text.len, &got, NULL), ERR_OK);
        if (file_read(path, &golden, NULL) != ERR_OK ||
            json_parse(buf_text(&golden), golden.len, &want, NULL) != ERR_OK ||
            !json_equal(got, want))
            fail_msg("%s is not %s", path, buf_text(&text));
        json_free(got);
        json_free(want);
        buf_deinit(&text);
        buf_deinit(&golden);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manifest_writes_the_golden_objects),
        cmocka_unit_test(manifest_of_a_substitute_is_for_its_own_slot_and_node),
        cmocka_unit_test(manifest_of_the_leader_reads_the_data),
        cmocka_unit_test(manifest_of_every_pod_mounts_the_key_and_shows_it_nowhere),
        cmocka_unit_test(manifest_of_a_pod_with_tls_mounts_its_own_certificate_only),
        cmocka_unit_test(manifest_has_tls_as_the_pods_that_are_there),
        cmocka_unit_test(manifest_of_a_stage_serves_metrics_if_the_settings_say_so),
        cmocka_unit_test(manifest_of_a_reader_has_no_certificate),
        cmocka_unit_test(manifest_of_the_certificates_belongs_to_the_job),
        cmocka_unit_test(manifest_of_the_key_belongs_to_the_job_and_never_changes),
        cmocka_unit_test(manifest_probes_the_health_port_of_a_stage),
        cmocka_unit_test(manifest_of_other_stages_has_no_data_but_checkpoints_and_output),
        cmocka_unit_test(manifest_of_a_job_that_goes_on_from_another_names_its_checkpoints),
        cmocka_unit_test(manifest_of_a_job_that_goes_on_from_another_in_a_bucket_names_its_prefix),
        cmocka_unit_test(manifest_of_a_stage_with_its_own_checkpoints_has_room_for_them),
        cmocka_unit_test(manifest_of_a_stage_with_a_bucket_has_its_credentials),
        cmocka_unit_test(manifest_of_every_stage_has_the_model_to_start_from),
        cmocka_unit_test(manifest_of_a_claim_that_is_mounted_twice_has_one_volume),
        cmocka_unit_test(manifest_of_random_weights_has_no_model),
        cmocka_unit_test(manifest_of_a_pod_is_placed_by_affinity_and_limited_by_the_plan),
        cmocka_unit_test(manifest_of_a_pod_keeps_the_restricted_standard),
        cmocka_unit_test(manifest_of_a_pod_has_pull_secrets_of_its_job_or_else_of_the_settings),
        cmocka_unit_test(manifest_of_a_pod_has_the_user_of_the_settings_or_none),
        cmocka_unit_test(manifest_owns_what_it_makes),
        cmocka_unit_test(manifest_of_a_revision_reads_back_as_the_revision),
        cmocka_unit_test(manifest_of_a_lost_revision_is_the_same_byte_for_byte),
        cmocka_unit_test(manifest_of_a_revision_can_keep_the_spec_of_the_last_one),
        cmocka_unit_test(manifest_of_a_probe_gets_what_a_stage_would_get),
        cmocka_unit_test(manifest_of_a_reader_mounts_the_model_and_nothing_else),
        cmocka_unit_test(manifest_of_a_probe_has_the_priority_of_the_settings),
        cmocka_unit_test(manifest_of_a_probe_reads_data_that_are_everywhere),
        cmocka_unit_test(manifest_of_a_probe_reads_a_claim_that_any_node_can_read),
        cmocka_unit_test(manifest_pull_policy_goes_with_the_image),
        cmocka_unit_test(manifest_keeps_the_default_image_for_workers_that_replace_others),
        cmocka_unit_test(manifest_takes_another_default_image_for_a_job_that_starts_anew),
        cmocka_unit_test(manifest_leaves_the_image_to_a_spec_that_names_one),
        cmocka_unit_test(manifest_of_a_policy_lets_in_the_own_workers_and_the_operator),
        cmocka_unit_test(manifest_of_a_policy_does_not_lock_out_an_operator_that_runs_elsewhere),
        cmocka_unit_test(manifest_of_a_policy_lets_readers_of_metrics_in_to_their_port_only),
        cmocka_unit_test(manifest_of_the_other_objects_is_whole_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
