/* skyjob-worker: one stage of a pipeline, the probe of a machine, or the sizes of a model. */
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "api/plan.h"
#include "api/progress.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "files/pretrained.h"
#include "http/s3.h"
#include "nn/gemm.h"
#include "probe/probe.h"
#include "probe/probe_link.h"
#include "train/cpu.h"
#include "train/worker.h"

#define PROBE_TOTAL_MS        19000 /* the whole probe, links included */
#define PROBE_TABLE_MS        8000  /* for the peer table: other probes may start later */
#define PROBE_PARTNER_MS      8000  /* a partner may still be measuring itself ... */
#define PROBE_PARTNER_MORE_MS 2500  /* ... and each next one may have waited for an absent one */

static const char usage[] =
    "usage: skyjob-worker stage --slot N --incarnation N [--data DIR] [--model DIR] [--output "
    "DIR]\n"
    "                           [--checkpoints DIR [--resume-from DIR] | --own-checkpoints DIR |\n"
    "                            --checkpoints s3://BUCKET/PREFIX --own-checkpoints DIR\n"
    "                            [--resume-from s3://BUCKET/PREFIX]]\n"
    "                           [--spare-disk PERCENT]\n"
    "                           --control HOST:PORT --tensor HOST:PORT --key FILE\n"
    "                           [--certificates DIR]\n"
    "                           [--health HOST:PORT] [--metrics-address HOST:PORT]\n"
    "                           [--termination-log FILE] [--history FILE]\n"
    "       skyjob-worker probe [--spec FILE] [--data DIR] [--model DIR] [--termination-log FILE]\n"
    "                           [--control HOST:PORT --tensor HOST:PORT --key FILE\n"
    "                            [--certificates DIR]]\n"
    "       skyjob-worker inspect --model DIR [--termination-log FILE]\n"
    "       skyjob-worker version\n"
    "\n"
    "stage    train a part of a model, as revisions of the plan are posted to it; started by the\n"
    "         operator or `kubectl-skyjob run`\n"
    "probe    measure how fast this machine trains the model of a SkyJob's spec (JSON), with\n"
    "         sequences as long as those in DIR; with ports, also its links to other probes\n"
    "inspect  print the sizes of the model in DIR\n"
    "\n"
    "With --certificates control and tensor ports speak only TLS, with the files ca.crt, tls.crt "
    "and\n"
    "tls.key in DIR. The metrics port serves GET /metrics, with metrics.crt and metrics.key "
    "there.\n";

/* Output is published as a whole or not at all, so a stop needs no clean-up. A leader that is done
 * and only serves its progress has not failed. The first process of a container ignores SIGTERM
 * unless it has a handler.
 *
 * SIGTERM is how a kubelet announces that the pod will be killed, as when its node is drained. A
 * worker that holds units goes on until others have them: it is released then, or killed at the end
 * of its grace period. A second SIGTERM, and SIGINT, end it at once, and so does the control port
 * when its job is gone (train/control.h). */
static struct worker_signals signals;

static _Noreturn void stop(int sig)
{
    _exit(signals.is_done ? EXIT_DONE : 128 + sig);
}

static void on_stop(int sig)
{
    if (sig == SIGTERM && signals.has_state && !signals.is_done && !signals.is_leaving) {
        signals.is_leaving = true;
        return;
    }
    stop(sig);
}

static void on_end(void)
{
    stop(SIGTERM);
}

static void on_stall(void)
{
    _exit(EXIT_STALLED);
}

