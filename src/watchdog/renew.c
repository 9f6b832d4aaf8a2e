/*
 * renew.c: the renewals of one loop. A request renews many locks, the most endangered first. The store says how many
 * requests may be in flight to one server. Servers do not wait for one another.
 *
 * A server may refuse a request because of one of its locks, such as one with a key that the user may not touch. Then
 * all locks of the request are renewed again at once: eight to a request, then one by one. Up to eight more requests
 * may be in flight meanwhile. The failure of a lock that is refused alone is reported, and a log line names it. It shares no
 * request until it was renewed once.
 *
 * Queues and batches belong to the loop's thread, or to the caller that does the loop's work while it sleeps
 * (redis/pipe/pipe.h).
 */
#include "watchdog.h"

#include <stdlib.h>

#include "engine/engine.h"
#include "sys/sys.h"

enum { FEW = 8 }; /* locks per request after a refusal */

/* ---- a binary heap of renewals by limit */

static void swap(struct dli_due *a, struct dli_due *b)
{
    struct dli_due c = *a;

    *a = *b;
    *b = c;
}

static void sift_up(struct dli_due *heap, size_t i)
{
    for (; i > 0 && heap[i].limit < heap[(i - 1) / 2].limit; i = (i - 1) / 2)
        swap(&heap[i], &heap[(i - 1) / 2]);
}

static void sift_down(struct dli_due *heap, size_t count)
{
    size_t i = 0, child;

    while ((child = 2 * i + 1) < count) {
        if (child + 1 < count && heap[child + 1].limit < heap[child].limit)
            child++;
        if (heap[i].limit <= heap[child].limit)
            return;
        swap(&heap[i], &heap[child]);
        i = child;
    }
}

static int push(struct dli_queue *queue, const struct dli_due *due)
{
    if (queue->count == queue->room) {
        size_t room = queue->room ? 2 * queue->room : 64;
        struct dli_due *heap = realloc(queue->heap, room * sizeof *heap);

        if (!heap)
            return -1;
        queue->heap = heap;
        queue->room = room;
    }
    queue->parts += due->most < DLI_RENEW_MAX;
    queue->heap[queue->count] = *due;
    sift_up(queue->heap, queue->count++);
    return 0;
}

static struct dli_due pop(struct dli_queue *queue)
{
    struct dli_due due = queue->heap[0];

    queue->heap[0] = queue->heap[--queue->count];
    sift_down(queue->heap, queue->count);
    queue->parts -= due.most < DLI_RENEW_MAX;
    return due;
}

/* ---- batches */

/* Add an idle batch. 0, or -1 without memory. */
int dli_renew_open(struct dli_loop *loop)
{
    struct dli_store *store = loop->watchdog->store;
    struct dli_renewal_batch *batch = calloc(1, sizeof *batch);

    if (!batch)
        return -1;
    if (!(batch->request = store->ops->request_new(store))) {
        free(batch);
        return -1;
    }
    batch->loop = loop;
    batch->next = loop->idle;
    loop->idle = batch;
    return 0;
}

void dli_renew_close(struct dli_loop *loop)
{
    struct dli_renewal_batch *batch;

    while ((batch = loop->idle)) {
        loop->idle = batch->next;
        loop->watchdog->store->ops->request_free(batch->request);
        free(batch);
    }
    for (int i = 0; i < loop->queues; i++)
        free(loop->queue[i].heap);
}

static struct dli_queue *queue_of(struct dli_loop *loop, const struct dli_place *place)
{
    const struct dli_store *store = loop->watchdog->store;

    int number = store->ops->server ? (int)(store->ops->server(store, place) % DLI_QUEUES) : 0;

    if (number >= loop->queues)
        loop->queues = number + 1;
    return &loop->queue[number];
}

/*
 * Renewals come due one by one. A queue waits a sixtieth of a renewal's lease for others, unless the renewal is marked
 * soon. A renewal that is refused every time is not soon: it hurries nobody.
 */
static void gather(struct dli_queue *queue, const struct dli_due *due)
{
    int64_t leave = dli_now() + (due->soon ? 0 : due->lasts / 60);

    if (queue->count == 1 || leave < queue->leave_at)
        queue->leave_at = leave;
}

