/*
 * mutex.c: the owners' requests, and the order among them. See mutex.h.
 */
#include "mutex.h"

#include <string.h>

void dli_mutex_init(struct dli_mutex *m, const struct dli_mutex_rules *rules, uint64_t seed)
{
    memset(m, 0, sizeof *m);
    m->rules = rules;
    m->noise = seed | 1;
    dli_active_init(m);
}

int64_t dli_mutex_mint(struct dli_mutex *m)
{
    return __atomic_add_fetch(m->rules->numbers, m->rules->permits > 1 ? m->rules->permits : 1, __ATOMIC_RELAXED);
}

int64_t dli_mutex_jitter(struct dli_mutex *m, int64_t range)
{
    m->noise ^= m->noise << 13;
    m->noise ^= m->noise >> 7;
    m->noise ^= m->noise << 17;
    return range > 0 ? (int64_t)(m->noise % (uint64_t)range) : 0;
}

void dli_mutex_begin_waiting(struct dli_mutex *m, struct dli_claim *claim)
{
    claim->state = DLI_CLAIM_WAITING;
    claim->after = m->probe_seq;
    m->waiters++;
    m->active->loose += !claim->bound;
    m->active->hasty += !claim->patient;
    if (!claim->patient)
        dli_list_append(&m->active->tries, &claim->report);
    dli_list_append(&m->active->waiting, &claim->link);
    dli_owners_add(m, claim);
}

static void end_waiting(struct dli_mutex *m, struct dli_claim *claim)
{
    m->waiters--;
    claim->token = 0;
    m->active->loose -= !claim->bound;
    m->active->hasty -= !claim->patient;
    dli_list_remove(&claim->report);
    dli_list_remove(&claim->link);
    dli_owners_remove(m, claim);
}

void dli_mutex_loosen(struct dli_mutex *m, struct dli_claim *claim)
{
    m->active->loose += claim->bound && claim->state == DLI_CLAIM_WAITING;
    claim->bound = 0;
}

/* A lost claim is one no more. */
static void forget(struct dli_mutex *m, struct dli_claim *claim)
{
    dli_ring_remove(&m->lost, &claim->link);
    dli_owners_remove(m, claim);
}

/* The claim has ended with result; the caller of the engine takes it from done. */
void dli_mutex_settle(struct dli_mutex *m, struct dli_claim *claim, dlock_status result)
{
    if (claim->state == DLI_CLAIM_WAITING)
        end_waiting(m, claim);
    if (claim->state == DLI_CLAIM_LOST)
        forget(m, claim);
    if (m->active->leaving == claim)
        m->active->leaving = NULL;
    if (m->holder == claim)
        m->holder = NULL;
    dli_ring_remove(&m->done, &claim->link);
    claim->state = DLI_CLAIM_DONE;
    claim->result = result;
    dli_ring_append(&m->done, &claim->link);
}

/* The waiting claim, or the one that is not patient, that came first. NULL: there is none. */
static struct dli_claim *first_waiting(const struct dli_mutex *m, int impatient_only)
{
    if (impatient_only)
        return m->active->hasty > 0 ? DLI_OBJECT(m->active->tries.next, struct dli_claim, report) : NULL;
    return m->waiters > 0 ? DLI_OBJECT(m->active->waiting.next, struct dli_claim, link) : NULL;
}

/* End the claims that came before probe seq: they are the first ones. */
static void end_waiting_before(struct dli_mutex *m, dlock_status status, int impatient_only, int64_t seq)
{
    struct dli_claim *claim;

    while ((claim = first_waiting(m, impatient_only)) && claim->after < seq)
        dli_mutex_settle(m, claim, status);
}

void dli_mutex_end_waiting(struct dli_mutex *m, dlock_status status, int impatient_only)
{
    end_waiting_before(m, status, impatient_only, INT64_MAX);
}

void dli_mutex_end_answered(struct dli_mutex *m, dlock_status status, int impatient_only)
{
    end_waiting_before(m, status, impatient_only, m->active->sent.wish.seq);
}

struct dli_claim *dli_mutex_find(const struct dli_mutex *m, int64_t owner)
{
    struct dli_claim *claim;

    if (m->holder && m->holder->owner == owner)
        return m->holder;
    if ((claim = dli_owners_waiting(m, owner)))
        return claim;
    return dli_owners_lost(m, owner);
}

struct dli_claim *dli_mutex_reenter(struct dli_mutex *m, int64_t owner, int64_t now)
{
    dli_mutex_tick(m, now);
    if (!m->holder || m->holder->owner != owner || m->closed)
        return NULL;
    m->holder->count++;
    return m->holder;
}

