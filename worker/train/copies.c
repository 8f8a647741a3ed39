#include "train/copies.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"

#define WAIT_MS 100 /* of one call; repeated until the copies are stopped */

/* A link over which a piece takes longer is slow: there, pieces are sent for a fifth of the time.
 */
#define SLOW_MS     100
#define PAUSE_SHARE 4

static enum err_code check_stop(const struct copies *c, struct err *err)
{
    return atomic_load(&c->stops) ? err_set(err, ERR_GONE, "the session has ended") : ERR_OK;
}

/* --- messages --- */

static enum err_code send(struct copies *c, int edge, const struct link_message *msg,
                          struct err *err)
{
    enum err_code rc;

    do {
        rc = check_stop(c, err);
        if (rc == ERR_OK)
            rc = link_send(c->link, edge, msg, WAIT_MS, err);
    } while (rc == ERR_TIMEOUT);
    return rc;
}

/* Take a message of this kind, whose meta data have this size. */
static enum err_code recv(struct copies *c, int edge, enum message_kind kind, size_t meta_bytes,
                          struct link_message *out, struct err *err)
{
    enum err_code rc;

    do {
        rc = check_stop(c, err);
        if (rc == ERR_OK)
            rc = link_recv(c->link, edge, WAIT_MS, out, err);
    } while (rc == ERR_TIMEOUT);
    if (rc != ERR_OK)
        return rc;
    if (out->type == kind && out->meta_bytes == meta_bytes)
        return ERR_OK;
    link_release(c->link, edge, out);
    return err_set(err, ERR_PROTOCOL, "received %s with %u bytes of meta data instead of %s",
                   message_kind_name(out->type), out->meta_bytes, message_kind_name(kind));
}

static void pause_after(const struct copies *c, int64_t sending_ms)
{
    int64_t end_ms = clock_now_ms() + PAUSE_SHARE * sending_ms;

    while (sending_ms >= SLOW_MS && clock_now_ms() < end_ms && !atomic_load(&c->stops) &&
           !atomic_load(&c->hurries))
        (void)usleep(SLOW_MS * 1000);
}

static enum err_code send_piece(struct copies *c, const struct message_copy *head,
                                const void *bytes, size_t n, struct err *err)
{
    const struct link_message msg = {.type = MESSAGE_COPY,
                                     .step = (uint64_t)head->step,
                                     .meta = head,
                                     .meta_bytes = sizeof *head,
                                     .tensor = bytes,
                                     .tensor_bytes = n};

    return send(c, c->edges->keeper.copies, &msg, err);
}

/* --- what this stage sends --- */

static enum err_code send_file(struct copies *c, const struct store_shard *shard,
                               struct message_copy *head, unsigned char *piece, struct err *err)
{
    char path[PATH_MAX];
    ssize_t n = 0;
    int fd;
    enum err_code rc = store_file_path(c->store, shard, (enum store_file)head->file, path, err);

    if (rc != ERR_OK)
        return rc;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return file_error(err, "open", path);
    while (rc == ERR_OK && (n = read(fd, piece, EDGES_COPY_PIECE_BYTES)) > 0) {
        int64_t start_ms = clock_now_ms();

        rc = send_piece(c, head, piece, (size_t)n, err);
        pause_after(c, clock_now_ms() - start_ms);
    }
    if (rc == ERR_OK && n < 0)
        rc = file_error(err, "read", path);
    (void)close(fd);
    return rc;
}

static enum err_code wait_for_answer(struct copies *c, int64_t step, struct err *err)
{
    struct link_message msg;
    struct message_copied answer;
    enum err_code rc = recv(c, c->edges->keeper.answers, MESSAGE_COPIED, sizeof answer, &msg, err);

    if (rc != ERR_OK)
        return rc;
    memcpy(&answer, msg.meta, sizeof answer);
    link_release(c->link, c->edges->keeper.answers, &msg);
    rc = message_copied_check(&answer, err);
    if (rc == ERR_OK && answer.step != step)
        rc = err_set(err, ERR_PROTOCOL, "the answer to a copy is of step %lld, not %lld",
                     (long long)answer.step, (long long)step);
    if (rc == ERR_OK && !answer.is_complete)
        rc = err_set(err, ERR_IO, "the copy cannot be written: %s", answer.why);
    return rc;
}

enum err_code copies_send(struct copies *c, const struct store_shard *shard, struct err *err)
{
    struct message_copy head = {.lineage = shard->lineage,
                                .step = shard->step,
                                .stage = shard->stage,
                                .n_stages = shard->n_stages};
    unsigned char *piece;
    struct err why = {.text = ""};
    enum err_code rc_end, rc = ERR_OK;

    if (!c->is_open || !c->edges->has_keeper)
        return ERR_OK;
    piece = malloc(EDGES_COPY_PIECE_BYTES);
    if (!piece)
        return err_set(err, ERR_NO_MEMORY, "no memory to copy a checkpoint");
    (void)pthread_mutex_lock(&c->sending);
    for (; rc == ERR_OK && head.file < N_STORE_FILES; head.file++)
        if (shard->stage == 0 || head.file == STORE_SHARD || head.file == STORE_MANIFEST)
            rc = send_file(c, shard, &head, piece, err);
    /* Also behind a file that cannot be read: the keeper gives up what it has, and is ready for the
     * next copy. */
    head.file = N_STORE_FILES;
    rc_end = send_piece(c, &head, NULL, 0, &why);
    if (rc_end == ERR_OK)
        rc_end = wait_for_answer(c, shard->step, &why);
    if (rc == ERR_OK && rc_end != ERR_OK)
        rc = err_set(err, rc_end, "%s", why.text);
    (void)pthread_mutex_unlock(&c->sending);
    free(piece);
    return rc;
}

