/*
 * sim_owner.c: callers of the library: threads that acquire, hold, write to a fenced resource, re-enter, release,
 * cancel, and learn of losses. See sim.h.
 */
#include "sim.h"

#include <inttypes.h>

enum { OWNER_BASE = 1000 };

void sim_owner_wake(struct sim *s, struct sim_owner *owner, int64_t after)
{
    owner->version++;
    sim_at(s, s->now + after, SIM_OWNER, owner->peer, owner->version, owner);
}

void sim_owner_start(struct sim *s, struct sim_peer *peer)
{
    for (int i = 0; i < s->plan.owners; i++) {
        struct sim_owner *owner = &peer->owner[i];

        owner->peer = peer->index;
        owner->index = i;
        sim_owner_wake(s, owner, sim_below(s, s->plan.think));
    }
}

static struct dli_mutex *machine(struct sim *s, const struct sim_owner *owner)
{
    return &s->peer[owner->peer].side[owner->lock].m;
}

static void go_idle(struct sim *s, struct sim_owner *owner)
{
    owner->state = SIM_IDLE;
    owner->claim = NULL;
    owner->blind = 0;
    sim_owner_wake(s, owner, sim_below(s, s->plan.think));
}

/* ---- acquiring */

struct sim_claim *sim_make_claim(struct sim *s, const struct sim_owner *owner)
{
    struct sim_claim *claim = sim_alloc(s, sizeof *claim);
    int64_t now = sim_clock(s, &s->peer[owner->peer]), kind = sim_below(s, 10);

    claim->peer = owner->peer;
    claim->lock = owner->lock;
    claim->owner = owner->index;
    claim->asked_at = s->now;
    claim->c.owner = OWNER_BASE + owner->index;
    claim->c.until = kind < 2 ? now : kind < 5 ? now + sim_between(s, 10 * SIM_MS, 3 * SIM_SECOND) : DLI_NEVER;
    claim->c.patient = kind >= 2;
    claim->c.lease = s->plan.lease[sim_below(s, SIM_LEASES)];
    claim->c.renew = sim_percent(s, s->plan.renew) != 0;
    if (s->world == SIM_SEMAPHORE)
        claim->c.lease = DLI_NEVER;
    claim->limits.linger = s->plan.linger;
    claim->limits.max_hold = sim_percent(s, 5) ? sim_between(s, SIM_MS, s->plan.hold) : DLI_NEVER;
    claim->c.limits = &claim->limits;
    dli_list_init(&claim->c.link);
    dli_list_init(&claim->c.report);
    return claim;
}

static void ask(struct sim *s, struct sim_owner *owner)
{
    struct sim_peer *peer = &s->peer[owner->peer];
    struct sim_claim *claim;

    if (!s->working && !owner->same_lock)
        return;
    if (!owner->same_lock)
        owner->lock = sim_kinds_side(s, owner);
    owner->same_lock = 0;
    claim = sim_make_claim(s, owner);
    owner->claim = claim;
    owner->state = SIM_ASKING;
    owner->levels = 0;
    owner->cancels = sim_percent(s, s->plan.cancel);
    sim_trace(s, "peer %d owner %d asks for %s, %s", peer->index, owner->index, s->lock[owner->lock].name,
              !claim->c.patient             ? "no wait"
              : claim->c.until == DLI_NEVER ? "for ever"
                                            : "for a while");
    if (dli_mutex_acquire(machine(s, owner), &claim->c, sim_clock(s, peer)) != &claim->c)
        sim_violated(s, "claims: peer %d owner %d has an older claim", owner->peer, owner->index);
    s->stats.lingered += claim->c.handed;
    sim_service(s, peer, owner->lock);
    if (owner->claim != claim || owner->state != SIM_ASKING)
        return;
    if (owner->cancels)
        sim_owner_wake(s, owner, sim_below(s, 2 * s->plan.hold));
    else if (claim->c.until != DLI_NEVER)
        sim_owner_wake(s, owner, sim_when(s, peer, claim->c.until) - s->now);
}

