/*
 * sim_check.c: the rules about the server and the processes' beliefs, checked after every script and every event.
 *
 *   ownership  a field of the lock's hash disappears by its owner's release, by force or by expiry; nobody else's
 * request changes its TTL, and ours only make it longer
 *   fencing    tokens reserved for a lock only go up
 *   exclusion  a process that believes it holds (and is awake) owns the key on the server, and is the only one
 *   deadline   no process will trust its grant for longer than the server keeps it in the current state
 *   forgotten  a number that the server has granted is one that its process still wants or drops
 *   ghost      no number is on the server unbelieved by its live process for longer than an undo takes, or lingers
 *   idle lock  in calm times a lock is not free while somebody waits, except for a moment
 *   liveness   in calm times every waiter is served in the end
 */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE_MS = 300 };

struct sim_number *sim_number(struct sim *s, struct sim_peer *peer, int64_t number)
{
    (void)s;
    if (number >= peer->number_room) {
        int64_t room = 2 * number + 256;

        peer->number = realloc(peer->number, (size_t)room * sizeof *peer->number);
        if (!peer->number)
            exit(2);
        memset(peer->number + peer->number_room, 0, (size_t)(room - peer->number_room) * sizeof *peer->number);
        peer->number_room = room;
    }
    return &peer->number[number];
}

/* ---- after a script */

/* Whether the request may end the hold in seen. */
static int may_end(const struct sim_request *request, const struct sim_seen *seen)
{
    if (request->kind == SIM_FORCED)
        return 1;
    if (request->peer != seen->peer)
        return 0;
    return request->kind == SIM_RED_RELEASE ? request->number == seen->number
                                            : request->kind == SIM_EXCHANGE && request->wish.drop == seen->number;
}

static int may_extend(const struct sim_request *request, const struct sim_seen *seen)
{
    if (request->peer != seen->peer)
        return 0;
    if (request->kind == SIM_EXCHANGE)
        return request->wish.want == seen->number;
    if (request->kind >= SIM_RED_ACQUIRE)
        return request->number == seen->number;
    for (int i = 0; request->kind == SIM_RENEW && i < request->rows; i++)
        if (request->row[i].number == seen->number)
            return 1;
    return 0;
}

static int is_giver(const struct sim_request *request, const struct sim_seen *seen)
{
    return seen->peer == request->from_peer && seen->number == request->from_number;
}

/* One of the numbers that the request adopts with, or whose adoption it undoes. */
static int is_heir(const struct sim_request *request, const struct sim_seen *seen)
{
    int64_t last = request->operation ? request->row[0].number : request->wish.drop;
    int64_t first = request->operation ? request->row[0].first : request->wish.first;

    return seen->peer == request->peer && seen->number >= first && seen->number <= last;
}

/* Whether the request moved a hold from one to the other: to an adopter, or back. */
static int moved(const struct sim_request *request, const struct sim_seen *before, const struct sim_seen *after)
{
    if (request->operation == SIM_OPERATION_ADOPT)
        return (is_giver(request, before) || is_heir(request, before)) && after->peer == request->peer &&
               after->number == request->row[0].number;
    return request->kind == SIM_EXCHANGE && request->wish.first && is_heir(request, before) && is_giver(request, after);
}

/* A grant that goes back to its giver is on the server unbelieved until somebody adopts it. */
static void gone_back(struct sim *s, const struct sim_request *request)
{
    if (request->wish.first)
        sim_number(s, &s->peer[request->from_peer], request->from_number)->excused = s->now + 3 * s->plan.lease_max;
    else if (sim_number(s, &s->peer[request->peer], request->row[0].number)->buried)
        sim_violated(s, "stray: peer %d adopts as %" PRId64 ", which was given up", request->peer,
                     request->row[0].number);
}

static void reserved(struct sim *s, struct sim_lock *lock, struct sim_number *number, int64_t last)
{
    number->last = last;
    if (last <= lock->fence_max)
        sim_violated(s, "fencing: %s is granted with token %" PRId64 ", %" PRId64 " was reserved before", lock->name,
                     last, lock->fence_max);
    lock->fence_max = last;
}

static void new_owner(struct sim *s, int index, const struct sim_seen *seen)
{
    struct sim_lock *lock = &s->lock[index];
    struct sim_peer *peer = &s->peer[seen->peer];
    struct sim_number *number = sim_number(s, peer, seen->number);
    int64_t block = peer->foreign ? 1 : s->plan.rules.handover_turns + 1;

    s->stats.wire_grants += !peer->foreign;
    if (number->buried && !peer->foreign)
        sim_violated(s, "stray: %s goes to peer %d as %" PRId64 ", whose release was answered", lock->name, seen->peer,
                     seen->number);
    if (number->exported)
        sim_violated(s, "stray: %s goes to peer %d as %" PRId64 ", which was exported", lock->name, seen->peer,
                     seen->number);
    lock->unbelieved_since = 0;
    if (peer->foreign && !s->plan.fenced)
        return;
    number->lock = index;
    number->first = seen->fence - block + 1;
    if (number->first <= lock->fence_max) /* then fewer are reserved */
        number->first = lock->fence_max + 1;
    reserved(s, lock, number, seen->fence);
}