static void catch_stops(void)
{
    struct sigaction stop = {.sa_handler = on_stop, .sa_flags = SA_RESTART};

    (void)sigaction(SIGTERM, &stop, NULL);
    (void)sigaction(SIGINT, &stop, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

/* Libraries read these variables when they are loaded: set those that the user did not set and
 * execute the program again. OpenBLAS chooses the wrong kernels on newer processors. Waiting OpenMP
 * threads spin for milliseconds, which on a shared or limited processor takes time from the thread
 * that they wait for: with two threads on two busy cores, a quarter of the speed was left. */
static void restart_with_settings(char **argv)
{
    const char *core = gemm_core_wanted();
    bool starts_again = false;

    if (core && !getenv("OPENBLAS_CORETYPE") && strcmp(core, gemm_core_name()) != 0)
        starts_again = setenv("OPENBLAS_CORETYPE", core, 1) == 0;
    if (cpu_threads() > 1 && !getenv("GOMP_SPINCOUNT") && !getenv("OMP_WAIT_POLICY"))
        starts_again = setenv("GOMP_SPINCOUNT", "1000", 1) == 0;
    if (!starts_again)
        return;
    (void)execv("/proc/self/exe", argv);
    perror("skyjob-worker: cannot restart with the settings of its libraries");
}

static bool read_number(const char *text, int *out)
{
    char *end;
    long n = strtol(text, &end, 10);

    *out = (int)n;
    return end != text && *end == '\0' && n >= 0 && n <= INT_MAX;
}

static bool read_option(const char *text, int *out)
{
    return !text || read_number(text, out);
}

/* Split "host:port"; the host lives as long as the process. */
static bool split_address(const char *text, const char **out_host, int *out_port)
{
    const char *colon = text ? strrchr(text, ':') : NULL;

    if (!colon || !read_number(colon + 1, out_port) || *out_port > 65535)
        return false;
    *out_host = strndup(text, (size_t)(colon - text));
    return *out_host;
}

struct arguments {
    struct worker_params stage;
    const char *slot_number, *incarnation_number, *spare_disk;
    const char *control, *tensor, *health, *metrics, *spec_path;
};

/* An option's value is the place of its argument; no place is equal to '?'. */
#define AT(member) ((int)offsetof(struct arguments, member))

static bool read_arguments(int argc, char **argv, struct arguments *out)
{
    static const struct option options[] = {
        {"slot", required_argument, NULL, AT(slot_number)},
        {"incarnation", required_argument, NULL, AT(incarnation_number)},
        {"data", required_argument, NULL, AT(stage.data_dir)},
        {"model", required_argument, NULL, AT(stage.model_dir)},
        {"output", required_argument, NULL, AT(stage.output_dir)},
        {"checkpoints", required_argument, NULL, AT(stage.checkpoints_dir)},
        {"resume-from", required_argument, NULL, AT(stage.resume_from)},
        {"own-checkpoints", required_argument, NULL, AT(stage.own_checkpoints_dir)},
        {"spare-disk", required_argument, NULL, AT(spare_disk)},
        {"control", required_argument, NULL, AT(control)},
        {"tensor", required_argument, NULL, AT(tensor)},
        {"health", required_argument, NULL, AT(health)},
        {"metrics-address", required_argument, NULL, AT(metrics)},
        {"key", required_argument, NULL, AT(stage.key_path)},
        {"certificates", required_argument, NULL, AT(stage.certificates_dir)},
        {"termination-log", required_argument, NULL, AT(stage.termination_path)},
        {"history", required_argument, NULL, AT(stage.history_path)},
        {"spec", required_argument, NULL, AT(spec_path)},
        {NULL, 0, NULL, 0},
    };
    int at;

    *out = (struct arguments){.stage = {.slot = -1}};
    while ((at = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (at == '?')
            return false;
        *(const char **)(void *)((char *)out + at) = optarg;
    }
    return optind == argc && read_option(out->slot_number, &out->stage.slot) &&
           read_option(out->incarnation_number, &out->stage.incarnation) &&
           read_option(out->spare_disk, &out->stage.spare_disk_percent) &&
           out->stage.spare_disk_percent <= 100;
}

/* A probe has both ports and a key, or none. */
static bool has_ports(struct arguments *a)
{
    if (!a->control && !a->tensor)
        return true;
    return a->stage.key_path &&
           split_address(a->control, &a->stage.control_host, &a->stage.control_port) &&
           split_address(a->tensor, &a->stage.tensor_host, &a->stage.tensor_port);
}

/* A store is a folder, or a bucket with a folder before it; so is that of another job. */
static bool has_stores(const struct arguments *a)
{
    bool is_bucket = s3_is_url(a->stage.checkpoints_dir);

    if (a->stage.resume_from && s3_is_url(a->stage.resume_from) != is_bucket)
        return false;
    return a->stage.own_checkpoints_dir ? is_bucket || !a->stage.checkpoints_dir : !is_bucket;
}

static int run_stage(struct arguments *a)
{
    if (a->stage.slot < 0 || a->stage.incarnation < 1 || !a->stage.key_path || !has_stores(a) ||
        (a->health && !split_address(a->health, &a->stage.health_host, &a->stage.health_port)) ||
        (a->metrics &&
         !split_address(a->metrics, &a->stage.metrics_host, &a->stage.metrics_port)) ||
        !split_address(a->control, &a->stage.control_host, &a->stage.control_port) ||
        !split_address(a->tensor, &a->stage.tensor_host, &a->stage.tensor_port)) {
        (void)fputs(usage, stderr);
        return EXIT_CONFIG;
    }
    a->stage.signals = &signals;
    a->stage.on_stall = on_stall;
    a->stage.on_end = on_end;
    return worker_run(&a->stage);
}

static enum err_code load_spec(const char *path, struct spec *out, struct err *err)
{
    struct buf text = {.max = PLAN_TEXT_MAX_BYTES};
    struct json *root = NULL;
    enum err_code rc = path ? file_read(path, &text, err)
                            : buf_addf(&text, err, "{\"data\":{\"source\":{\"sample\":\"MNLI\"}}}");

    if (rc == ERR_OK)
        rc = json_parse(text.data, text.len, &root, err);
    if (rc == ERR_OK)
        rc = spec_parse(root, out, err);
    if (rc == ERR_OK && !spec_has_sizes(out))
        rc = err_set(err, ERR_INVALID, "spec.model: must have the sizes of the model");
    json_free(root);
    buf_deinit(&text);
    return rc;
}

/* Without the job's data the speed is measured with sequences of the usual lengths. */
static void find_sequences(const struct arguments *a, const struct spec *spec,
                           struct sequences *out)
{
    struct err err;

    if (a->stage.data_dir &&
        sequences_read(spec, a->stage.data_dir, a->stage.model_dir, out, &err) == ERR_OK)
        return;
    if (a->stage.data_dir)
        LOG(LOG_WARN, "the data cannot be read: measuring with sequences of the usual lengths",
            LOG_S("error", err.text));
    sequences_make(spec, out);
}

/* NULL when their ports cannot be opened: the rest is measured without them. */
static struct probe_link *open_links(struct arguments *a)
{
    struct probe_link_params params = {.key_path = a->stage.key_path,
                                       .certificates_dir = a->stage.certificates_dir,
                                       .control_host = a->stage.control_host,
                                       .control_port = a->stage.control_port,
                                       .tensor_host = a->stage.tensor_host,
                                       .tensor_port = a->stage.tensor_port,
                                       .now_ns = clock_now_ns,
                                       .end_ms = clock_now_ms() + PROBE_TOTAL_MS,
                                       .table_ms = PROBE_TABLE_MS,
                                       .partner_ms = PROBE_PARTNER_MS,
                                       .partner_more_ms = PROBE_PARTNER_MORE_MS};
    struct probe_link *links = NULL;
    struct err err;

    if (a->control && probe_link_open(&params, &links, &err) != ERR_OK)
        LOG(LOG_WARN, "no links measured", LOG_S("reason", err.text));
    return links;
}

static enum err_code run_probe(struct arguments *a, struct buf *out, struct err *err)
{
    struct probe_link *links = open_links(a);
    struct tls_identity *identity = probe_link_identity(links);
    struct sequences sequences;
    struct node_probe probe;
    struct spec spec;
    enum err_code rc = load_spec(a->spec_path, &spec, err);

    if (rc == ERR_OK)
        rc = gemm_setup(cpu_threads(), err);
    if (rc == ERR_OK) {
        find_sequences(a, &spec, &sequences);
        rc = probe_run(&spec, &sequences, PROBE_MS, &probe, err);
    }
    if (rc == ERR_OK && probe_message_run(clock_now_ns, identity, &probe.message, err) != ERR_OK)
        LOG(LOG_WARN, "messages not measured", LOG_S("reason", err->text));
    if (rc == ERR_OK && links)
        probe_link_run(links, &probe);
    tls_identity_free(identity);
    probe_link_close(links);
    if (rc == ERR_OK)
        rc = node_probe_write(&probe, out, err);
    return rc;
}

static enum err_code run_inspect(struct arguments *a, struct buf *out, struct err *err)
{
    return pretrained_inspect(a->stage.model_dir, out, err);
}

static int print_report(struct arguments *a,
                        enum err_code (*run)(struct arguments *a, struct buf *out, struct err *err))
{
    struct buf text = {.max = NODE_PROBE_MAX_BYTES};
    struct err err;
    enum err_code rc = run(a, &text, &err);
    const char *path = a->stage.termination_path;
    FILE *log = path ? fopen(path, "we") : NULL;

    if (rc == ERR_OK)
        (void)printf("%s\n", buf_text(&text));
    else
        (void)fprintf(stderr, "skyjob-worker: %s\n", err.text);
    if (log) {
        (void)fputs(rc == ERR_OK ? buf_text(&text) : err.text, log);
        (void)fclose(log);
    }
    buf_deinit(&text);
    return rc == ERR_OK ? EXIT_DONE : rc == ERR_INVALID ? EXIT_CONFIG : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct arguments a;

    catch_stops();
    if (argc > 1 && strcmp(argv[1], "version") == 0) {
        (void)printf("skyjob-worker %s\n", SKYJOB_VERSION);
        return EXIT_DONE;
    }
    restart_with_settings(argv);
    (void)prctl(PR_SET_NAME, "skyjob-worker"); /* else ps shows "exe" after that restart */
    (void)prctl(PR_SET_DUMPABLE, 0);           /* it has keys in its memory */
    if (argc > 1 && read_arguments(argc - 1, argv + 1, &a)) {
        if (strcmp(argv[1], "stage") == 0)
            return run_stage(&a);
        if (strcmp(argv[1], "probe") == 0 && has_ports(&a))
            return print_report(&a, run_probe);
        if (strcmp(argv[1], "inspect") == 0 && a.stage.model_dir)
            return print_report(&a, run_inspect);
    }
    (void)fputs(usage, stderr);
    return EXIT_CONFIG;
}
