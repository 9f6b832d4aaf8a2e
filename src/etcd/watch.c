/*
 * watch.c: who waits behind whom, and the one stream of watches that tells. Belongs to lane 0's thread.
 *
 * A number in line has two watches: of the key before its own, which goes when it may be its turn, and of its own key,
 * which goes when its lease ends or an operator deletes it. Either event, or the end of a watch, makes the number look
 * again. That begins new watches from the revision that was read, so nothing is missed in between.
 */
#include <stdlib.h>
#include <string.h>

#include "inner.h"

static void news(struct dli_grpc_call *call, const char *bytes, size_t size);
static void ended(struct dli_grpc_call *call);

static const struct dli_grpc_method watch_method = {
    .path = "/etcdserverpb.Watch/Watch", .streaming = 1, .leader = 1, .message = news, .ended = ended};

static struct dli_link *bucket(struct dli_link *table, int64_t number)
{
    return &table[(uint64_t)number % DLI_ETCD_BUCKETS];
}

struct dli_etcd_waiter *dli_etcd_waiter(struct dli_etcd *etcd, int64_t number)
{
    struct dli_link *list = bucket(etcd->waiters, number);

    for (struct dli_link *link = list->next; link != list; link = link->next)
        if (DLI_OBJECT(link, struct dli_etcd_waiter, by_number)->number == number)
            return DLI_OBJECT(link, struct dli_etcd_waiter, by_number);
    return NULL;
}

static struct dli_etcd_watch *watch_of(struct dli_etcd *etcd, int64_t id)
{
    struct dli_link *list = bucket(etcd->by_id, id);

    for (struct dli_link *link = list->next; link != list; link = link->next)
        if (DLI_OBJECT(link, struct dli_etcd_watch, by_id)->id == id)
            return DLI_OBJECT(link, struct dli_etcd_watch, by_id);
    return NULL;
}

/* ---- one watch */

/* There is something to send. */
static void send(struct dli_etcd *etcd)
{
    if (etcd->watches.grpc) {
        dli_grpc_more(&etcd->watches);
        return;
    }
    etcd->watches.method = &watch_method;
    etcd->watches.deadline = INT64_MAX;
    dli_grpc_begin(&etcd->grpc, &etcd->watches);
}

static void stop(struct dli_etcd *etcd, struct dli_etcd_watch *watch, int tell)
{
    if (watch->id && tell && etcd->watches.grpc && dli_etcd_encode_unwatch(&etcd->watches.out, watch->id) == 0)
        send(etcd);
    watch->id = 0;
    dli_list_remove(&watch->by_id);
}

static void begin(struct dli_etcd *etcd, struct dli_etcd_watch *watch, struct dli_etcd_bytes key, int64_t revision)
{
    int64_t id = ++etcd->watch_ids;

    stop(etcd, watch, 1);
    if (dli_etcd_encode_watch(&etcd->watches.out, id, key, revision))
        return;
    watch->id = id;
    dli_list_append(bucket(etcd->by_id, id), &watch->by_id);
    send(etcd);
}

/* ---- waiters */

static struct dli_etcd_waiter *waiter_new(struct dli_job *job)
{
    const struct dli_place *place = job->request.place;
    struct dli_etcd_waiter *waiter = calloc(1, sizeof *waiter + place->size);
    struct dli_etcd *etcd = job->lane->etcd;

    if (!waiter)
        return NULL;
    waiter->number = job->request.exchange.wish.want;
    waiter->family = place->kind->family;
    waiter->size = place->size;
    memcpy(waiter->name, place->name, place->size);
    dli_list_init(&waiter->by_number);
    for (int i = 0; i < 2; i++) {
        waiter->watch[i].waiter = waiter;
        dli_list_init(&waiter->watch[i].by_id);
    }
    dli_list_append(bucket(etcd->waiters, waiter->number), &waiter->by_number);
    etcd->waiting++;
    return waiter;
}

void dli_etcd_wait(struct dli_job *job, struct dli_etcd_bytes own, struct dli_etcd_bytes before, int64_t revision)
{
    struct dli_etcd *etcd = job->lane->etcd;
    struct dli_etcd_waiter *waiter = dli_etcd_waiter(etcd, job->request.exchange.wish.want);

    if (!waiter && !(waiter = waiter_new(job)))
        return;
    waiter->created = job->created;
    begin(etcd, &waiter->watch[0], before, revision + 1);
    begin(etcd, &waiter->watch[1], own, revision + 1);
}

static void forget(struct dli_etcd *etcd, struct dli_etcd_waiter *waiter)
{
    stop(etcd, &waiter->watch[0], 1);
    stop(etcd, &waiter->watch[1], 1);
    dli_list_remove(&waiter->by_number);
    etcd->waiting--;
    free(waiter);
}

void dli_etcd_forget(struct dli_etcd *etcd, int64_t number)
{
    struct dli_etcd_waiter *waiter = dli_etcd_waiter(etcd, number);

    if (waiter)
        forget(etcd, waiter);
}

void dli_etcd_forget_all(struct dli_etcd *etcd)
{
    for (int i = 0; i < DLI_ETCD_BUCKETS; i++)
        while (!dli_list_empty(&etcd->waiters[i]))
            forget(etcd, DLI_OBJECT(etcd->waiters[i].next, struct dli_etcd_waiter, by_number));
}

/* The waiter looks again. Its next request finds it by its number. */
static void hint(struct dli_etcd *etcd, const struct dli_etcd_waiter *waiter)
{
    struct dli_message_target target = {waiter->family, waiter->name, waiter->size, waiter->number};

    etcd->store.hooks->hint(etcd->store.owner, &target);
}

void dli_etcd_hint_all(struct dli_etcd *etcd)
{
    for (int i = 0; i < DLI_ETCD_BUCKETS; i++)
        for (struct dli_link *link = etcd->waiters[i].next; link != &etcd->waiters[i]; link = link->next)
            hint(etcd, DLI_OBJECT(link, struct dli_etcd_waiter, by_number));
}

/* ---- the stream */

static void news(struct dli_grpc_call *call, const char *bytes, size_t size)
{
    struct dli_etcd *etcd = DLI_OBJECT(call, struct dli_etcd, watches);
    struct dli_etcd_watch *watch;
    struct dli_etcd_news it;

    if (dli_etcd_decode_watch(bytes, size, &it) || !(watch = watch_of(etcd, it.id)) || !(it.events > 0 || it.ended))
        return;
    stop(etcd, watch, !it.ended);
    hint(etcd, watch->waiter);
}

static void ended(struct dli_grpc_call *call)
{
    struct dli_etcd *etcd = DLI_OBJECT(call, struct dli_etcd, watches);

    dli_buffer_drop(&call->out, call->out.size);
    dli_buffer_drop(&call->in, call->in.size);
    for (int i = 0; i < DLI_ETCD_BUCKETS; i++)
        while (!dli_list_empty(&etcd->by_id[i]))
            stop(etcd, DLI_OBJECT(etcd->by_id[i].next, struct dli_etcd_watch, by_id), 0);
    etcd->stale = 1;
    if (etcd->grpc.session && call->code > 0)
        dli_grpc_leave(&etcd->grpc, "ended its watches");
}