/* A request that runs after its client gave it up may leave a number that nobody knows. */
static void excuse(struct sim *s, const struct sim_request *request, int64_t which, int lock)
{
    struct sim_number *number = sim_number(s, &s->peer[request->peer], which);

    number->lock = lock;
    if (request->copy || request->done)
        number->excused = s->now + 2 * dli_mutex_beat(&s->peer[0].side[0].m) + 3 * s->plan.lease_max;
}

static void note_request(struct sim *s, const struct sim_request *request)
{
    if (request->kind == SIM_EXCHANGE && request->wish.want)
        excuse(s, request, request->wish.want, request->lock);
    for (int i = 0; request->kind == SIM_RENEW && i < request->rows; i++)
        excuse(s, request, request->row[i].number, request->row[i].lock);
}

static int same_owner(const struct sim_seen *a, const struct sim_seen *b)
{
    return a->peer == b->peer && a->number == b->number;
}

void sim_check_script(struct sim *s, const struct sim_request *request, int index, struct sim_seen before)
{
    struct sim_lock *lock = &s->lock[index];
    struct sim_seen after = sim_look(s, index);
    int ours = request->kind <= SIM_FORCED, same = same_owner(&before, &after),
        adopted = moved(request, &before, &after);

    note_request(s, request);
    if (before.peer >= 0 && !same && !adopted && !may_end(request, &before))
        sim_violated(s, "ownership: a request of peer %d ends what peer %d holds as %" PRId64 " on %s", request->peer,
                     before.peer, before.number, lock->name);
    if (before.peer >= 0 && (same || adopted) && before.expires != after.expires) {
        if (!adopted && !may_extend(request, &before))
            sim_violated(s, "ownership: a request of peer %d changes the TTL of peer %d on %s", request->peer,
                         before.peer, lock->name);
        if (ours && after.expires < before.expires)
            sim_violated(s, "ownership: peer %d makes its lease on %s shorter", request->peer, lock->name);
    }
    /* A holder's command adds a millisecond where it does not make the lease longer, see extend.lua. After a stall many
     * of them may run in one millisecond. */
    if (after.peer >= 0 && after.expires > s->store.now / SIM_MS + s->plan.lease_max / SIM_MS + SPARE_MS)
        sim_violated(s, "wire: the TTL of %s is longer than any lease", lock->name);
    if (after.fence < before.fence)
        sim_violated(s, "fencing: the counter of %s goes back", lock->name);
    if (same && after.peer >= 0 && after.fence != before.fence) /* it acquired again, and the counter was gone */
        reserved(s, lock, sim_number(s, &s->peer[after.peer], after.number), after.fence);
    else if (adopted && !same) {
        lock->unbelieved_since = 0;
        gone_back(s, request);
    } else if (after.peer >= 0 && !same)
        new_owner(s, index, &after);
    lock->seen = after;
}

/* ---- after an event */

/* The number by which a peer believes it holds the lock; 0: none. */
static int64_t belief(const struct sim *s, const struct sim_peer *peer, int index)
{
    const struct dli_mutex *m = &peer->side[index].m;
    const struct sim_redisson *red = &peer->red;

    if (!peer->foreign)
        return m->holder ? m->want.number : 0;
    if (red->state == SIM_RED_HOLDING && red->lock == index && red->believed && sim_clock(s, peer) < red->valid_until)
        return red->thread;
    return 0;
}

static void check_belief(struct sim *s, int index, const struct sim_seen *seen)
{
    const struct sim_lock *lock = &s->lock[index];
    int believers = 0;

    for (int i = 0; i < s->plan.procs + s->plan.foreign; i++) {
        struct sim_peer *peer = &s->peer[i];
        int64_t number = peer->alive ? belief(s, peer, index) : 0;

        if (!number || sim_paused(s, peer))
            continue;
        if (sim_number(s, peer, number)->forced) {
            sim_check_told(s, peer, sim_number(s, peer, number), seen->peer == i && seen->number == number);
            continue;
        }
        if (++believers > 1)
            sim_violated(s, "exclusion: two peers, one is %d, believe that they hold %s", i, lock->name);
        if (seen->peer != i || seen->number != number)
            sim_violated(
                s, "exclusion: peer %d believes that it holds %s as %" PRId64 ", the server says peer %d as %" PRId64,
                i, lock->name, number, seen->peer, seen->number);
        else if (!peer->foreign && sim_when(s, peer, peer->side[index].m.grant.limit) > sim_expiry(s, seen->expires))
            sim_violated(s, "deadline: peer %d will trust its grant of %s longer than the server keeps it", i,
                         lock->name);
    }
}

