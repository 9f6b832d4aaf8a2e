/*
 * exchange.c: acquire and wait in line. Belongs to lane 0's thread.
 *
 * A number gets a node, and the children are read behind it, in one round trip. It has the lock when its node is there and no
 * node before it that it waits for. What is read may be old: then a node that has gone is still seen, and its watch tells
 * at once. None can come before it any more. A number that may not wait removes its node again.
 *
 * When only one node is before it, it watches its own, too. Events come in the order of transactions: while nothing was told
 * of its own node, the end of the one before makes it the first, and nobody has to be asked.
 *
 * When the reply to a node's making was lost, its entry is SENT: search.c looks for it.
 *
 * The token is the transaction that made the node.
 */
#include <string.h>

#include "kinds.h"

static const int64_t token_end = INT64_C(1) << 53;

enum { SOON = 5000000 }; /* microseconds */

static int64_t number_of(const struct dli_job *job)
{
    return job->request.exchange.wish.want;
}

static struct dli_zk_entry *entry_of(const struct dli_job *job)
{
    return dli_zk_entry(dli_zk_at(job->base.lane), number_of(job));
}

int dli_zk_stands(const struct dli_job *job)
{
    return job->request.exchange.wish.mode != DLI_MODE_TRY;
}

static struct dli_zk_text own_path(const struct dli_job *job, char room[DLI_ZK_PATH_MAX])
{
    const struct dli_zk_entry *entry = entry_of(job);

    return dli_zk_numbered(job->kind, job->line, job->request.exchange.want, entry->seq, room);
}

/* ---- results */

void dli_zk_not_granted(struct dli_job *job, enum dli_try got)
{
    struct dli_answer *answer = &job->request.exchange.answer;

    answer->got = got;
    answer->left = -1;
    job->request.status = DLOCK_OK;
    dli_zk_finish(job);
}

void dli_zk_granted(struct dli_job *job, struct dli_zk_entry *entry, int64_t more)
{
    struct dli_request *request = &job->request;
    struct dli_answer *answer = &request->exchange.answer;

    dli_zk_unwatch(dli_zk_at(job->base.lane), &entry->watch[0]);
    entry->held = 1;
    if (entry->czxid <= 0 || entry->czxid >= token_end) {
        dli_zk_fail(job, DLOCK_UNFIT, "the transaction id of ZooKeeper is no fencing token: those are 1 to 2^53 - 1");
        return;
    }
    answer->got = DLI_TRY_GRANTED;
    answer->token = entry->czxid;
    answer->tokens = 1;
    answer->more = more;
    answer->left = -1;
    answer->since = dli_zk_since(job->session, request->exchange.wish.lease);
    request->status = DLOCK_OK;
    if (request->above && answer->token < request->above) {
        answer->got = DLI_TRY_NONE;
        answer->spent = 1;
        request->status = dli_fail_forgot(request->reason, answer->token, request->above - 1);
    }
    dli_zk_finish(job);
}

/* ---- a number that does not wait */

static void removed(struct dli_job *job)
{
    int32_t error = job->call[0].error;

    if (error && error != DLI_ZK_NO_NODE) {
        dli_zk_fail_error(job, error);
        return;
    }
    dli_zk_forget(dli_zk_at(job->base.lane), number_of(job));
    dli_zk_not_granted(job, (enum dli_try)job->at);
}

void dli_zk_go_away(struct dli_job *job, enum dli_try got)
{
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_DELETE, .path = own_path(job, room), .version = -1};

    job->at = (int)got;
    dli_zk_ask(job, &ask, 1, removed);
}

/* ---- a number that waits */

/* The watches are set, if the nodes are there. Of a bell that was not watched before, a look may have missed a ring. */
static void watched(struct dli_job *job)
{
    struct dli_zk_entry *entry = entry_of(job);
    int own = entry->watch[1].spot != NULL;

    if (!job->gate.heard)
        dli_zk_listened(job, job->calls - 1);
    entry->sure = own && !job->call[1].error;
    if (!job->gate.heard)
        dli_zk_look(job);
    else if (!entry->watch[0].spot || entry->sure != own || job->call[0].error || !dli_zk_hears(job))
        dli_zk_again(job, dli_zk_look);
    else
        dli_zk_not_granted(job, DLI_TRY_HELD);
}

/* A short wait in a line needs no watch of its own node: that is missed at the next look, which comes soon. */
static int watches_itself(const struct dli_job *job, struct dli_zk_entry *entry)
{
    int again = entry->waits;

    entry->waits = 1;
    return again || entry->next || job->request.exchange.wish.beat > SOON;
}

