/* support/agent_pod.h - one pod of the test's node agent: its files, its process, its status.
 *
 * The process is the real worker; only what a container runtime would do is done here instead:
 * ConfigMaps and claims become folders, paths and addresses of the command line are translated,
 * and the pod gets a loopback address of its own so that every worker can use the same ports.
 */
#ifndef SUPPORT_AGENT_POD_H
#define SUPPORT_AGENT_POD_H

#include <stdint.h>
#include <sys/types.h>

#include "kube/client.h"

#define POD_PATH_BYTES 512

enum agent_phase {
    AGENT_NEW,     /* not bound to a node, or not started yet */
    AGENT_RUNNING, /* has a process */
    AGENT_ENDED,   /* its last status is written */
};

struct agent_settings {
    const char *worker; /* the worker's program */
    const char *folder; /* everything that is written goes below it */
    const char *sample; /* stands for the data inside the image */
};

struct agent_pod {
    struct agent_pod *next;
    char namespace[64];
    char name[254];
    char uid[40];
    char node[254];
    char wanted_node[254]; /* by its affinity */
    bool is_for_any;       /* has none, and may run on any */
    int64_t cpu_milli;
    char *object;     /* JSON text of the newest version */
    bool is_gated;    /* may not be bound yet */
    bool is_deleting; /* has a deletionTimestamp */
    bool is_gone;     /* the object does not exist any more */
    bool is_blocked;  /* its status says already that it cannot be scheduled or started */
    bool is_ready;
    bool is_killed_for_memory;
    bool is_late; /* killed for its deadline */
    enum agent_phase phase;
    pid_t pid;
    char ip[16];
    int64_t start_ms;
    int64_t deadline_ms; /* activeDeadlineSeconds; 0: none */
    int64_t grace_ms;    /* between SIGTERM and SIGKILL, if it is deleting */
    int64_t stop_ms;     /* when SIGKILL is due, after SIGTERM; 0: neither */
    int64_t next_ms;     /* nothing to do before */
};

/* Fill in files, start the process and say that the pod runs. ERR_AGAIN when something that it
 * mounts is not there yet, or its image "cannot be pulled" (its name has "missing" in it). */
MUST_CHECK enum err_code agent_pod_start(struct agent_pod *p, struct kube_client *client,
                                         const struct agent_settings *settings, struct err *err);

/* Has the process ended? Then the status is written. */
MUST_CHECK enum err_code agent_pod_check(struct agent_pod *p, struct kube_client *client,
                                         const struct agent_settings *settings, struct err *err);

/* Ask the worker whether it is ready and say so once it is. */
MUST_CHECK enum err_code agent_pod_check_ready(struct agent_pod *p, struct kube_client *client,
                                               struct err *err);

/* Say why it does not run, once. */
MUST_CHECK enum err_code agent_pod_block(struct agent_pod *p, struct kube_client *client,
                                         const char *status, struct err *err);

/* Remove its volumes, but for claims: its object is gone. */
void agent_pod_remove_volumes(const struct agent_pod *p, const struct agent_settings *settings);

void agent_pod_free(struct agent_pod *p);

#endif