/* An interrupted caller resumes its wait: the older claim must count for it. */
static void ask_again(struct sim *s, struct sim_owner *owner)
{
    struct sim_claim *fresh = sim_make_claim(s, owner), *claim = owner->claim;
    struct sim_peer *peer = &s->peer[owner->peer];

    fresh->c.until = claim->c.until;
    if (dli_mutex_acquire(machine(s, owner), &fresh->c, sim_clock(s, peer)) != &claim->c)
        sim_violated(s, "claims: peer %d owner %d lost its place by asking again", owner->peer, owner->index);
    sim_service(s, peer, owner->lock);
}

static void stop_waiting(struct sim *s, struct sim_owner *owner)
{
    struct sim_peer *peer = &s->peer[owner->peer];
    struct sim_claim *claim = owner->claim;

    if (claim->c.state == DLI_CLAIM_WAITING && sim_percent(s, 20))
        ask_again(s, owner);
    if (claim->c.state != DLI_CLAIM_WAITING)
        return;
    sim_trace(s, "peer %d owner %d stops waiting", owner->peer, owner->index);
    dli_mutex_give_up(machine(s, owner), &claim->c, owner->cancels ? DLOCK_CANCELLED : DLOCK_TIMED_OUT,
                      sim_clock(s, peer));
    sim_service(s, peer, owner->lock);
}

/* ---- holding */

/* sure: the owner has just been told that it holds the lock. */
static void write_resource(struct sim *s, const struct sim_owner *owner, int sure)
{
    struct sim_lock *lock = &s->lock[owner->lock];

    if (sim_shared(s))
        return;
    s->stats.writes++;
    if (owner->claim->token >= lock->resource) {
        lock->resource = owner->claim->token;
        return;
    }
    s->stats.refused_writes++;
    if (sure && !sim_number(s, &s->peer[owner->peer], owner->claim->number)->forced)
        sim_violated(s, "fencing: peer %d holds %s with token %" PRId64 ", the resource has seen %" PRId64, owner->peer,
                     lock->name, owner->claim->token, lock->resource);
}

static void re_enter(struct sim *s, struct sim_owner *owner)
{
    struct sim_peer *peer = &s->peer[owner->peer];
    struct dli_claim *claim = &owner->claim->c;
    struct sim_claim *fresh = sim_make_claim(s, owner);

    if (sim_percent(s, 50) && dli_mutex_reenter(machine(s, owner), claim->owner, sim_clock(s, peer)) != claim)
        sim_violated(s, "claims: peer %d owner %d cannot re-enter", owner->peer, owner->index);
    else if (claim->count == owner->levels &&
             dli_mutex_acquire(machine(s, owner), &fresh->c, sim_clock(s, peer)) != claim)
        sim_violated(s, "claims: peer %d owner %d cannot acquire again", owner->peer, owner->index);
    owner->levels++;
    if (claim->token != owner->claim->token || claim->count != owner->levels)
        sim_violated(s, "fencing: re-entry changed token %" PRId64 " to %" PRId64 ", count %d", owner->claim->token,
                     claim->token, claim->count);
}

static dlock_status release_once(struct sim *s, struct sim_owner *owner, struct dli_claim **settled)
{
    int64_t now = sim_clock(s, &s->peer[owner->peer]), until = now + 3 * SIM_SECOND;
    struct dli_claim *claim = &owner->claim->c;
    dlock_status status = DLOCK_WOULD_BLOCK;

    if (sim_pass(s, owner)) {
        *settled = claim;
        return DLOCK_OK;
    }
    if (sim_percent(s, 50))
        status = dli_mutex_release(machine(s, owner), claim->owner, now, until, 0, settled);
    if (status == DLOCK_WOULD_BLOCK)
        status = dli_mutex_release(machine(s, owner), claim->owner, now, until, 1, settled);
    return status;
}

