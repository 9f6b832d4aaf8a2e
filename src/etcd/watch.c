/*
 * watch.c: who waits behind whom, and the one stream of watches that tells. Belongs to lane 0's thread.
 *
 * A number in line has two watches: of the key before its own, which goes when it may be its turn, and of its own key,
 * which goes when its lease ends or an operator deletes it. Either event, or the end of a watch, makes the number look
 * again.
 *
 * What happened before a watch began is sent by the server only ten times a second. So the watch of the key before, a tie, begins
 * now, and the number looks once more if something has happened since its last look. A tie goes on when the number has the
 * lock: in a line of some processes each waits for the same key again. Its first event that nobody waits for ends it.
 *
 * A number that is held needs only the watch of its own key. A hold that was never in line gets it with its first renewal,
 * from the revision of its grant on: short holds have none, and nothing is missed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/tree.h"

#include "kinds.h"

enum { LOOSE = 32 };

/* A watch of the key before, which the next one that waits for that key may take over. */
struct dli_etcd_tie {
    struct dli_etcd_watch watch; /* waiter NULL: it is loose */
    struct dli_link link;        /* in etcd.loose */
    size_t size;
    char key[];
};

static void news(struct dli_grpc_call *call, const char *bytes, size_t size);
static void ended(struct dli_grpc_call *call);

static const struct dli_grpc_method watch_method = {
    .path = "/etcdserverpb.Watch/Watch", .streaming = 1, .leader = 1, .message = news, .ended = ended};

struct dli_etcd_waiter *dli_etcd_waiter(struct dli_etcd *etcd, int64_t number)
{
    struct dli_etcd_node *node = dli_etcd_find(&etcd->waiters, number);

    return node ? DLI_OBJECT(node, struct dli_etcd_waiter, node) : NULL;
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
    if (watch->node.number && tell && etcd->watches.grpc &&
        dli_etcd_encode_unwatch(&etcd->watches.out, watch->node.number) == 0)
        send(etcd);
    dli_etcd_delist(&etcd->watched, &watch->node);
}

void dli_etcd_watch_begin(struct dli_etcd *etcd, struct dli_etcd_watch *watch, struct dli_etcd_watching *what)
{
    what->id = ++etcd->watch_ids;
    stop(etcd, watch, 1);
    if (dli_etcd_enlist(&etcd->watched, &watch->node, what->id))
        return;
    if (dli_etcd_encode_watch(&etcd->watches.out, what)) {
        stop(etcd, watch, 0);
        return;
    }
    send(etcd);
}

/* Watch for the deletion of one key. */
static void begin(struct dli_etcd *etcd, struct dli_etcd_watch *watch, struct dli_etcd_bytes key, int64_t revision)
{
    dli_etcd_watch_begin(etcd, watch, &(struct dli_etcd_watching){.key = key, .revision = revision});
}

/* ---- ties */

static void tie_free(struct dli_etcd *etcd, struct dli_etcd_tie *tie, int tell)
{
    etcd->loose_ties -= tie->watch.waiter == NULL;
    stop(etcd, &tie->watch, tell);
    dli_list_remove(&tie->link);
    free(tie);
}

static void loosen(struct dli_etcd *etcd, struct dli_etcd_waiter *waiter)
{
    struct dli_etcd_tie *tie = waiter->tie;

    waiter->tie = NULL;
    waiter->behind = 0;
    if (!tie)
        return;
    tie->watch.waiter = NULL;
    dli_list_append(etcd->loose.next, &tie->link);
    etcd->loose_ties++;
    if (!tie->watch.node.number)
        tie_free(etcd, tie, 0);
    else if (etcd->loose_ties > LOOSE)
        tie_free(etcd, DLI_OBJECT(etcd->loose.prev, struct dli_etcd_tie, link), 1);
}

static void free_loose(struct dli_etcd *etcd)
{
    while (!dli_list_empty(&etcd->loose))
        tie_free(etcd, DLI_OBJECT(etcd->loose.next, struct dli_etcd_tie, link), 0);
}

/* NULL: nobody has watched this key. */
static struct dli_etcd_tie *take_loose(struct dli_etcd *etcd, struct dli_etcd_bytes key)
{
    for (struct dli_link *link = etcd->loose.next; link != &etcd->loose; link = link->next) {
        struct dli_etcd_tie *tie = DLI_OBJECT(link, struct dli_etcd_tie, link);

        if (!dli_etcd_same(key, dli_etcd_text(tie->key, tie->size)))
            continue;
        dli_list_remove(&tie->link);
        etcd->loose_ties--;
        return tie;
    }
    return NULL;
}

/* A new one, which watches from now on. NULL without memory. */
static struct dli_etcd_tie *tie_new(struct dli_etcd *etcd, struct dli_etcd_waiter *waiter, struct dli_etcd_bytes key)
{
    struct dli_etcd_tie *tie = calloc(1, sizeof *tie + key.size);