/* A loss is forgotten when its owner acquires again. */
static void forget_lost(struct dli_mutex *m, int64_t owner)
{
    struct dli_claim *claim;

    while ((claim = dli_owners_lost(m, owner)))
        dli_mutex_settle(m, claim, DLOCK_LOST);
}

/* A claim waits from now on. A try needs a probe of its own: one that is in flight already does not answer it. */
static void begin(struct dli_mutex *m, struct dli_claim *claim, int64_t now)
{
    dli_mutex_begin_waiting(m, claim);
    if (m->handover.linger_until)
        dli_mutex_take_up(m, now);
    else if (m->waiters == 1 || m->active->failure != DLOCK_OK || !claim->patient)
        m->active->probe_at = m->active->want_at = now;
    if (!claim->patient)
        m->active->again = now;
}

struct dli_claim *dli_mutex_acquire(struct dli_mutex *m, struct dli_claim *claim, int64_t now)
{
    struct dli_claim *older = dli_mutex_reenter(m, claim->owner, now);

    if (older)
        return older;
    if (!m->closed && (!claim->bound || m->active->loose > 0) && (older = dli_owners_waiting(m, claim->owner)))
        return older;
    forget_lost(m, claim->owner);
    claim->state = DLI_CLAIM_IDLE;
    claim->count = 0;
    claim->handed = 0;
    if (m->closed) {
        dli_mutex_settle(m, claim, DLOCK_CLOSED);
    } else if (m->holder && now < m->active->gate_until) {
        dli_mutex_settle(m, claim, DLOCK_GATE_CLOSED);
    } else if (!claim->patient && !m->rules->momentary && (m->holder || m->waiters > 0)) {
        dli_mutex_settle(m, claim, DLOCK_BUSY);
    } else if (dli_active_make(m)) {
        dli_mutex_settle(m, claim, DLOCK_OUT_OF_MEMORY);
    } else {
        begin(m, claim, now);
    }
    return claim;
}

/* A lease that is not renewed lasts no longer than the claim requests, also when others requested a longer one. */
int64_t dli_mutex_use_until(const struct dli_mutex *m, const struct dli_claim *claim)
{
    int64_t own = dli_lease_limit(m->grant.stamp, claim->lease, m->rules->drift_ppm);

    return !claim->renew && own < m->grant.limit ? own : m->grant.limit;
}

/* With the next token of the block. */
void dli_mutex_hold(struct dli_mutex *m, struct dli_claim *claim, int64_t now)
{
    claim->state = DLI_CLAIM_HELD;
    claim->count = 1;
    claim->token = m->tokens.next++;
    claim->held_since = now;
    claim->result = DLOCK_OK;
    m->holder = claim;
    m->renewing.on = claim->renew;
    m->grant.limit = dli_mutex_use_until(m, claim);
    if (claim->lease != m->grant.lease) {
        m->renewing.confirm = 1;
        m->renewing.at = now;
    }
    m->grant.lease = claim->lease;
    dli_mutex_extending(m, m->grant.lease);
    dli_ring_append(&m->done, &claim->link);
}

/* The first in line becomes the holder. */
void dli_mutex_take_turn(struct dli_mutex *m, int64_t now)
{
    struct dli_claim *claim = DLI_OBJECT(m->active->waiting.next, struct dli_claim, link);

    end_waiting(m, claim);
    dli_mutex_hold(m, claim, now);
}

void dli_mutex_forget_want(struct dli_mutex *m)
{
    m->want.number = 0;
    m->want.state = DLI_WANT_NONE;
    m->want.doubt = 0;
    m->renewing.in_flight = 0;
    m->renewing.confirm = 0;
    m->renewing.at_risk = 0;
    m->renewing.failures = 0;
    m->line.listen = 0;
    m->handover.linger_until = 0;
    m->overdue = 0;
}

void dli_mutex_probe_at(struct dli_mutex *m, int64_t at)
{
    if (dli_active_own(m)) /* else there is nothing to send */
        m->active->probe_at = at;
}

static dlock_status release_last(struct dli_mutex *m, int64_t now, int64_t until, int may_send,
                                 struct dli_claim **settled)
{
    struct dli_claim *claim = m->holder;

    if (dli_mutex_hand_over(m, now) || dli_mutex_linger(m, now)) {
        claim->state = DLI_CLAIM_DONE;
        *settled = claim;
        return DLOCK_OK;
    }
    if (!may_send)
        return DLOCK_WOULD_BLOCK;
    m->holder = NULL;
    claim->state = DLI_CLAIM_LEAVING;
    claim->until = until;
    claim->count = 0;
    if (dli_mutex_start_drop(m, dli_mutex_rests_until(claim), now))
        dli_mutex_settle(m, claim, DLOCK_OUT_OF_MEMORY);
    else
        m->active->leaving = claim;
    *settled = claim;
    return DLOCK_WOULD_BLOCK;
}

