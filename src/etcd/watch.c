/*
 * watch.c: who waits behind whom, and the one stream of watches that tells. Belongs to lane 0's thread.
 *
 * A number in line has two watches: of the key before its own, which goes when it may be its turn, and of its own key,
 * which goes when its lease ends or an operator deletes it. Either event, or the end of a watch, makes the number look
 * again.
 *
 * What happened before a watch began is sent by the server only ten times a second. So the watches of what stands before begin
 * now, and the number looks once more if something has happened since its last look. Those of one key are ties, see tie.c.
 *
 * A number that is held needs only the watch of its own key. A hold that was never in line gets it with its first renewal: short
 * holds have none. It begins now, too, and the hold is renewed once more, with a look at its key.
 *
 * The stream keeps the token that it began with. When that has expired, the server refuses new watches, and goes on with the old
 * ones. So after a refusal the stream begins anew, with a new token. What is refused again at once, is not watched.
 */
#include <stdlib.h>
#include <string.h>

#include "base/tree.h"

#include "kinds.h"

static void news(struct dli_grpc_call *call, const char *bytes, size_t size);
static void ended(struct dli_grpc_call *call);

static const struct dli_grpc_method watch_method = {.path = "/etcdserverpb.Watch/Watch",
                                                    .streaming = 1,
                                                    .leader = 1,
                                                    .most = DLI_ETCD_NEWS_MOST,
                                                    .message = news,
                                                    .ended = ended};

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

void dli_etcd_watch_stop(struct dli_etcd *etcd, struct dli_etcd_watch *watch, int tell)
{
    if (watch->node.number && tell && etcd->watches.grpc &&
        dli_etcd_encode_unwatch(&etcd->watches.out, watch->node.number) == 0)
        send(etcd);
    dli_etcd_delist(&etcd->watched, &watch->node);
}

void dli_etcd_watch_begin(struct dli_etcd *etcd, struct dli_etcd_watch *watch, struct dli_etcd_watching *what)
{
    what->id = ++etcd->watch_ids;
    dli_etcd_watch_stop(etcd, watch, 1);
    if (dli_etcd_enlist(&etcd->watched, &watch->node, what->id))
        return;
    if (dli_etcd_encode_watch(&etcd->watches.out, what)) {
        dli_etcd_watch_stop(etcd, watch, 0);
        return;
    }
    send(etcd);
}