static int64_t alarm_of(const struct dli_loop *loop, const struct dli_queue *queue)
{
    int most = loop->watchdog->store->renewals;

    most = (most > 1 ? most : 1) + (queue->parts > 0 ? FEW : 0);
    if (queue->count == 0 || queue->flying >= most)
        return INT64_MAX;
    return queue->count < DLI_RENEW_MAX ? queue->leave_at : 0;
}

int64_t dli_renew_alarm(const struct dli_loop *loop)
{
    int64_t at = INT64_MAX;

    for (int i = 0; i < loop->queues; i++) {
        int64_t other = alarm_of(loop, &loop->queue[i]);

        at = other < at ? other : at;
    }
    return at;
}

int dli_renew_queue(struct dli_loop *loop, const struct dli_due *due)
{
    struct dli_queue *queue = queue_of(loop, due->place);
    struct dli_due own = *due;

    if (loop->apart)
        own.most = 1;
    if (push(queue, &own))
        return -1;
    gather(queue, due);
    return 0;
}

static void count(struct dli_loop *loop, int stat, int64_t by)
{
    __atomic_add_fetch(&loop->watchdog->stats[stat], by, __ATOMIC_RELAXED);
}

/* Pass on one lock's part of an answer. */
static void report(const struct dli_renewal_batch *batch, const struct dli_due *due, int kept, int64_t now)
{
    batch->loop->watchdog->hooks->renewed(due, kept, batch->stamp, now);
}

/* The locks of the batch cannot be renewed together. Queue them again, with at most so many in one request. */
static void split(struct dli_renewal_batch *batch, int most, int64_t now)
{
    for (int i = 0; i < batch->count; i++) {
        batch->due[i].most = most;
        if (push(batch->queue, &batch->due[i]))
            report(batch, &batch->due[i], -1, now);
    }
    batch->queue->leave_at = now;
}

/* A lock was alone in its request. The result decides whether it shares requests from now on. */
static void note_alone(const struct dli_renewal_batch *batch, const struct dli_request *request)
{
    int refused = dli_request_blamed(request);

    if (refused || request->status == DLOCK_OK)
        batch->loop->watchdog->hooks->alone(&batch->due[0], refused, request->status, &batch->reason);
}

/* The stamp from which a renewed row counts. */
static int64_t stamp_of(const struct dli_renewal_batch *batch, int i)
{
    int64_t since = batch->rows[i].since;

    return since && since < batch->stamp ? since : batch->stamp;
}

static void report_all(struct dli_renewal_batch *batch, const struct dli_request *request, int64_t now)
{
    int known = request->status == DLOCK_OK || (request->status == DLOCK_NOT_REPLICATED && !request->refused);
    int64_t renewed = 0;

    for (int i = 0; i < batch->count; i++) {
        int kept = known ? batch->rows[i].kept : request->torn ? -2 : -1;

        renewed += kept == 1;
        batch->loop->watchdog->hooks->renewed(&batch->due[i], kept, stamp_of(batch, i), now);
    }
    count(batch->loop, DLOCK_STAT_RENEWED, renewed);
}

/*
 * DLOCK_WRONG_SETUP where a request may have locks of all slots: the server wants the keys of one slot. It always
 * will, so all later requests have one lock each.
 */
static void split_blamed(struct dli_renewal_batch *batch, const struct dli_request *request, int64_t now)
{
    if (request->status == DLOCK_WRONG_SETUP && batch->loop->watchdog->store->renewals <= 1)
        batch->loop->apart = 1;
    split(batch, batch->count > FEW && !batch->loop->apart ? FEW : 1, now);
}

static void batch_done(struct dli_request *request)
{
    struct dli_renewal_batch *batch = request->context;
    int64_t now = dli_now();

    if (batch->count == 1)
        note_alone(batch, request);
    if (batch->count > 1 && request->torn)
        split(batch, 1, now);
    else if (batch->count > 1 && dli_request_blamed(request))
        split_blamed(batch, request, now);
    else
        report_all(batch, request, now);
    batch->queue->flying--;
    batch->next = batch->loop->idle;
    batch->loop->idle = batch;
    if (batch->queue->count > 0) /* a caller may have read the answer while the loop sleeps */
        dli_wake_set(batch->loop->wake_fd);
}

