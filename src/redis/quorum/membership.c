/*
 * membership.c: whether the servers may vote together. Each is queried before its first vote, after it was unreachable,
 * and now and then:
 *   - for its run id, so that no server votes twice;
 *   - for whether it is a shard of a cluster: such a server knows other servers;
 *   - for the view of its quorum, which it keeps for its clients, so that two views never grant side by side.
 *
 * The view of a quorum with a name does not name the servers, as clients may name them differently. So each server is told
 * the run ids of the others, once they are known, and keeps them. Whether a new one has replaced one that is missing shows when it
 * was started: see join.lua.
 *
 * The query goes before the first vote on the same connection. While one server may not vote with the others, nothing
 * is granted: the user has to name other servers. All here runs on the lane's thread; mutexes: see inner.h.
 */
#include "inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sys/sys.h"

enum { MS = 1000, SECOND = 1000 * MS, SLOW = 100000 };

/* ---- the view of the quorum */

void dli_quorum_view(struct dli_quorum *quorum, int db, const char *called)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    struct dli_text view = dli_text_in(quorum->view, sizeof quorum->view);

    if (*called) {
        snprintf(quorum->view, sizeof quorum->view, "%d of %d, db %d: %s", quorum->needed, quorum->count, db, called);
        return;
    }
    for (int i = 0; i < quorum->count; i++)
        for (const char *at = quorum->node[i].store->text;; at++) {
            hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
            if (!*at)
                break;
        }
    dli_text_print(&view, "%d of %d, db %d: %016" PRIx64, quorum->needed, quorum->count, db, hash);
    for (int i = 0; i < quorum->count && view.size < 180; i++)
        dli_text_print(&view, " %.60s", quorum->node[i].store->text);
}

/* ---- the answer of a server */

/*
 * Whether the server is a new one again, within a second. All others are told of a new one, and until then no vote counts: a server
 * that were another one in each answer would keep them busy, and the quorum from its work. quorum.mutex held.
 */
static int is_unsteady(const struct dli_server *node, const struct dli_join *join, int64_t now)
{
    return node->quorum->named && node->before[0] && now - node->since < SECOND &&
           strcmp(node->run_id, join->run_id) != 0;
}

/* quorum.mutex held. */
static void learn(struct dli_server *node, const struct dli_join *join, int64_t now)
{
    node->began = now - join->up * SECOND;
    if (strcmp(node->run_id, join->run_id) == 0)
        return;
    node->since = now;
    memcpy(node->before, node->run_id, sizeof node->before);
    memcpy(node->run_id, join->run_id, sizeof node->run_id);
    if (node->quorum->named)
        __atomic_add_fetch(&node->quorum->known, 1, __ATOMIC_RELEASE);
}

/* quorum.mutex held. */
static void judge(struct dli_server *node, const struct dli_request *request, int64_t now)
{
    const struct dli_join *join = request->own;
    struct dli_quorum *quorum = node->quorum;
    const char *text = node->store->text;

    node->bad.code = DLOCK_OK;
    learn(node, join, now);
    if (join->sharded) {
        dli_fail(&node->bad, DLOCK_INVALID_QUORUM,
                 "%s is a shard of a cluster: name servers that know nothing of each other", text);
        return;
    }
    if (strcmp(join->stands, quorum->view) != 0) {
        dli_fail(&node->bad, DLOCK_INVALID_QUORUM,
                 "%s votes for clients with another view of the quorum (%.160s): give all clients the same servers, "
                 "quorum and quorum_name, or wait until those clients have gone",
                 text, join->shown);
        return;
    }
    for (int i = 0; i < quorum->count; i++)
        if (i != node->index && node->run_id[0] && strcmp(node->run_id, quorum->node[i].run_id) == 0)
            dli_fail(&node->bad, DLOCK_INVALID_QUORUM, "%s and %s are one server: name every server once",
                     quorum->node[i].store->text, text);
}

static void count_bad(struct dli_quorum *quorum)
{
    int bad = 0;

    for (int i = 0; i < quorum->count; i++)
        bad += quorum->node[i].bad.code != DLOCK_OK;
    __atomic_store_n(&quorum->bad_nodes, bad, __ATOMIC_RELEASE);
}

/* The server read its clock between the query and its answer. A slow answer is worse than an earlier one. */
static void note_clock(struct dli_membership *membership, int64_t now)
{
    int64_t took = now - membership->asked_at;

    if (membership->timed && took > SLOW)
        return;
    membership->timed = 1;
    membership->ahead = membership->join.clock - now + took / 2;
}

static int count_timed(const struct dli_lane *lane)
{
    int timed = 0;

    for (int i = 0; i < lane->quorum->count; i++)
        timed += lane->membership[i].timed;
    return timed;
}