/* Watch for the deletion of one key. */
static void begin(struct dli_etcd *etcd, struct dli_etcd_watch *watch, struct dli_etcd_bytes key, int64_t revision)
{
    dli_etcd_watch_begin(etcd, watch, &(struct dli_etcd_watching){.key = key, .revision = revision});
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

void dli_etcd_wait(struct dli_job *job, struct dli_etcd_bytes own, struct dli_etcd_bytes before, int64_t revision)
{
    struct dli_etcd_waiter *waiter = waits(job, own, revision);

    if (waiter)
        dli_etcd_tie(dli_etcd_at(job->base.lane), waiter, before);
}

/* Both watches are there from an earlier look. */
static int is_watching(const struct dli_etcd_waiter *waiter)
{
    return waiter->crowd && waiter->watch[0].node.number && waiter->watch[2].node.number;
}

int dli_etcd_wait_for_some(struct dli_job *job, struct dli_etcd_bytes own, const struct dli_etcd_crowd *crowd)
{
    struct dli_etcd *etcd = dli_etcd_at(job->base.lane);
    struct dli_etcd_waiter *waiter = waits(job, own, crowd->revision);
    struct dli_etcd_watching claims = {.key = crowd->key, .end = crowd->end}, total = {.key = crowd->total, .puts = 1};

    if (!waiter)
        return 0;
    waiter->more = crowd->leave - 1;
    if (is_watching(waiter))
        return waiter->stirred;
    waiter->crowd = 1;
    dli_etcd_watch_begin(etcd, &waiter->watch[0], &claims);
    dli_etcd_watch_begin(etcd, &waiter->watch[2], &total);
    waiter->ready = &waiter->watch[2];
    return 0;
}

void dli_etcd_looks(struct dli_job *job)
{
    struct dli_etcd_waiter *waiter = dli_etcd_waiter(dli_etcd_at(job->base.lane), job->request.exchange.wish.want);

    if (waiter)
        waiter->stirred = 0;
}

void dli_etcd_watch_for(struct dli_job *job, int64_t number, struct dli_etcd_bytes key, int64_t revision)
{
    struct dli_etcd *etcd = dli_etcd_at(job->base.lane);
    struct dli_etcd_waiter *waiter = dli_etcd_waiter(etcd, number);

    if (!waiter && !(waiter = waiter_new(etcd, job->request.place, number)))
        return;
    if (waiter->watch[0].node.number)
        return;
    waiter->from = revision + 1;
    waiter->ready = &waiter->watch[0];
    begin(etcd, &waiter->watch[0], key, 0);
}

void dli_etcd_hold(struct dli_etcd *etcd, int64_t number, int64_t revision)
{
    struct dli_etcd_waiter *waiter = dli_etcd_waiter(etcd, number);

    if (!waiter)
        return;
    dli_etcd_loosen(etcd, waiter);
    dli_etcd_watch_stop(etcd, &waiter->watch[0], 1);
    dli_etcd_watch_stop(etcd, &waiter->watch[2], 1);
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
    if (!waiter->watch[1].node.number && !waiter->gone) {
        waiter->ready = &waiter->watch[1];
        begin(etcd, &waiter->watch[1], dli_etcd_key(row->kind, row->place, row->owner, key), 0);
    }
    return waiter;
}

static void forget(struct dli_etcd *etcd, struct dli_etcd_waiter *waiter)
{
    dli_etcd_loosen(etcd, waiter);
    for (int i = 0; i < DLI_ETCD_WATCHES; i++)
        dli_etcd_watch_stop(etcd, &waiter->watch[i], 1);
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
    dli_etcd_ties_free(etcd);
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

void dli_etcd_hint_stale(struct dli_etcd *etcd)
{
    if (!etcd->stale)
        return;
    etcd->stale = 0;
    dli_etcd_hint_all(etcd);
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

/* The last of its watches begins, and something has happened since the last look. */
static int is_late(const struct dli_etcd_watch *watch, const struct dli_etcd_news *it)
{
    const struct dli_etcd_waiter *waiter = watch->waiter;

    return it->created && !it->ended && watch == waiter->ready && it->revision >= waiter->from;
}

/* It goes on after an event. */
static int goes_on(const struct dli_etcd_watch *watch)
{
    return dli_etcd_is_tie(watch) || (watch->waiter->crowd && watch != &watch->waiter->watch[1]);
}

static void tell(struct dli_etcd *etcd, struct dli_etcd_watch *watch, const struct dli_etcd_news *it)
{
    struct dli_etcd_waiter *waiter = watch->waiter;

    waiter->stirred |= it->events > 0;
    if (is_late(watch, it)) {
        waiter->unsure = waiter->held;
        hint(etcd, waiter);
    }
    if (!concerns(waiter, watch, it))
        return;
    if (it->ended || !goes_on(watch))
        dli_etcd_watch_stop(etcd, watch, !it->ended);
    dli_etcd_loosen(etcd, waiter);
    if (waiter->held) {
        waiter->gone = it->events > 0;
        waiter->unsure = !waiter->gone;
    }
    hint(etcd, waiter);
}

/* The server does not let us have it. There is no hint: the number would look and ask for it again, without end. */
static void do_without(struct dli_etcd *etcd, struct dli_etcd_watch *watch)
{
    struct dli_etcd_waiter *waiter = watch->waiter;

    if (watch == &etcd->gates || waiter)
        dli_etcd_watch_stop(etcd, watch, 0);
    else
        dli_etcd_tie_end(etcd, watch, 0);
    if (watch == &etcd->gates) {
        etcd->gates_refused = 1;
    } else if (waiter) {
        waiter->unsure = waiter->held;
        dli_etcd_loosen(etcd, waiter);
    }
}

static void refused(struct dli_etcd *etcd, struct dli_etcd_watch *watch)
{
    int64_t now = dli_now();

    if (!etcd->refused_at || now - etcd->refused_at > DLI_ETCD_SECOND) {
        etcd->refused_at = now;
        etcd->watches_old = 1;
    } else if (watch && !etcd->watches_old) {
        do_without(etcd, watch);
    }
}

/* What all keys of a watch begin with: the names of gates, or that of its lock. A loose tie has neither: it only ends. */
static struct dli_etcd_bytes name_of(const struct dli_etcd *etcd, const struct dli_etcd_watch *watch)
{
    if (watch == &etcd->gates)
        return dli_etcd_text(DLI_ETCD_GATES, sizeof DLI_ETCD_GATES - 1);
    return watch->waiter ? dli_etcd_text(watch->waiter->name, watch->waiter->size) : dli_etcd_text("", 0);
}

/* Requests for watches are answered in their order. A refusal may have no number. */
static void number(struct dli_etcd *etcd, struct dli_etcd_news *it)
{
    if (!it->created)
        return;
    if (it->ended && it->id <= 0)
        it->id = etcd->watch_told + 1;
    if (it->id > etcd->watch_told && it->id <= etcd->watch_ids)
        etcd->watch_told = it->id;
}

/* NULL: it is no news, or that of a watch which is over. */
static struct dli_etcd_watch *read_news(struct dli_etcd *etcd, struct dli_etcd_bytes bytes, struct dli_etcd_news *it)
{
    int failed = dli_etcd_decode_watch(bytes, it);
    struct dli_etcd_watch *watch = NULL;
    struct dli_etcd_node *node;

    number(etcd, it);
    if (!failed && (node = dli_etcd_find(&etcd->watched, it->id)))
        watch = DLI_OBJECT(node, struct dli_etcd_watch, node);
    if (!failed && (!watch || dli_etcd_news_below(it, name_of(etcd, watch))))
        return watch;
    dli_grpc_refuse(&etcd->grpc, DLOCK_PROTOCOL_ERROR, "sent what is no news of a watch");
    memset(it, 0, sizeof *it);
    return NULL;
}

static void news(struct dli_grpc_call *call, const char *bytes, size_t size)
{
    struct dli_etcd *etcd = DLI_OBJECT(call, struct dli_etcd, watches);
    struct dli_etcd_news it;
    struct dli_etcd_watch *watch = read_news(etcd, dli_etcd_text(bytes, size), &it);

    if (it.created && it.ended) {
        refused(etcd, watch);
    } else if (watch == &etcd->gates) {
        if (it.ended)
            dli_etcd_watch_stop(etcd, watch, 0);
        dli_etcd_gates_news(etcd, &it);
    } else if (watch && watch->waiter) {
        tell(etcd, watch, &it);
    } else if (watch && (it.ended || it.events > 0)) {
        dli_etcd_tie_end(etcd, watch, !it.ended);
    }
}

void dli_etcd_watches_end(struct dli_etcd *etcd)
{
    struct dli_etcd_node *node;

    while ((node = dli_etcd_any(&etcd->watched)))
        dli_etcd_watch_stop(etcd, DLI_OBJECT(node, struct dli_etcd_watch, node), 0);
    dli_etcd_ties_free(etcd);
}

static void forget_stream(struct dli_etcd *etcd)
{
    dli_buffer_drop(&etcd->watches.out, etcd->watches.out.size);
    dli_buffer_drop(&etcd->watches.in, etcd->watches.in.size);
    dli_etcd_watches_end(etcd);
    etcd->watch_told = etcd->watch_ids;
    etcd->watches_old = 0;
    etcd->stale = 1;
}

static void ended(struct dli_grpc_call *call)
{
    struct dli_etcd *etcd = DLI_OBJECT(call, struct dli_etcd, watches);

    forget_stream(etcd);
    if (etcd->grpc.session && call->code > 0)
        dli_grpc_leave(&etcd->grpc, "ended its watches");
}

void dli_etcd_watches_step(struct dli_etcd *etcd)
{
    if (!etcd->watches_old)
        return;
    dli_grpc_cancel(&etcd->watches);
    forget_stream(etcd);
    if (etcd->user[0])
        dli_etcd_logout(etcd);
    else
        dli_etcd_hint_stale(etcd);
}
