/*
 * renew.c: renewals of one loop, many locks per script, one script in flight, the most endangered lock first.
 *
 * The heap and the batch belong to the loop's thread. A queued renewal holds a ref on its entry; its machine is marked
 * renewing, so that no second renewal of the same grant can be queued.
 */
#include "client.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

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

static int push(struct dli_loop *loop, const struct dli_due *due)
{
    if (loop->heap_count == loop->heap_room) {
        size_t room = loop->heap_room ? 2 * loop->heap_room : 64;
        struct dli_due *heap = realloc(loop->heap, room * sizeof *heap);

        if (!heap)
            return -1;
        loop->heap = heap;
        loop->heap_room = room;
    }
    loop->heap[loop->heap_count] = *due;
    sift_up(loop->heap, loop->heap_count++);
    return 0;
}

static struct dli_due pop(struct dli_loop *loop)
{
    struct dli_due due = loop->heap[0];

    loop->heap[0] = loop->heap[--loop->heap_count];
    sift_down(loop->heap, loop->heap_count);
    return due;
}

/* ---- batches */

/* Renewals come due one by one. They gather for a sixtieth of their lease, unless one was late from the start. */
static void gather(struct dli_loop *loop, const struct dli_mutex *m)
{
    int64_t leave = dli_now() + (m->confirm || m->renew_failures ? 0 : m->lease / 60);

    if (loop->heap_count == 1 || leave < loop->leave_at)
        loop->leave_at = leave;
}

int64_t dli_renew_alarm(const struct dli_loop *loop)
{
    if (loop->batch_flying || loop->heap_count == 0)
        return INT64_MAX;
    return loop->heap_count < DLI_RENEW_MAX / 2 ? loop->leave_at : 0;
}

void dli_renew_queue(struct dli_entry *entry)
{
    struct dli_mutex *m = &entry->m;
    struct dli_due due = {.entry = entry, .number = m->want, .lease = m->lease, .limit = m->limit};

    if (push(entry->loop, &due)) {
        dli_mutex_renewed(m, m->want, -1, m->lease, m->stamp, dli_now());
        return;
    }
    gather(entry->loop, m);
    dli_mutex_renewing(m);
    dli_entry_ref(entry);
}

/* One lock's part of an answer; its ref goes. */
static void tell(const struct dli_due *due, int kept, int64_t stamp, int64_t now)
{
    struct dli_entry *entry = due->entry;

    dli_entry_lock(entry);
    entry->surplus++;
    dli_mutex_renewed(&entry->m, due->number, kept, due->lease, stamp, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}

static int batch_done(struct dli_call *call, dlock_status status, int sent, const struct dli_reply *reply)
{
    struct dli_batch *batch = DLI_OBJECT(call, struct dli_batch, call);
    struct dli_client *client = batch->loop->client;
    int kept[DLI_RENEW_MAX], renewed = 0;
    int64_t now = dli_now();

    (void)sent;
    if (status == DLOCK_OK)
        status = dli_decode_renew(reply, kept, batch->count, NULL);
    for (int i = 0; i < batch->count; i++) {
        renewed += status == DLOCK_OK && kept[i];
        tell(&batch->due[i], status == DLOCK_OK ? kept[i] : -1, batch->stamp, now);
    }
    dli_client_count(client, DLOCK_STAT_RENEWED, renewed);
    batch->loop->batch_flying = 0;
    return status == DLOCK_PROTOCOL_ERROR && reply ? -1 : 0;
}

static int encode(struct dli_call *call, int full)
{
    struct dli_batch *batch = DLI_OBJECT(call, struct dli_batch, call);

    return dli_encode_renew(&call->command, full, batch->due[0].entry->kind, batch->rows, batch->count);
}

/* Whether the machine still wants what was queued: not when it was released or extended meanwhile. Late ones are counted. */
static int still_wanted(const struct dli_due *due, int64_t now)
{
    struct dli_entry *entry = due->entry;
    int wanted, late;

    dli_entry_lock(entry);
    wanted = entry->m.renewing && entry->m.want == due->number;
    if (wanted && now < entry->m.renew_at) {
        wanted = entry->m.renewing = 0;
        dli_entry_pump(entry, now);
    }
    late = wanted && now > entry->m.stamp + entry->m.lease / 2 && !entry->m.renew_failures && !entry->m.confirm;
    if (!wanted)
        entry->surplus++;
    dli_entry_unlock(entry);
    if (late)
        dli_client_count(entry->client, DLOCK_STAT_RENEWALS_LATE, 1);
    return wanted;
}

/* Whether the most endangered renewal goes into the script that is being filled. */
static int fits(const struct dli_loop *loop)
{
    const struct dli_batch *batch = loop->batch;

    if (loop->heap_count == 0 || batch->count == DLI_RENEW_MAX)
        return 0;
    return batch->count == 0 || loop->heap[0].entry->kind->renew == batch->due[0].entry->kind->renew;
}

static void fill(struct dli_loop *loop, int64_t now)
{
    struct dli_batch *batch = loop->batch;

    batch->count = 0;
    while (fits(loop)) {
        struct dli_due due = pop(loop);
        struct dli_renewal *row = &batch->rows[batch->count];

        if (!still_wanted(&due, now))
            continue;
        batch->due[batch->count++] = due;
        row->names = &due.entry->names;
        row->lease = due.lease + due.entry->rules.delay;
        row->permits = due.entry->rules.permits;
        dli_entry_owner(due.entry, due.number, row->owner);
    }
}

void dli_renew_send(struct dli_loop *loop, int64_t now)
{
    struct dli_batch *batch = loop->batch;
    struct dli_call *call = &batch->call;

    if (now < dli_renew_alarm(loop))
        return;
    fill(loop, now);
    if (batch->count == 0)
        return;
    batch->loop = loop;
    batch->stamp = now;
    call->deadline = now + dli_lease_attempt(batch->due[0].lease, batch->due[0].entry->rules.attempt);
    call->encode = encode;
    call->complete = batch_done;
    call->repeatable = 1;
    call->fallback = call->repeated = 0;
    call->sleeps = 0;
    call->command.size = 0;
    loop->batch_flying = 1;
    dli_client_count(loop->client, DLOCK_STAT_RENEWAL_SCRIPTS, 1);
    dli_client_count(loop->client, DLOCK_STAT_COMMANDS, 1);
    if (encode(call, 0))
        batch_done(call, DLOCK_OUT_OF_MEMORY, 0, NULL);
    else
        dli_pipe_push_urgent(&loop->pipe, call);
}

void dli_renew_drop(struct dli_loop *loop)
{
    while (loop->heap_count > 0) {
        struct dli_due due = pop(loop);

        dli_entry_unref(due.entry);
    }
}