int64_t dli_membership_clock(struct dli_lane *lane)
{
    int64_t ahead[DLI_VOTERS_MAX];
    int known = 0;

    if (lane->clock || count_timed(lane) < lane->quorum->needed)
        return lane->clock;
    for (int i = 0; i < lane->quorum->count; i++) {
        int at = known;

        if (!lane->membership[i].timed)
            continue;
        for (; at > 0 && ahead[at - 1] > lane->membership[i].ahead; at--)
            ahead[at] = ahead[at - 1];
        ahead[at] = lane->membership[i].ahead;
        known++;
    }
    if (known > 0)
        lane->clock = dli_now() + ahead[(known - 1) / 2];
    return lane->clock;
}

/* Judge an answer. *bad: the verdict. 0, or -1: the answer is not used, and the server is to be queried again, but not at once. */
static int take_answer(struct dli_server *node, const struct dli_request *request, int64_t now, dlock_error *bad)
{
    int unsteady;

    pthread_mutex_lock(&node->quorum->mutex);
    unsteady = is_unsteady(node, request->own, now);
    if (!unsteady) {
        judge(node, request, now);
        count_bad(node->quorum);
        *bad = node->bad;
    }
    pthread_mutex_unlock(&node->quorum->mutex);
    if (unsteady)
        dli_fail(bad, DLOCK_UNREACHABLE, "%s: it has another run id again within a second", node->store->text);
    return unsteady ? -1 : 0;
}

static void membership_answered(struct dli_request *request)
{
    struct dli_membership *membership = request->context;
    struct dli_server *node = &membership->lane->quorum->node[membership->index];
    int64_t now = dli_now();
    dlock_error bad;

    membership->querying = 0;
    membership->answered = 1;
    if (request->status == DLOCK_OK && take_answer(node, request, now, &bad)) {
        request->status = bad.code;
        membership->reason = bad;
    }
    if (request->status != DLOCK_OK) {
        if (membership->reason.code == DLOCK_OK)
            membership->reason.code = request->status;
        membership->failures = -1; /* the failure that caused the query is not over */
        return;
    }
    note_clock(membership, now);
    if (bad.code != DLOCK_OK && membership->good)
        node->quorum->store.hooks->log(node->quorum->store.owner, bad.code, bad.message);
    membership->good = bad.code == DLOCK_OK;
    membership->joined_at = now;
    membership->reason = bad;
}

static void tell_members(struct dli_lane *lane, int64_t now);

static void joined(struct dli_request *request)
{
    const struct dli_membership *membership = request->context;

    membership_answered(request);
    if (membership->lane->met)
        tell_members(membership->lane, dli_now());
    dli_election_round_judge(membership->lane, membership->index);
}

dlock_status dli_quorum_fits(struct dli_quorum *quorum, dlock_error *box)
{
    dlock_status status = DLOCK_OK;

    if (__atomic_load_n(&quorum->bad_nodes, __ATOMIC_ACQUIRE) == 0)
        return DLOCK_OK;
    pthread_mutex_lock(&quorum->mutex);
    for (int i = 0; i < quorum->count && status == DLOCK_OK; i++)
        if ((status = quorum->node[i].bad.code) != DLOCK_OK)
            dli_fail(box, status, "%s", quorum->node[i].bad.message);
    pthread_mutex_unlock(&quorum->mutex);
    return status;
}

/* ---- members */

int dli_membership_init(struct dli_lane *lane)
{
    struct dli_quorum *quorum = lane->quorum;

    for (int i = 0; i < quorum->count; i++) {
        struct dli_store *store = quorum->node[i].store;
        struct dli_membership *membership = &lane->membership[i];

        membership->lane = lane;
        membership->index = i;
        if (!(membership->request = store->ops->request_new(store)))
            return -1;
    }
    return 0;
}

void dli_membership_fini(struct dli_lane *lane)
{
    for (int i = 0; i < lane->quorum->count; i++)
        lane->quorum->node[i].store->ops->request_free(lane->membership[i].request);
}

/* What a server says of itself goes into a list only if it is a run id. */
static int is_id(const char *id)
{
    size_t size = strspn(id, "0123456789abcdefABCDEF");

    return size > 0 && !id[size];
}

/* The other servers, for a server of a quorum with a name. Two names of one server are one. */
static void list_members(struct dli_membership *membership, int64_t now)
{
    struct dli_quorum *quorum = membership->lane->quorum;
    struct dli_join *join = &membership->join;
    struct dli_text list = dli_text_in(join->members, sizeof join->members);

    pthread_mutex_lock(&quorum->mutex);
    membership->told = __atomic_load_n(&quorum->known, __ATOMIC_ACQUIRE);
    for (int i = 0; i < quorum->count; i++) {
        const struct dli_server *node = &quorum->node[i];
        int64_t age = now > node->began ? (now - node->began) / SECOND : 0;

        if (i != membership->index && is_id(node->run_id))
            dli_text_print(&list, "%s %lld %s\n", node->run_id, (long long)age,
                           is_id(node->before) ? node->before : "-");
    }
    pthread_mutex_unlock(&quorum->mutex);
    join->others = quorum->count - 1;
}