    if (!tie)
        return NULL;
    dli_list_init(&tie->link);
    tie->watch.waiter = waiter;
    tie->size = key.size;
    memcpy(tie->key, key.bytes, key.size);
    begin(etcd, &tie->watch, key, 0);
    if (tie->watch.node.number)
        return tie;
    free(tie);
    return NULL;
}

static void tie(struct dli_etcd *etcd, struct dli_etcd_waiter *waiter, const struct dli_etcd_found *before)
{
    loosen(etcd, waiter);
    if (!(waiter->tie = take_loose(etcd, before->key)))
        waiter->tie = tie_new(etcd, waiter, before->key);
    if (!waiter->tie)
        return;
    waiter->tie->watch.waiter = waiter;
    waiter->behind = before->created;
}

/* ---- waiters */

static struct dli_etcd_waiter *waiter_new(struct dli_etcd *etcd, const struct dli_place *place, int64_t number)
{
    struct dli_etcd_waiter *waiter = calloc(1, sizeof *waiter + place->size);

    if (!waiter)
        return NULL;
    waiter->family = place->kind->family;
    waiter->size = place->size;
    memcpy(waiter->name, place->name, place->size);
    for (int i = 0; i < DLI_ETCD_WATCHES; i++)
        waiter->watch[i].waiter = waiter;
    if (dli_etcd_enlist(&etcd->waiters, &waiter->node, number)) {
        free(waiter);
        return NULL;
    }
    return waiter;
}

/* The job's number stands in line, as of revision. */
static struct dli_etcd_waiter *waits(struct dli_job *job, struct dli_etcd_bytes own, int64_t revision)
{
    int64_t number = job->request.exchange.wish.want;
    struct dli_etcd *etcd = dli_etcd_at(job->base.lane);
    struct dli_etcd_waiter *waiter = dli_etcd_waiter(etcd, number);

    if (!waiter && !(waiter = waiter_new(etcd, job->request.place, number)))
        return NULL;
    if (!waiter->watch[1].node.number || waiter->created != job->created)
        begin(etcd, &waiter->watch[1], own, revision + 1);
    waiter->created = job->created;
    dli_etcd_slot_there(job->request.place, number);
    waiter->from = revision + 1;
    waiter->more = 0;
    return waiter;
}

void dli_etcd_wait(struct dli_job *job, struct dli_etcd_bytes own, const struct dli_etcd_found *before,
                   int64_t revision)
{
    struct dli_etcd_waiter *waiter = waits(job, own, revision);

    if (waiter && (!waiter->tie || !waiter->tie->watch.node.number || waiter->behind != before->created))
        tie(dli_etcd_at(job->base.lane), waiter, before);
}

void dli_etcd_wait_for_some(struct dli_job *job, struct dli_etcd_bytes own, const struct dli_etcd_crowd *crowd)
{
    struct dli_etcd_waiter *waiter = waits(job, own, crowd->revision);
    struct dli_etcd_watching claims = {.key = crowd->key, .end = crowd->end, .revision = crowd->revision + 1},
                             total = {.key = crowd->total, .revision = crowd->revision + 1, .puts = 1};

    if (!waiter)
        return;
    waiter->more = crowd->leave - 1;
    dli_etcd_watch_begin(dli_etcd_at(job->base.lane), &waiter->watch[0], &claims);
    dli_etcd_watch_begin(dli_etcd_at(job->base.lane), &waiter->watch[2], &total);
}

void dli_etcd_watch_for(struct dli_job *job, int64_t number, struct dli_etcd_bytes key, int64_t revision)
{
    struct dli_etcd *etcd = dli_etcd_at(job->base.lane);
    struct dli_etcd_waiter *waiter = dli_etcd_waiter(etcd, number);

    if (!waiter && !(waiter = waiter_new(etcd, job->request.place, number)))
        return;
    if (!waiter->watch[0].node.number)
        begin(etcd, &waiter->watch[0], key, revision + 1);
}

void dli_etcd_hold(struct dli_etcd *etcd, int64_t number, int64_t revision)
{
    struct dli_etcd_waiter *waiter = dli_etcd_waiter(etcd, number);

    if (!waiter)
        return;
    loosen(etcd, waiter);
    stop(etcd, &waiter->watch[0], 1);
    stop(etcd, &waiter->watch[2], 1);
    waiter->held = 1;
    waiter->unsure = waiter->gone = 0;
    if (revision >= waiter->from)
        waiter->from = revision + 1;
}

struct dli_etcd_waiter *dli_etcd_watch_hold(struct dli_etcd *etcd, const struct dli_renewal *row)
{
    int64_t number = dli_etcd_number(row->owner);
    struct dli_etcd_waiter *waiter = dli_etcd_waiter(etcd, number);
    char key[DLI_ETCD_KEY_MAX];