dlock_status dli_mutex_release(struct dli_mutex *m, int64_t owner, int64_t now, int64_t until, int may_send,
                               struct dli_claim **settled)
{
    struct dli_claim *claim;

    *settled = NULL;
    dli_mutex_tick(m, now);
    if (m->holder && m->holder->owner == owner) {
        if (m->holder->count == 1)
            return release_last(m, now, until, may_send, settled);
        m->holder->count--;
        return DLOCK_OK;
    }
    claim = dli_owners_lost(m, owner);
    if (!claim)
        return DLOCK_NOT_HELD;
    if (--claim->count == 0) {
        forget(m, claim);
        claim->state = DLI_CLAIM_DONE;
        *settled = claim;
    }
    return DLOCK_LOST;
}

void dli_mutex_give_up(struct dli_mutex *m, struct dli_claim *claim, dlock_status status, int64_t now)
{
    if (claim->state != DLI_CLAIM_WAITING && claim->state != DLI_CLAIM_LEAVING)
        return;
    dli_mutex_settle(m, claim, status);
    if (m->waiters == 0)
        dli_mutex_probe_at(m, now);
}

int32_t dli_mutex_state(struct dli_mutex *m, int64_t owner, int64_t now)
{
    const struct dli_claim *claim;

    dli_mutex_tick(m, now);
    claim = dli_mutex_find(m, owner);
    if (!claim)
        return DLOCK_STATE_NONE;
    if (claim->state == DLI_CLAIM_WAITING)
        return DLOCK_STATE_WAITING;
    if (claim->state == DLI_CLAIM_LOST)
        return DLOCK_STATE_LOST;
    return m->renewing.at_risk ? DLOCK_STATE_AT_RISK : DLOCK_STATE_HELD;
}

void dli_mutex_close(struct dli_mutex *m, int64_t now)
{
    m->closed = 1;
    dli_mutex_end_waiting(m, DLOCK_CLOSED, 0);
    if (m->holder)
        dli_mutex_lose(m, DLOCK_CAUSE_CLOSED, now);
    dli_mutex_stop_linger(m, now);
    dli_mutex_probe_at(m, now);
}

int dli_mutex_waits(const struct dli_mutex *m)
{
    return m->waiters > m->active->hasty && !m->closed && !dli_mutex_owned(m);
}

int dli_mutex_gate(struct dli_mutex *m, int64_t until, int64_t now)
{
    if (m->active->gate_until == 0 && until <= now) /* nothing new */
        return 0;
    if (dli_active_make(m))
        return -1;
    m->active->gate_until = until;
    if (now < until)
        dli_mutex_end_waiting(m, DLOCK_GATE_CLOSED, 0);
    m->active->probe_at = now;
    return 0;
}

void dli_mutex_probe(struct dli_mutex *m, int64_t at)
{
    if (m->waiters == 0 && !m->active->sent.in_flight) /* nobody wants to know */
        return;
    m->active->want_at = at < m->active->want_at ? at : m->active->want_at;
    m->active->again = at;
    if (m->waiters > 0 && !dli_mutex_owned(m))
        m->active->probe_at = at;
}

/*
 * A flood of messages costs the server no more than this: HINTS probes in a row, then one each HINT_PAUSE, until one is granted;
 * and a renewal each HOLD_PAUSE. Every wait and every hold gets its share, so nobody has to tell true messages from others.
 */
enum { HINTS = 64, HINT_PAUSE = 2 * DLI_MS, HOLD_PAUSE = 10 * DLI_MS };

void dli_mutex_hint(struct dli_mutex *m, int64_t at)
{
    struct dli_active *active = m->active;

    if (dli_mutex_owned(m)) {
        m->renewing.at = dli_earlier(m->renewing.at, dli_latest(at, m->grant.stamp + HOLD_PAUSE));
        return;
    }
    if (m->waiters == 0 && !active->sent.in_flight)
        return;
    at = dli_latest(at, active->hinted - HINTS * HINT_PAUSE);
    if (at < (active->sent.in_flight ? active->again : active->probe_at))
        active->hinted = dli_latest(active->hinted, at) + HINT_PAUSE;
    dli_mutex_probe(m, dli_earlier(at, active->sent.in_flight ? active->again : active->probe_at));
}

int dli_mutex_idle(const struct dli_mutex *m)
{
    return !m->holder && !m->active->leaving && m->want.state == DLI_WANT_NONE && !m->active->drop.number &&
           !m->active->sent.in_flight && !m->adopting && m->waiters == 0;
}

void dli_mutex_forget_lost(struct dli_mutex *m)
{
    struct dli_link *link;

    while ((link = dli_ring_first(&m->lost)))
        dli_mutex_settle(m, DLI_OBJECT(link, struct dli_claim, link), DLOCK_LOST);
}