static void query(struct dli_membership *membership, int64_t now)
{
    struct dli_quorum *quorum = membership->lane->quorum;
    struct dli_server *node = &quorum->node[membership->index];
    struct dli_request *request = membership->request;

    membership->querying = 1;
    membership->asked_at = now;
    membership->failures = __atomic_load_n(&node->failures, __ATOMIC_RELAXED);
    membership->reason.code = DLOCK_OK;
    request->verb = DLI_VERB_JOIN;
    request->own = &membership->join;
    membership->join.view = quorum->view;
    membership->join.space = quorum->space;
    membership->join.keep_ms = __atomic_load_n(&quorum->keep_ms, __ATOMIC_RELAXED);
    if (quorum->named)
        list_members(membership, now);
    request->deadline = now + quorum->patience;
    request->repeatable = 1;
    request->done = joined;
    request->context = membership;
    request->reason = &membership->reason;
    membership->lane->stirred = 1;
    request->status = node->store->ops->push(membership->lane->lane[membership->index], request);
    if (request->status == DLOCK_OK)
        return;
    membership_answered(request); /* the caller may be walking the rounds: dli_membership_judge tells them later */
    membership->lane->failed_queries |= 1U << membership->index;
}

void dli_membership_judge(struct dli_lane *lane)
{
    unsigned failed_queries = lane->failed_queries;

    lane->failed_queries = 0;
    for (int i = 0; i < lane->quorum->count; i++)
        if (failed_queries >> i & 1)
            dli_election_round_judge(lane, i);
}

void dli_membership_last(struct dli_quorum *quorum, int64_t lease)
{
    int64_t wanted = 2 * lease / MS, keep = __atomic_load_n(&quorum->keep_ms, __ATOMIC_RELAXED);

    while (keep < wanted &&
           !__atomic_compare_exchange_n(&quorum->keep_ms, &keep, wanted, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

static int is_told(const struct dli_membership *membership)
{
    return membership->told == __atomic_load_n(&membership->lane->quorum->known, __ATOMIC_ACQUIRE);
}

int dli_membership_votes(const struct dli_membership *membership)
{
    const struct dli_server *node = &membership->lane->quorum->node[membership->index];

    return membership->good && is_told(membership) &&
           membership->failures == __atomic_load_n(&node->failures, __ATOMIC_RELAXED);
}

/* Tell the members of the others. */
static void tell_members(struct dli_lane *lane, int64_t now)
{
    for (int i = 0; i < lane->quorum->count; i++) {
        struct dli_membership *membership = &lane->membership[i];

        if (!membership->querying && membership->good && !is_told(membership))
            query(membership, now);
    }
}

void dli_membership_query(struct dli_lane *lane, int64_t now)
{
    int64_t keep = __atomic_load_n(&lane->quorum->keep_ms, __ATOMIC_RELAXED) * MS;

    for (int i = 0; i < lane->quorum->count; i++) {
        struct dli_membership *membership = &lane->membership[i];
        int64_t failures = __atomic_load_n(&lane->quorum->node[i].failures, __ATOMIC_RELAXED);

        if (now - membership->joined_at > keep)
            membership->good = 0; /* the server may keep another view by now */
        if (!membership->querying && (!membership->good || !is_told(membership) || membership->failures != failures ||
                                      now - membership->joined_at > keep / 3))
            query(membership, now);
    }
}

static int count_answered(const struct dli_lane *lane)
{
    int answered = 0;

    for (int i = 0; i < lane->quorum->count; i++)
        answered += lane->membership[i].answered;
    return answered;
}

static int is_querying(const struct dli_lane *lane)
{
    for (int i = 0; i < lane->quorum->count; i++)
        if (lane->membership[i].querying)
            return 1;
    return 0;
}

int dli_membership_met(struct dli_lane *lane, int64_t since, int64_t deadline, int64_t now, int64_t *at)
{
    int had_met = lane->met, querying;

    *at = since + (deadline - since) / 2;
    if (count_answered(lane) == lane->quorum->count || now >= *at)
        lane->met = 1;
    if (lane->met && !had_met)
        tell_members(lane, now); /* before the votes, on the same connections */
    querying = is_querying(lane);
    if (lane->met && !querying)
        lane->told = 1;
    if (!lane->met || (lane->quorum->named && !lane->told && now < *at))
        return 0;
    return count_timed(lane) >= lane->quorum->needed || !querying || now >= *at;
}