    if (!waiter) {
        if (!(waiter = waiter_new(etcd, row->place, number)))
            return NULL;
        waiter->created = row->last / DLI_ETCD_TURNS;
        waiter->from = waiter->created + 1;
        waiter->held = 1;
    }
    if (!waiter->watch[1].node.number && !waiter->gone)
        begin(etcd, &waiter->watch[1], dli_etcd_key(row->kind, row->place, row->owner, key), waiter->from);
    return waiter;
}

static void forget(struct dli_etcd *etcd, struct dli_etcd_waiter *waiter)
{
    loosen(etcd, waiter);
    for (int i = 0; i < DLI_ETCD_WATCHES; i++)
        stop(etcd, &waiter->watch[i], 1);
    dli_etcd_delist(&etcd->waiters, &waiter->node);
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
    struct dli_etcd_node *node;

    while ((node = dli_etcd_any(&etcd->waiters)))
        forget(etcd, DLI_OBJECT(node, struct dli_etcd_waiter, node));
    free_loose(etcd);
}

/* The number looks again. Its next request finds it here. */
static void hint(struct dli_etcd *etcd, const struct dli_etcd_waiter *waiter)
{
    struct dli_message_target target = {waiter->family, waiter->name, waiter->size,
                                        waiter->node.number > 0 ? waiter->node.number : 0};

    etcd->store.hooks->hint(etcd->store.owner, &target);
}

static void hint_waiting(void *etcd, void *node)
{
    const struct dli_etcd_waiter *waiter = DLI_OBJECT(node, struct dli_etcd_waiter, node);

    if (!waiter->held)
        hint(etcd, waiter);
}

void dli_etcd_hint_all(struct dli_etcd *etcd)
{
    dli_tree_each(etcd->waiters.root, hint_waiting, etcd);
}

/* ---- the stream */

/* Whether the waiter must look; not while so many others have to leave before it is served. */
static int concerns(struct dli_etcd_waiter *waiter, const struct dli_etcd_watch *watch, const struct dli_etcd_news *it)
{
    if (it->ended)
        return 1;
    if (watch != &waiter->watch[0] || it->events > waiter->more)
        return it->events > 0;
    waiter->more -= it->events;
    return 0;
}

static int is_tie(const struct dli_etcd_watch *watch)
{
    return watch->waiter->tie && watch == &watch->waiter->tie->watch;
}

/* The tie begins, and something has happened since the last look. */
static int is_late(const struct dli_etcd_watch *watch, const struct dli_etcd_news *it)
{
    return it->created && !it->ended && is_tie(watch) && it->revision >= watch->waiter->from;
}

static void tell(struct dli_etcd *etcd, struct dli_etcd_watch *watch, const struct dli_etcd_news *it)
{
    struct dli_etcd_waiter *waiter = watch->waiter;

    if (is_late(watch, it))
        hint(etcd, waiter);
    if (!concerns(waiter, watch, it))
        return;
    if (it->ended || !is_tie(watch))
        stop(etcd, watch, !it->ended);
    loosen(etcd, waiter);
    if (waiter->held) {
        waiter->gone = it->events > 0;
        waiter->unsure = !waiter->gone;
    }
    hint(etcd, waiter);
}

static void news(struct dli_grpc_call *call, const char *bytes, size_t size)
{
    struct dli_etcd *etcd = DLI_OBJECT(call, struct dli_etcd, watches);
    struct dli_etcd_watch *watch;
    struct dli_etcd_node *node;
    struct dli_etcd_news it;

    if (dli_etcd_decode_watch(bytes, size, &it))
        return;
    node = dli_etcd_find(&etcd->watched, it.id);
    watch = node ? DLI_OBJECT(node, struct dli_etcd_watch, node) : NULL;
    if (watch == &etcd->gates) {
        if (it.ended)
            stop(etcd, watch, 0);
        dli_etcd_gates_news(etcd, &it);
    } else if (watch && watch->waiter) {
        tell(etcd, watch, &it);
    } else if (watch && (it.ended || it.events > 0)) {
        tie_free(etcd, DLI_OBJECT(watch, struct dli_etcd_tie, watch), !it.ended);
    }
    dli_etcd_news_free(&it);
}

void dli_etcd_watches_end(struct dli_etcd *etcd)
{
    struct dli_etcd_node *node;

    while ((node = dli_etcd_any(&etcd->watched)))
        stop(etcd, DLI_OBJECT(node, struct dli_etcd_watch, node), 0);
    free_loose(etcd);
}

static void ended(struct dli_grpc_call *call)
{
    struct dli_etcd *etcd = DLI_OBJECT(call, struct dli_etcd, watches);

    dli_buffer_drop(&call->out, call->out.size);
    dli_buffer_drop(&call->in, call->in.size);
    dli_etcd_watches_end(etcd);
    etcd->stale = 1;
    if (etcd->grpc.session && call->code > 0)
        dli_grpc_leave(&etcd->grpc, "ended its watches");
}
