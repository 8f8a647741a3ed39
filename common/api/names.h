/* api/names.h - names that several programs must spell alike: group, labels, ports, children.
 *
 * Names of children follow from the job and its uid, so that a repeated create meets the object
 * that the first one made. Of the uid they have the first five digits: a job that is created again
 * under its old name does not meet the pods that are left of the first one. A job's name has at
 * most NAMES_JOB_MAX bytes so that every child's fits. Layer: api (may use base). Threads: any.
 */
#ifndef API_NAMES_H
#define API_NAMES_H

#include <stdbool.h>

#define NAMES_GROUP   "skyjob.dev"
#define NAMES_VERSION "v1alpha1"
#define NAMES_SKYJOBS NAMES_GROUP, NAMES_VERSION, "skyjobs" /* as a kube_resource has it */
#define NAMES_JOB_MAX 40
#define NAMES_BYTES   64 /* of a pod's or label's name, with the NUL */

/* In certificates; nothing resolves it. */
#define NAMES_DOMAIN               "skyjob.internal"
#define NAMES_OPERATOR_METRICS_DNS "metrics." NAMES_DOMAIN /* see run/metrics_port.h */
#define NAMES_DNS_BYTES            96
#define NAMES_UID_BYTES            41

#define LABEL_JOB         "skyjob.dev/job"
#define LABEL_JOB_UID     "skyjob.dev/job-uid"
#define LABEL_ROLE        "skyjob.dev/role" /* of a pod: "worker", "probe" or "model" */
#define LABEL_SLOT        "skyjob.dev/slot" /* of a worker's pod, like the next */
#define LABEL_INCARNATION "skyjob.dev/incarnation"
#define LABEL_REVISION    "skyjob.dev/revision" /* of a ConfigMap with a revision: its number */

/* On nodes, declared by an administrator; see struct annotations. Numbers without a unit. */
#define LABEL_GFLOPS          "skyjob.dev/gflops"    /* BERT training with all allocatable CPU */
#define LABEL_UNIT_MS         "skyjob.dev/unit-ms"   /* fixed cost of a unit */
#define LABEL_LINK_MBIT       "skyjob.dev/link-mbit" /* its network, 10^6 bits a second */
#define LABEL_LINK_LATENCY_MS "skyjob.dev/link-latency-ms" /* one way */
/* Measured by us, for people and selectors; and all that was found, for the planner. */
#define LABEL_MEASURED_GFLOPS "skyjob.dev/measured-gflops"
#define ANNOTATION_PROBE      "skyjob.dev/probe"
/* Since when training does not bear that out; removed with the next measurement. */
#define ANNOTATION_CONTRADICTED "skyjob.dev/probe-contradicted"

/* On a SkyJob: the time at which a checkpoint was asked for, as `kubectl skyjob checkpoint` sets
 * it. */
#define ANNOTATION_CHECKPOINT "skyjob.dev/checkpoint"
/* On a SkyJob, by `kubectl skyjob replan`: any value but the last one asks for a decision about its
 * cut; one of STATUS_ASKED_BYTES or more is ignored. */
#define ANNOTATION_REPLAN "skyjob.dev/replan"

/* On nodes, put there by Kubernetes: workers tolerate their NoExecute for a while. */
#define TAINT_NOT_READY   "node.kubernetes.io/not-ready"
#define TAINT_UNREACHABLE "node.kubernetes.io/unreachable"

/* Of Kueue, on pods: those of a job that names a queue in spec.worker.labels are one of its plain
 * pod groups. https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/ */
#define KUEUE_QUEUE     "kueue.x-k8s.io/queue-name"
#define KUEUE_GROUP     "kueue.x-k8s.io/pod-group-name"        /* a label */
#define KUEUE_SIZE      "kueue.x-k8s.io/pod-group-total-count" /* an annotation, like the next */
#define KUEUE_ROLE      "kueue.x-k8s.io/role-hash"
#define KUEUE_RETRY     "kueue.x-k8s.io/retriable-in-group" /* "false": it ends with its last pod */
#define KUEUE_WORKLOADS "kueue.x-k8s.io", "v1beta2", "workloads"

#define PORT_CONTROL 7070 /* HTTP, see worker/train/control.h */
#define PORT_TENSOR  7071 /* websocket, subprotocol skyjob.v1 */
#define PORT_HEALTH  7072 /* HTTP: /healthz, /readyz */
#define PORT_METRICS 7073 /* HTTPS: /metrics */

#define SAMPLE_DIR "/usr/share/skyjob/mnli" /* in the worker image */

/* A worker's pod: "<job>-<uid>-w<slot>-<incarnation>". */
void names_worker_pod(const char *job, const char *uid, int slot, int incarnation,
                      char out[static NAMES_BYTES]);
/* Pod that measures a node: "<job>-<uid>-probe-<hash of the node's name>". */
void names_probe_pod(const char *job, const char *uid, const char *node,
                     char out[static NAMES_BYTES]);
/* Pod that reads the sizes of the model to start from: "<job>-<uid>-model". */
void names_model_pod(const char *job, const char *uid, char out[static NAMES_BYTES]);
/* Group of the pods that a revision has started with: "<job>-<uid>-g<number>". */
void names_group(const char *job, const char *uid, int number, char out[static NAMES_BYTES]);
/* ConfigMap with a revision: "<job>-<uid>-r<number>". */
void names_revision(const char *job, const char *uid, int number, char out[static NAMES_BYTES]);
/* What a worker's certificate names: "w<slot>-<incarnation>.<uid>.skyjob.internal". All probes of a
 * job have the slot and incarnation of NAMES_PROBE_DNS, which no worker has. */
#define NAMES_PROBE_DNS 0, 0
void names_worker_dns(const char *uid, int slot, int incarnation, char out[static NAMES_DNS_BYTES]);
/* What the operator's certificate for the job names: "operator.<uid>.skyjob.internal". */
void names_operator_dns(const char *uid, char out[static NAMES_DNS_BYTES]);
/* What the certificate of the workers' metrics ports names, the same for all of them, since
 * Prometheus looks for one name; and that of who reads the metrics. Neither opens any other port.
 */
#define NAMES_METRICS_DNS "worker-metrics." NAMES_DOMAIN
#define NAMES_READER_DNS  "metrics-reader." NAMES_DOMAIN
/* The uid in a name; false when it has none. */
bool names_dns_uid(const char *dns, char out[static NAMES_UID_BYTES]);
/* Folder of the job's checkpoints, in a volume that jobs may share: "<job>-<uid>". */
void names_checkpoints(const char *job, const char *uid, char out[static NAMES_BYTES]);
/* Other children, of which a job has one: "<job>-<what>". */
#define NAMES_PROBE_SPEC "probe" /* ConfigMap with the spec that probes read */
#define NAMES_KEY        "key"   /* Secret with the key that the pods share with the operator */
#define NAMES_TLS        "certificates" /* Secret with those of the pods */
#define NAMES_POLICY     "workers"      /* NetworkPolicy of the pods */
void names_child(const char *job, const char *what, char out[static NAMES_BYTES]);

#endif