static void wait_behind(struct dli_job *job, const struct dli_zk_child *before)
{
    struct dli_zk_entry *entry = entry_of(job);
    struct dli_zk *zk = dli_zk_at(job->base.lane);
    char room[DLI_ZK_PATH_MAX], own_room[DLI_ZK_PATH_MAX], bell_room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask[3] = {{.op = DLI_ZK_GET_DATA, .watch = 1}};
    int count = 1, failed;

    ask[0].path = dli_zk_child_path(job->line, before->name, room);
    failed = dli_zk_watch(zk, &entry->watch[0], ask[0].path);
    if (watches_itself(job, entry)) {
        ask[count++] = (struct dli_zk_ask){.op = DLI_ZK_GET_DATA, .watch = 1, .path = own_path(job, own_room)};
        failed |= dli_zk_watch(zk, &entry->watch[1], ask[1].path);
    }
    if (failed) {
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a watch");
        return;
    }
    if (!job->gate.heard)
        ask[count++] = dli_zk_listen(job, bell_room);
    dli_zk_ask(job, ask, count, watched);
}

/* ---- the line */

/* Whether a node of this side waits for one before it of that side. */
static int rivals(char own, char before)
{
    return own != 'r' || before == 'w';
}

/* A mutex and a read-write lock of one name do not know of one another in Curator. */
static int same_family(char own, char other)
{
    return (own == 'l') == (other == 'l');
}

static void shut_out(struct dli_job *job)
{
    dli_zk_go_away(job, DLI_TRY_GATE);
}

/* Its node in line is gone. Its permits count nevertheless, if there are enough. */
static void vanished(struct dli_job *job)
{
    if (!entry_of(job)->permits) {
        dli_zk_stand_anew(job);
        return;
    }
    entry_of(job)->outside = 1;
    dli_zk_permit_take(job);
}

static void judge(struct dli_job *job, const struct dli_zk_children *all, int gate)
{
    struct dli_zk_entry *entry = entry_of(job);
    const struct dli_zk_child *before = NULL;
    char side = dli_zk_side(job->kind);
    int own = 0, wrong = 0, rival = 0;

    for (int i = 0; i < all->count; i++) {
        const struct dli_zk_child *child = &all->child[i];

        if (dli_zk_is_owners(child->name, job->request.exchange.want) && child->seq == entry->seq)
            own = 1;
        else if (!same_family(side, child->side))
            wrong |= child->side != 'p';
        else if (child->seq < entry->seq && rivals(side, child->side)) {
            before = child;
            rival++;
        }
    }
    entry->next = rival == 1 && !job->request.kind->slots;
    entry->first = 0;
    entry->rung = job->session->rung;
    if (!own) {
        vanished(job);
    } else if (gate && !job->gate.passed && !entry->permits) {
        dli_zk_gate_meet(job, dli_zk_look, shut_out);
    } else if (wrong) {
        dli_zk_go_away(job, DLI_TRY_WRONG_KIND);
    } else if (!before && job->request.kind->slots) {
        dli_zk_permit_take(job);
    } else if (!before) {
        dli_zk_granted(job, entry, -1);
    } else if (!dli_zk_stands(job)) {
        dli_zk_go_away(job, DLI_TRY_HELD);
    } else {
        wait_behind(job, before);
    }
}

/* A permit semaphore's line is below its name, and the gate is not: the reply behind has it. */
static int gate_beside(struct dli_job *job, int call, int *gate)
{
    const struct dli_zk_children *all;

    if (!job->request.kind->slots)
        return 0;
    if (!(all = dli_zk_children_of(job, call + 1)))
        return -1;
    *gate = all->gate;
    return 0;
}

/* The children are in the reply of this call. */
static void judge_reply(struct dli_job *job, int call)
{
    const struct dli_zk_children *all;
    int gate = 0;

    if (job->call[call].error) {
        dli_zk_fail_error(job, job->call[call].error);
        return;
    }
    if (gate_beside(job, call, &gate) || !(all = dli_zk_children_of(job, call)))
        return;
    judge(job, all, gate | all->gate);
}

static void looked(struct dli_job *job)
{
    if (job->call[0].error == DLI_ZK_NO_NODE) /* with all nodes below it */
        vanished(job);
    else
        judge_reply(job, 0);
}