static int64_t later_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void check_ghost(struct sim *s, int index, const struct sim_seen *seen)
{
    struct sim_lock *lock = &s->lock[index];
    struct sim_peer *peer = &s->peer[seen->peer];
    int64_t since, undo = 350 * SIM_MS + 8 * s->plan.delay + 2 * s->plan.late + s->plan.linger;

    if (peer->foreign || !peer->alive)
        return;
    if (belief(s, peer, index) == seen->number) {
        lock->unbelieved_since = 0;
        return;
    }
    if (s->now > sim_number(s, peer, seen->number)->excused && seen->number != peer->side[index].m.want.number &&
        seen->number != peer->side[index].m.active->drop.number)
        sim_violated(s, "forgotten: %s belongs to peer %d as %" PRId64 ", which neither wants nor drops it", lock->name,
                     seen->peer, seen->number);
    if (!lock->unbelieved_since)
        lock->unbelieved_since = s->now;
    since = later_of(later_of(lock->unbelieved_since, peer->disturbed_until), s->server_disturbed);
    since = later_of(since, sim_number(s, peer, seen->number)->excused);
    if (s->now - since > undo)
        sim_violated(s, "ghost: %s belongs to peer %d as %" PRId64 ", which does not know it since %" PRId64,
                     lock->name, seen->peer, seen->number, lock->unbelieved_since);
}

/*
 * Since when a patient waiter waits for the lock; only_ever: without a limit of its own. DLI_NEVER: nobody waits. A
 * foreign client gets no message when a lock expires: it waits for the lease that it saw.
 */
static int64_t waiting_since(const struct sim *s, int index, int only_ever, int foreign)
{
    int64_t since = DLI_NEVER;

    for (int i = 0; i < s->plan.procs + s->plan.foreign; i++) {
        const struct sim_peer *peer = &s->peer[i];
        const struct sim_redisson *red = &peer->red;
        const struct dli_link *list;

        if (!peer->alive || (peer->foreign && !foreign))
            continue;
        if (peer->foreign && red->lock == index && red->state >= SIM_RED_TRYING && red->state <= SIM_RED_WAITING &&
            (!only_ever || red->wait_until == DLI_NEVER) && red->asked_at < since)
            since = red->asked_at;
        if (peer->foreign)
            continue;
        list = &peer->side[index].m.active->waiting;
        for (const struct dli_link *link = list->next; link != list; link = link->next) {
            const struct sim_claim *claim = DLI_OBJECT(link, struct sim_claim, c.link);

            if (claim->c.patient && (!only_ever || claim->c.until == DLI_NEVER) && claim->asked_at < since)
                since = claim->asked_at;
        }
    }
    return since;
}

/*
 * Everybody before us in line has a turn: at most all owners of all processes and the foreign clients. A turn consists
 * of the hand-overs of a process and one hold (an owner's random steps make it up to half longer), the way to the next
 * one, a foreign client's grace, and late timers. Of the turns that it shares with our line a foreign client has one.
 */
int64_t sim_patience(const struct sim *s)
{
    const struct sim_plan *plan = &s->plan;
    int64_t turns = (plan->owners + 1) * (plan->procs + plan->foreign);
    int64_t turn =
        plan->hold * 3 / 2 + plan->rules.handover_time + 8 * plan->delay + plan->grace + 2 * plan->late + 50 * SIM_MS;

    return turns * turn + plan->lease_max + plan->rules.safety;
}

static void check_waiting(struct sim *s, int index, const struct sim_seen *seen)
{
    struct sim_lock *lock = &s->lock[index];
    int64_t idle = 100 * SIM_MS + s->plan.grace + 6 * s->plan.delay + 2 * s->plan.late, since;
    int64_t settled = later_of(s->calm_from, s->plan.faults_end + 3 * s->plan.lease_max);

    if (seen->peer < 0 && s->now > s->calm_from) {
        since = waiting_since(s, index, 0, !lock->expired);
        if (since != DLI_NEVER && s->now - later_of(later_of(since, lock->free_since), s->calm_from) > idle)
            sim_violated(s, "idle lock: %s is free since %" PRId64 ", somebody waits since %" PRId64, lock->name,
                         lock->free_since, since);
    }
    if (s->now <= settled)
        return;
    since = waiting_since(s, index, 1, 1);
    if (since != DLI_NEVER && s->now - later_of(since, settled) > sim_patience(s))
        sim_violated(s, "liveness: somebody waits for %s since %" PRId64, lock->name, since);
}

void sim_check_step(struct sim *s)
{
    int64_t clock = sim_server_clock(s) / SIM_MS;

    if (sim_shared(s)) {
        sim_kinds_step(s);
        return;
    }
    for (int i = 0; i < s->plan.locks; i++) {
        struct sim_lock *lock = &s->lock[i];
        struct sim_seen *seen = &lock->seen;

        if (seen->peer >= 0 && clock > seen->expires) {
            lock->free_since = sim_expiry(s, seen->expires);
            lock->expired = 1;
            seen->peer = -1;
        } else if (seen->peer >= 0) {
            lock->free_since = 0;
            lock->expired = 0;
        } else if (!lock->free_since) {
            lock->free_since = s->now;
        }
        check_belief(s, i, seen);
        if (seen->peer >= 0)
            check_ghost(s, i, seen);
        check_waiting(s, i, seen);
    }
}
