#include "train/mailbox.h"

#include <errno.h>
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
    (void)pthread_cond_destroy(&b->changed);
    (void)pthread_mutex_destroy(&b->lock);
}

void mailbox_set_progress(struct mailbox *b, const struct progress *p)
{
    pthread_mutex_lock(&b->lock);
    b->progress = *p;
    b->progress.has_peers = b->peers.n_stages > 0;
    pthread_mutex_unlock(&b->lock);
}

void mailbox_get_progress(struct mailbox *b, struct progress *out)
{
    pthread_mutex_lock(&b->lock);
    *out = b->progress;
    pthread_mutex_unlock(&b->lock);
}

void mailbox_set_ready(struct mailbox *b, bool is_ready)
{
    pthread_mutex_lock(&b->lock);
    b->is_ready = is_ready;
    pthread_mutex_unlock(&b->lock);
}

bool mailbox_is_ready(struct mailbox *b)
{
    bool is_ready;

    pthread_mutex_lock(&b->lock);
    is_ready = b->is_ready;
    pthread_mutex_unlock(&b->lock);
    return is_ready;
}

static bool is_same(const struct peers *a, const struct peers *b)
{
    bool same = a->attempt == b->attempt && a->n_stages == b->n_stages;

    for (int i = 0; i < a->n_stages && same; i++)
        same = strcmp(a->stages[i].host, b->stages[i].host) == 0 &&
               strcmp(a->stages[i].node, b->stages[i].node) == 0 &&
               a->stages[i].port == b->stages[i].port;
    return same;
}

enum err_code mailbox_post_peers(struct mailbox *b, const struct peers *peers, int n_stages,
                                 struct err *err)
{
    enum err_code rc = ERR_OK;

    pthread_mutex_lock(&b->lock);
    if (peers->attempt != b->progress.attempt || (n_stages > 0 && peers->n_stages != n_stages)) {
        rc = err_set(err, ERR_CONFLICT,
                     "peer table of attempt %d with %d stages, but this is attempt %d with %d",
                     peers->attempt, peers->n_stages, b->progress.attempt, n_stages);
    } else if (b->peers.n_stages == 0) {
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
    while (b->peers.n_stages == 0 && failed != ETIMEDOUT)
        failed = pthread_cond_timedwait(&b->changed, &b->lock, &until);
    if (b->peers.n_stages == 0)
        rc = err_set(err, ERR_TIMEOUT, "no peer table after %d s", timeout_ms / 1000);
    else
        *out = b->peers;
    pthread_mutex_unlock(&b->lock);
    return rc;
}
