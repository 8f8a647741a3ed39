#include "train/mailbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

void mailbox_init(struct mailbox *b)
{
    *b = (struct mailbox){.progress = {.eta_seconds = -1}};
    (void)pthread_mutex_init(&b->lock, NULL);
    thread_cond_init(&b->changed);
}

void mailbox_deinit(struct mailbox *b)
{
    free(b->revision);
    (void)pthread_cond_destroy(&b->changed);
    (void)pthread_mutex_destroy(&b->lock);
}

void mailbox_set_progress(struct mailbox *b, const struct progress *p)
{
    pthread_mutex_lock(&b->lock);
    b->progress = *p;
    b->progress.has_peers = b->peers.n > 0 || b->revision;
    pthread_mutex_unlock(&b->lock);
}

void mailbox_get_progress(struct mailbox *b, struct progress *out)
{
    pthread_mutex_lock(&b->lock);
    *out = b->progress;
    pthread_mutex_unlock(&b->lock);
}

/* --- revisions --- */

static int number_of(const struct mailbox *b)
{
    return b->revision ? b->revision->plan.revision : 0;
}

void mailbox_set_report(struct mailbox *b, const struct report *r)
{
    pthread_mutex_lock(&b->lock);
    b->report = *r;
    if (r->session == REPORT_DONE)
        b->halted = 0; /* an order to halt came too late and must not release it */
    pthread_mutex_unlock(&b->lock);
}

void mailbox_get_report(struct mailbox *b, struct report *out)
{
    pthread_mutex_lock(&b->lock);
    *out = b->report;
    out->revision = number_of(b);
    out->is_leaving = mailbox_is_leaving(b);
    out->has_saved = out->is_leaving && atomic_load(&b->has_saved);
    if (b->revision && !b->is_taken && !b->is_over)
        out->session = REPORT_RUNNING; /* soon: what is held may change */
    pthread_mutex_unlock(&b->lock);
}

bool mailbox_is_leaving(const struct mailbox *b)
{
    return b->is_leaving && atomic_load(b->is_leaving);
}

enum err_code mailbox_post_revision(struct mailbox *b, const struct revision *r,
                                    const struct peers *addresses, struct err *err)
{
    struct revision *copy = malloc(sizeof *copy);
    struct revision_worker self;
    enum err_code rc;

    if (!copy)
        return err_set(err, ERR_NO_MEMORY, "no memory for a revision");
    *copy = *r;
    pthread_mutex_lock(&b->lock);
    self = (struct revision_worker){b->report.slot, b->report.incarnation};
    rc = revision_compare(b->revision, r, &self, err);
    if (rc == ERR_OK) {
        free(b->revision);
        b->revision = copy;
        copy = NULL;
        b->addresses = *addresses;
        b->is_taken = false;
        atomic_store(&b->stops, true);
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    free(copy);
    return rc == ERR_AGAIN ? ERR_OK : rc;
}

enum err_code mailbox_halt(struct mailbox *b, int number, struct err *err)
{
    enum err_code rc = ERR_OK;

    pthread_mutex_lock(&b->lock);
    if (number < number_of(b)) {
        rc = err_set(err, ERR_CONFLICT, "revision %d is older than %d, which this worker has",
                     number, number_of(b));
    } else {
        b->halted = number;
        atomic_store(&b->stops, true);
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return rc;
}

void mailbox_order_checkpoint(struct mailbox *b, int64_t order)
{
    pthread_mutex_lock(&b->lock);
    if (order > b->ordered)
        b->ordered = order;
    pthread_mutex_unlock(&b->lock);
}

int64_t mailbox_ordered(struct mailbox *b)
{
    int64_t ordered;

    pthread_mutex_lock(&b->lock);
    ordered = b->ordered;
    pthread_mutex_unlock(&b->lock);
    return ordered;
}

bool mailbox_wait_revision(struct mailbox *b, struct revision *out, struct peers *out_addresses)
{
    bool is_released = false;

    pthread_mutex_lock(&b->lock);
    while ((!b->revision || b->is_taken || b->is_over) && !is_released) {
        is_released = b->report.session == REPORT_DONE && b->halted >= number_of(b);
        if (!is_released)
            pthread_cond_wait(&b->changed, &b->lock);
    }
    if (!is_released) {
        *out = *b->revision;
        *out_addresses = b->addresses;
        b->is_taken = true;
        b->report.session = REPORT_RUNNING;
        atomic_store(&b->stops, b->halted >= number_of(b));
    }
    pthread_mutex_unlock(&b->lock);
    return !is_released;
}

void mailbox_end_job(struct mailbox *b)
{
    pthread_mutex_lock(&b->lock);
    b->is_over = true;
    pthread_mutex_unlock(&b->lock);
}

/* --- peer tables --- */

static bool is_same(const struct peers *a, const struct peers *b)
{
    bool same = a->revision == b->revision && a->n == b->n;

    for (int i = 0; i < a->n && same; i++)
        same = strcmp(a->list[i].host, b->list[i].host) == 0 &&
               strcmp(a->list[i].node, b->list[i].node) == 0 && a->list[i].port == b->list[i].port;
    return same;
}

enum err_code mailbox_post_peers(struct mailbox *b, const struct peers *peers, struct err *err)
{
    enum err_code rc = ERR_OK;

    pthread_mutex_lock(&b->lock);
    if (peers->revision != 0) {
        rc = err_set(err, ERR_CONFLICT, "a peer table of revision %d, but this is a probe",
                     peers->revision);
    } else if (b->peers.n == 0) {
        b->peers = *peers;
        b->progress.has_peers = true;
        pthread_cond_broadcast(&b->changed);
    } else if (!is_same(&b->peers, peers)) {
        rc = err_set(err, ERR_CONFLICT, "a different peer table was accepted before");
    }
    pthread_mutex_unlock(&b->lock);
    return rc;
}

enum err_code mailbox_wait_peers(struct mailbox *b, int timeout_ms, struct peers *out,
                                 struct err *err)
{
    struct timespec until = thread_deadline(timeout_ms);
    enum err_code rc = ERR_OK;
    int failed = 0;

    pthread_mutex_lock(&b->lock);
    while (b->peers.n == 0 && failed != ETIMEDOUT)
        failed = pthread_cond_timedwait(&b->changed, &b->lock, &until);
    if (b->peers.n == 0)
        rc = err_set(err, ERR_TIMEOUT, "no peer table after %d s", timeout_ms / 1000);
    else
        *out = b->peers;
    pthread_mutex_unlock(&b->lock);
    return rc;
}