/* Whether the most endangered renewal fits into the request that is being filled. */
static int fits(const struct dli_queue *queue, const struct dli_renewal_batch *batch)
{
    const struct dli_store *store = batch->loop->watchdog->store;
    const struct dli_due *due, *first;

    if (queue->count == 0 || batch->count == (batch->count > 0 ? batch->due[0].most : DLI_RENEW_MAX))
        return 0;
    due = &queue->heap[0];
    first = &batch->due[0];
    return batch->count == 0 || (due->kind->renewal == first->kind->renewal &&
                                 store->ops->shard(store, due->place) == store->ops->shard(store, first->place));
}

/*
 * Fill the request. Renewals whose most differs from the first one's are set aside in the last places of the batch,
 * and are queued again at the end. The queue has room for them.
 */
static void fill(struct dli_queue *queue, struct dli_renewal_batch *batch, int64_t now)
{
    const struct dli_watchdog_hooks *hooks = batch->loop->watchdog->hooks;
    int aside = DLI_RENEW_MAX;

    batch->count = 0;
    while (batch->count < aside && fits(queue, batch)) {
        struct dli_due due = pop(queue);

        if (batch->count > 0 && due.most != batch->due[0].most)
            batch->due[--aside] = due;
        else if (hooks->row(&due, now, &batch->rows[batch->count]))
            batch->due[batch->count++] = due;
    }
    while (aside < DLI_RENEW_MAX)
        push(queue, &batch->due[aside++]);
}

/*
 * A connection that loses packets may send them again later than an attempt lasts. So each retry gets twice the time,
 * up to four times and at most due->attempt.
 */
static int64_t deadline(const struct dli_due *due, int64_t now)
{
    int64_t most = due->attempt, attempt = dli_lease_attempt(due->lasts, most);

    attempt <<= due->tries < 2 ? due->tries : 2;
    return now + (attempt < most ? attempt : most);
}

static void send(struct dli_loop *loop, struct dli_renewal_batch *batch, int64_t now)
{
    struct dli_request *request = batch->request;

    batch->stamp = now;
    request->verb = DLI_VERB_RENEW;
    request->renew.row = batch->rows;
    request->renew.count = batch->count;
    request->deadline = deadline(&batch->due[0], now);
    request->repeatable = request->brisk = 1;
    request->done = batch_done;
    request->context = batch;
    request->reason = &batch->reason;
    batch->reason.code = DLOCK_OK;
    batch->queue->flying++;
    count(loop, DLOCK_STAT_RENEWAL_SCRIPTS, 1);
    request->status = loop->watchdog->store->ops->push_urgent(loop->lane, request);
    if (request->status != DLOCK_OK)
        batch_done(request);
}

/* 0: no memory for a batch, or nothing is left to send. */
static int send_next(struct dli_loop *loop, struct dli_queue *queue, int64_t now)
{
    struct dli_renewal_batch *batch;

    if (!loop->idle && dli_renew_open(loop)) {
        queue->leave_at = now + DLI_MS; /* batches in flight come back */
        return 0;
    }
    batch = loop->idle;
    fill(queue, batch, now);
    if (batch->count == 0)
        return 0;
    loop->idle = batch->next;
    batch->queue = queue;
    send(loop, batch, now);
    return 1;
}

void dli_renew_send(struct dli_loop *loop, int64_t now)
{
    for (int i = 0; i < loop->queues; i++)
        while (now >= alarm_of(loop, &loop->queue[i]) && send_next(loop, &loop->queue[i], now))
            continue;
}

void dli_renew_drop(struct dli_loop *loop)
{
    for (int i = 0; i < loop->queues; i++) {
        while (loop->queue[i].count > 0) {
            struct dli_due due = pop(&loop->queue[i]);

            loop->watchdog->hooks->drop(&due);
        }
    }
}
