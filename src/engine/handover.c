/*
 * handover.c: turns within the process, without the server. A release hands the lock to the next waiter, or the lock
 * lingers: nobody holds or renews it here, and on the server it is taken until it goes back. See mutex.h.
 *
 * Turns per grant are limited in number and time: other processes get the lock too. Each turn has its own token.
 */
#include "mutex.h"

int64_t dli_mutex_rests_until(const struct dli_claim *claim)
{
    return claim->min_hold > 0 ? dli_later(claim->held_since, claim->min_hold) : 0;
}

/* No turn begins later. */
static int64_t turns_end(const struct dli_mutex *m)
{
    return dli_earlier(m->handover.since + m->rules->handover_time, m->grant.limit - m->grant.lease / 4);
}

/* Whether the grant may serve another turn. */
static int has_turn(const struct dli_mutex *m, int64_t now)
{
    return dli_mutex_owned(m) && !m->closed && now >= m->gate_until && m->renewing.on && !m->renewing.failures &&
           !m->renewing.confirm && m->tokens.next < m->tokens.end && m->handover.turns < m->rules->handover_turns &&
           now < turns_end(m);
}

/* The first waiter gets the next turn, if the grant has the lease that it requests. */
static int pass(struct dli_mutex *m, int64_t now)
{
    struct dli_claim *next = DLI_OBJECT(m->waiting.next, struct dli_claim, link);

    if (!has_turn(m, now) || !next->renew || next->lease != m->grant.lease)
        return 0;
    next->handed = 1;
    m->handover.turns++;
    dli_mutex_take_turn(m, now);
    return 1;
}

int dli_mutex_hand_over(struct dli_mutex *m, int64_t now)
{
    return m->waiters > 0 && now >= dli_mutex_rests_until(m->holder) && pass(m, now);
}

int dli_mutex_linger(struct dli_mutex *m, int64_t now)
{
    const struct dli_claim *claim = m->holder;

    if (claim->linger == 0 || m->waiters > 0 || now < dli_mutex_rests_until(claim) || !has_turn(m, now))
        return 0;
    m->holder = NULL;
    m->handover.linger_until = dli_earlier(now + claim->linger, turns_end(m));
    return 1;
}

void dli_mutex_take_up(struct dli_mutex *m, int64_t now)
{
    if (pass(m, now))
        m->handover.linger_until = 0;
    else
        dli_mutex_stop_linger(m, now);
    m->want.at = now;
}

void dli_mutex_stop_linger(struct dli_mutex *m, int64_t now)
{
    if (!m->handover.linger_until)
        return;
    dli_mutex_start_drop(m, now);
    m->drop.lingered = 1;
}