/* --- what it keeps for others --- */

/* Once one piece cannot be written, the others of the shard are passed over. */
static void take_piece(struct copies_kept *k, const struct message_copy *head,
                       const struct link_message *msg, bool is_first)
{
    const struct store_shard shard = {.lineage = head->lineage,
                                      .step = head->step,
                                      .stage = head->stage,
                                      .n_stages = head->n_stages};
    enum err_code rc = k->failure.code;

    if (is_first)
        rc = store_receive_begin(k->owner->store, &shard, &k->receiver, &k->failure);
    if (rc == ERR_OK && k->receiver)
        rc = store_receive(k->receiver, (enum store_file)head->file, msg->tensor,
                           (size_t)msg->tensor_bytes, &k->failure);
    if (rc == ERR_OK)
        return;
    store_receive_abandon(k->receiver);
    k->receiver = NULL;
}

static enum err_code end_copy(struct copies_kept *k, int64_t step, struct err *err)
{
    struct message_copied answer = {.step = step};
    const struct link_message msg = {.type = MESSAGE_COPIED,
                                     .step = (uint64_t)step,
                                     .meta = &answer,
                                     .meta_bytes = sizeof answer};

    if (k->receiver)
        (void)!store_receive_finish(k->receiver, &k->failure);
    k->receiver = NULL;
    answer.is_complete = k->failure.code == ERR_OK;
    (void)snprintf(answer.why, sizeof answer.why, "%.200s", k->failure.text);
    return send(k->owner, k->edges.answers, &msg, err);
}

/* Receive shards until the stage has no more. */
static enum err_code receive(struct copies_kept *k, struct err *err)
{
    struct copies *c = k->owner;
    bool is_first = true; /* piece of a shard */
    bool is_over = false;
    enum err_code rc = ERR_OK;

    while (rc == ERR_OK && !is_over) {
        struct message_copy head;
        struct link_message msg;

        rc = recv(c, k->edges.copies, MESSAGE_COPY, sizeof head, &msg, err);
        if (rc != ERR_OK)
            break;
        memcpy(&head, msg.meta, sizeof head);
        if (is_first)
            k->failure = (struct err){.text = ""};
        is_over = head.is_last == 1;
        if (!is_over && head.file < N_STORE_FILES)
            take_piece(k, &head, &msg, is_first);
        link_release(c->link, k->edges.copies, &msg);
        if (!is_over && head.file >= N_STORE_FILES)
            rc = end_copy(k, head.step, err);
        is_first = head.file >= N_STORE_FILES;
    }
    return rc;
}

static void *run(void *arg)
{
    struct copies_kept *k = arg;
    struct copies *c = k->owner;
    struct err err = {.text = ""};
    enum err_code rc = receive(k, &err);

    /* A neighbour that is lost ends the session, which reports it. */
    if (rc != ERR_OK && !atomic_load(&c->stops))
        LOG(LOG_WARN, "no more copies of checkpoints are received", LOG_S("error", err.text));
    store_receive_abandon(k->receiver);
    k->receiver = NULL;
    (void)pthread_mutex_lock(&c->lock);
    c->n_running--;
    (void)pthread_cond_broadcast(&c->ended);
    (void)pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* --- all of it --- */

enum err_code copies_open(struct copies *c, const struct store *store, const struct exchange *x,
                          struct err *err)
{
    enum err_code rc = ERR_OK;

    *c = (struct copies){.store = store, .link = x->link, .edges = &x->edges, .is_open = true};
    (void)pthread_mutex_init(&c->sending, NULL);
    (void)pthread_mutex_init(&c->lock, NULL);
    thread_cond_init(&c->ended);
    c->n_running = c->edges->n_kept;
    while (rc == ERR_OK && c->n_threads < c->edges->n_kept) {
        struct copies_kept *k = &c->kept[c->n_threads];

        *k = (struct copies_kept){.owner = c, .edges = c->edges->kept[c->n_threads]};
        rc = thread_start(&k->thread, run, k, err);
        c->n_threads += rc == ERR_OK;
    }
    return rc;
}

void copies_hurry(struct copies *c)
{
    atomic_store(&c->hurries, true);
}

enum err_code copies_finish(struct copies *c, const struct exchange *x, struct err *err)
{
    const struct message_copy last = {.is_last = 1};
    enum err_code rc = ERR_OK;
    bool is_over = !c->is_open;

    if (c->is_open && c->edges->has_keeper)
        (void)!send_piece(c, &last, NULL, 0, NULL); /* a lost keeper does not wait for it */
    while (rc == ERR_OK && !is_over) {
        const struct timespec deadline = thread_deadline(WAIT_MS);

        (void)pthread_mutex_lock(&c->lock);
        if (c->n_running > 0)
            (void)pthread_cond_timedwait(&c->ended, &c->lock, &deadline);
        is_over = c->n_running == 0;
        (void)pthread_mutex_unlock(&c->lock);
        rc = exchange_check(x, err);
    }
    return rc;
}

void copies_stop(struct copies *c)
{
    if (!c->is_open)
        return;
    atomic_store(&c->stops, true);
    for (int i = 0; i < c->n_threads; i++)
        (void)pthread_join(c->kept[i].thread, NULL);
    c->n_threads = 0;
    (void)pthread_mutex_lock(&c->sending); /* until a send has noticed */
    (void)pthread_mutex_unlock(&c->sending);
}