static void release(struct sim *s, struct sim_owner *owner)
{
    struct sim_peer *peer = &s->peer[owner->peer];
    struct sim_claim *claim = owner->claim;
    struct dli_claim *settled = NULL;
    dlock_status status = release_once(s, owner, &settled);

    sim_trace(s, "peer %d owner %d releases: %d", owner->peer, owner->index, status);
    owner->levels--;
    if (status == DLOCK_NOT_HELD || (settled != NULL) != (owner->levels == 0) || (settled && settled != &claim->c))
        sim_violated(s, "claims: release of peer %d owner %d at level %d says %d", owner->peer, owner->index,
                     owner->levels, status);
    if (settled && status != DLOCK_LOST)
        sim_check_released(s, claim);
    if (settled && status == DLOCK_WOULD_BLOCK)
        owner->state = SIM_LEAVING;
    sim_service(s, peer, owner->lock);
    if (settled && status != DLOCK_WOULD_BLOCK)
        go_idle(s, owner);
    else if (!settled)
        sim_owner_wake(s, owner, sim_below(s, SIM_MS));
}

static void lost(struct sim *s, struct sim_owner *owner)
{
    write_resource(s, owner, 0);
    if (s->working && sim_percent(s, 30)) {
        owner->same_lock = 1;
        go_idle(s, owner);
    } else {
        release(s, owner);
    }
}

static void hold(struct sim *s, struct sim_owner *owner)
{
    struct sim_peer *peer = &s->peer[owner->peer];
    int32_t state;

    if (owner->blind)
        write_resource(s, owner, 0);
    owner->blind = 0;
    state = dli_mutex_state(machine(s, owner), owner->claim->c.owner, sim_clock(s, peer));
    sim_service(s, peer, owner->lock);
    if (owner->state != SIM_HOLDING)
        return;
    if (state == DLOCK_STATE_LOST) {
        lost(s, owner);
        return;
    }
    if (state != DLOCK_STATE_HELD && state != DLOCK_STATE_AT_RISK)
        sim_violated(s, "claims: peer %d owner %d holds, but its state is %d", owner->peer, owner->index, state);
    write_resource(s, owner, 1);
    if (sim_fault(s, SIM_PAUSE_HOLD)) {
        sim_pause(s, peer, s->now + sim_below(s, 3 * s->plan.lease_max));
        owner->blind = 1;
    } else if (sim_percent(s, 10)) {
        re_enter(s, owner);
    } else if (sim_percent(s, s->plan.operations)) {
        if (owner->levels == 1 && s->now < s->plan.faults_end && sim_percent(s, 50))
            sim_export(s, owner);
        else
            sim_extend(s, owner);
    } else if (s->now >= owner->hold_until) {
        release(s, owner);
        return;
    }
    sim_owner_wake(s, owner, s->plan.hold / 8 + sim_below(s, s->plan.hold / 2));
}

/* ---- reports of the library */

void sim_owner_told(struct sim *s, struct sim_claim *claim)
{
    struct sim_owner *owner = &s->peer[claim->peer].owner[claim->owner];

    if (owner->claim != claim)
        return;
    if (claim->c.state == DLI_CLAIM_HELD && owner->state == SIM_ASKING) {
        owner->state = SIM_HOLDING;
        owner->levels = 1;
        owner->hold_until =
            s->now +
            sim_below(s, s->now < s->plan.faults_end && sim_percent(s, 5) ? 3 * s->plan.lease_max : s->plan.hold);
        sim_owner_wake(s, owner, sim_below(s, SIM_MS / 5));
    } else if (claim->c.state == DLI_CLAIM_DONE && owner->state != SIM_HOLDING) {
        sim_trace(s, "peer %d owner %d is done: %d", owner->peer, owner->index, claim->c.result);
        go_idle(s, owner);
    } else if (claim->c.state == DLI_CLAIM_LOST && sim_percent(s, 50)) {
        sim_owner_wake(s, owner, sim_below(s, SIM_MS));
    }
}

void sim_owner_step(struct sim *s, struct sim_owner *owner)
{
    if (owner->state == SIM_IDLE)
        ask(s, owner);
    else if (owner->state == SIM_ASKING)
        stop_waiting(s, owner);
    else if (owner->state == SIM_HOLDING)
        hold(s, owner);
}