/* The node is known to be there, or to have been. */
void dli_zk_look(struct dli_job *job)
{
    struct dli_zk_ask ask[2] = {{.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->line)},
                                {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->request.place)}};

    job->gate.heard = dli_zk_hears(job);
    dli_zk_ask(job, ask, job->request.kind->slots ? 2 : 1, looked);
}

/* ---- a new node */

static void created(struct dli_job *job)
{
    struct dli_zk_entry *entry = entry_of(job);
    const struct dli_zk_answer *answer = dli_zk_got(job, 0);
    int32_t error = job->call[0].error;

    if (error == DLI_ZK_NO_NODE) {
        dli_zk_make_parents(job, job->line, dli_zk_create);
    } else if (error) {
        dli_zk_forget(dli_zk_at(job->base.lane), number_of(job));
        job->request.refused = 1;
        dli_zk_fail_error(job, error);
    } else if (answer->seq < 0) {
        dli_zk_fail(job, DLOCK_UNFIT, "the numbers below this name have run over: remove its node at a quiet time");
    } else {
        entry->seq = answer->seq;
        entry->czxid = answer->stat.czxid;
        entry->ctime = answer->stat.ctime;
        entry->state = DLI_ZK_KNOWN;
        judge_reply(job, 1);
    }
}

void dli_zk_create(struct dli_job *job)
{
    struct dli_zk_entry *entry = entry_of(job);
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask[3] = {{
                                    .op = DLI_ZK_CREATE,
                                    .flags = DLI_ZK_EPHEMERAL_SEQUENTIAL,
                                    .mine = dli_zk_at(job->base.lane)->user[0] != '\0',
                                },
                                {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->line)},
                                {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->request.place)}};

    if (!entry && !(entry = dli_zk_entry_new(dli_zk_at(job->base.lane), job->request.place, number_of(job)))) {
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a place in line");
        return;
    }
    entry->session = job->session->number;
    ask[0].path = dli_zk_node(job->kind, job->line, job->request.exchange.want, room);
    job->gate.heard = dli_zk_hears(job);
    dli_zk_ask(job, ask, job->request.kind->slots ? 3 : 2, created);
}

/* ---- begin */

void dli_zk_stand_anew(struct dli_job *job)
{
    dli_zk_forget(dli_zk_at(job->base.lane), number_of(job));
    dli_zk_again(job, dli_zk_create);
}

/* Nobody is before it any more, and its node is there: that was told. The session must be fresh. */
static int was_told(const struct dli_job *job, const struct dli_zk_entry *entry)
{
    int64_t lease = job->request.exchange.wish.lease;

    return entry->first && entry->sure && dli_zk_hears(job) && entry->rung == job->session->rung &&
           job->session->phase == DLI_ZK_UP && dli_now() - dli_zk_since(job->session, lease) < lease / 4;
}

void dli_zk_acquire(struct dli_job *job)
{
    struct dli_zk *zk = dli_zk_at(job->base.lane);
    struct dli_zk_entry *entry = entry_of(job);

    if (entry && !(job->session = dli_zk_session(zk, entry->session))) {
        dli_zk_forget(zk, number_of(job));
        entry = NULL;
    }
    if (!entry && !dli_zk_enter(job, job->request.exchange.wish.lease))
        return;
    job->value = INT64_MAX; /* of a search */
    if (!entry)
        dli_zk_create(job);
    else if (entry->permits == DLI_ZK_PERMITS_TAKEN)
        dli_zk_permit_take(job);
    else if (entry->state == DLI_ZK_SENT)
        dli_zk_search(job);
    else if (was_told(job, entry))
        dli_zk_granted(job, entry, -1);
    else
        dli_zk_look(job);
}

void dli_zk_exchange(struct dli_job *job)
{
    memset(&job->request.exchange.answer, 0, sizeof job->request.exchange.answer);
    job->line = job->request.place->line ? job->request.place->line : job->request.place;
    job->kind = job->request.place->line ? job->line->kind : job->request.kind;
    if (job->request.kind->momentary)
        dli_zk_latch_wait(job);
    else if (job->request.exchange.under[0])
        dli_zk_fail(job, DLOCK_UNSUPPORTED,
                    "on ZooKeeper a writer cannot read under its own write lock: the read lock would stand behind "
                    "waiting writers, which would not wait for it");
    else if (job->request.exchange.wish.want && job->request.kind->slots)
        dli_zk_permit_acquire(job);
    else if (job->request.exchange.wish.want)
        dli_zk_acquire(job);
    else if (job->request.kind->slots)
        dli_zk_permit_drop(job);
    else
        dli_zk_drop(job);
}
