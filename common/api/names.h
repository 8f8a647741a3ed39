/* api/names.h - names that several programs must spell alike: group, labels, ports, children.
 *
 * Names of children follow from the job alone, so that a repeated create meets the object that the
 * first one made. A job's name has at most NAMES_JOB_MAX bytes so that every child's fits.
 * Layer: api (may use base). Threads: any.
 */
#ifndef API_NAMES_H
#define API_NAMES_H

#define NAMES_GROUP   "skyjob.dev"
#define NAMES_VERSION "v1alpha1"
#define NAMES_SKYJOBS NAMES_GROUP, NAMES_VERSION, "skyjobs" /* as a kube_resource has it */
#define NAMES_JOB_MAX 40
#define NAMES_BYTES   64 /* of a pod's or label's name, with the NUL */

#define NAMES_ATTEMPT_MAX 999999999 /* so that every name fits */

#define LABEL_JOB     "skyjob.dev/job"
#define LABEL_JOB_UID "skyjob.dev/job-uid"
#define LABEL_ATTEMPT "skyjob.dev/attempt"
#define LABEL_STAGE   "skyjob.dev/stage"
#define LABEL_ROLE    "skyjob.dev/role" /* "stage", "probe" or "model" */

/* On nodes, declared by an administrator; see struct annotations. Numbers without a unit. */
#define LABEL_GFLOPS          "skyjob.dev/gflops"    /* BERT training with all allocatable CPU */
#define LABEL_UNIT_MS         "skyjob.dev/unit-ms"   /* fixed cost of a unit */
#define LABEL_LINK_MBIT       "skyjob.dev/link-mbit" /* its network, 10^6 bits a second */
#define LABEL_LINK_LATENCY_MS "skyjob.dev/link-latency-ms" /* one way */
/* Measured by us, for people and selectors; and all that was found, for the planner. */
#define LABEL_MEASURED_GFLOPS "skyjob.dev/measured-gflops"
#define ANNOTATION_PROBE      "skyjob.dev/probe"
/* Since when training does not bear that out; removed with the next measurement. */
#define ANNOTATION_DOUBTED "skyjob.dev/probe-contradicted"

/* On nodes, put there by Kubernetes: workers tolerate their NoExecute for a while. */
#define TAINT_NOT_READY   "node.kubernetes.io/not-ready"
#define TAINT_UNREACHABLE "node.kubernetes.io/unreachable"

#define PORT_CONTROL 7070 /* HTTP: /v1/status, /v1/peers */
#define PORT_TENSOR  7071 /* websocket, subprotocol skyjob.v1 */
#define PORT_HEALTH  7072 /* HTTP: /healthz, /readyz */

#define SAMPLE_DIR "/usr/share/skyjob/mnli" /* in the worker image */

/* Pod of a stage: "<job>-r0-s<stage>-a<attempt>". */
void names_stage_pod(const char *job, int stage, int attempt, char out[static NAMES_BYTES]);
/* Pod that measures a node: "<job>-probe-<hash of the node's name>". */
void names_probe_pod(const char *job, const char *node, char out[static NAMES_BYTES]);
/* Pod that reads the sizes of the model to start from: "<job>-model". */
void names_model_pod(const char *job, char out[static NAMES_BYTES]);
/* ConfigMap with the spec that probes read: "<job>-probe". */
void names_probe_spec(const char *job, char out[static NAMES_BYTES]);
/* ConfigMap with the plan of an attempt: "<job>-plan-a<attempt>". */
void names_plan(const char *job, int attempt, char out[static NAMES_BYTES]);
/* Secret with the key that the job's pods share with the operator: "<job>-key". */
void names_key(const char *job, char out[static NAMES_BYTES]);
/* NetworkPolicy of a job's pods: "<job>-workers". */
void names_policy(const char *job, char out[static NAMES_BYTES]);

#endif
