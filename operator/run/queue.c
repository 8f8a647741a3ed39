#include "run/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define NOT_IN_HEAP SIZE_MAX

struct queue_entry {
    int64_t due_ms;
    size_t place; /* in the heap, or NOT_IN_HEAP */
    bool in_progress;
    bool is_added_again; /* while in progress */
    char key[QUEUE_KEY_BYTES];
};

static void set_place(struct queue *q, size_t place, struct queue_entry *e)
{
    q->heap[place] = e;
    e->place = place;
}

static void move_up(struct queue *q, size_t place)
{
    struct queue_entry *e = q->heap[place];

    while (place > 0 && q->heap[(place - 1) / 2]->due_ms > e->due_ms) {
        set_place(q, place, q->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    set_place(q, place, e);
}

static void move_down(struct queue *q, size_t place)
{
    struct queue_entry *e = q->heap[place];

    for (;;) {
        size_t child = 2 * place + 1;

        if (child + 1 < q->n_heap && q->heap[child + 1]->due_ms < q->heap[child]->due_ms)
            child++;
        if (child >= q->n_heap || q->heap[child]->due_ms >= e->due_ms)
            break;
        set_place(q, place, q->heap[child]);
        place = child;
    }
    set_place(q, place, e);
}

enum err_code queue_add(struct queue *q, const char *key, int64_t due_ms, struct err *err)
{
    struct queue_entry *e = map_get(&q->keys, key);
    enum err_code rc;

    if (!e) {
        if (strlen(key) >= QUEUE_KEY_BYTES)
            return err_set(err, ERR_INVALID, "key %.40s... is too long", key);
        if (q->keys.n >= QUEUE_KEYS_MAX)
            return err_set(err, ERR_LIMIT, "more than %d keys", QUEUE_KEYS_MAX);
        /* Room is made when a key is added, so that queue_done() cannot fail. */
        rc = array_reserve(&q->heap, sizeof(struct queue_entry *), &q->heap_slots, q->keys.n + 1,
                           err);
        if (rc != ERR_OK)
            return rc;
        e = calloc(1, sizeof *e);
        if (!e)
            return err_set(err, ERR_NO_MEMORY, "no memory for key %.60s", key);
        rc = map_put(&q->keys, key, e, err);
        if (rc != ERR_OK) {
            free(e);
            return rc;
        }
        memcpy(e->key, key, strlen(key) + 1);
        e->place = NOT_IN_HEAP;
    } else if (e->in_progress) {
        e->due_ms = e->is_added_again && e->due_ms < due_ms ? e->due_ms : due_ms;
        e->is_added_again = true;
        return ERR_OK;
    } else if (due_ms >= e->due_ms) {
        return ERR_OK;
    }
    e->due_ms = due_ms;
    if (e->place == NOT_IN_HEAP)
        set_place(q, q->n_heap++, e);
    move_up(q, e->place);
    return ERR_OK;
}

bool queue_take(struct queue *q, int64_t now_ms, char out_key[static QUEUE_KEY_BYTES],
                int64_t *out_wait_ms)
{
    struct queue_entry *last;
    struct queue_entry *e;

    if (q->n_heap == 0 || q->heap[0]->due_ms > now_ms) {
        *out_wait_ms = q->n_heap == 0 ? -1 : q->heap[0]->due_ms - now_ms;
        return false;
    }
    e = q->heap[0];
    last = q->heap[--q->n_heap];
    if (q->n_heap > 0) {
        set_place(q, 0, last);
        move_down(q, 0);
    }
    e->place = NOT_IN_HEAP;
    e->in_progress = true;
    memcpy(out_key, e->key, QUEUE_KEY_BYTES);
    return true;
}

int64_t queue_late_ms(const struct queue *q, int64_t now_ms)
{
    return q->n_heap > 0 && q->heap[0]->due_ms < now_ms ? now_ms - q->heap[0]->due_ms : 0;
}

void queue_done(struct queue *q, const char *key)
{
    struct queue_entry *e = map_get(&q->keys, key);

    if (!e || !e->in_progress)
        return;
    e->in_progress = false;
    if (!e->is_added_again) {
        free(map_take(&q->keys, key));
        return;
    }
    e->is_added_again = false;
    set_place(q, q->n_heap++, e);
    move_up(q, e->place);
}

void queue_deinit(struct queue *q)
{
    size_t place = 0;
    void *e;

    while ((e = map_next(&q->keys, &place, NULL)) != NULL)
        free(e);
    map_deinit(&q->keys);
    free(q->heap);
    *q = (struct queue){0};
}
