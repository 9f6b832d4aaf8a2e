/*
 * handover.c: turns within the process, without the server. A release hands the lock to the next waiter, or the lock
 * lingers: nobody holds or renews it here, and on the server it is taken until it goes back. See mutex.h.
 *
 * The next waiter of a mutex is in the same machine. Where every owner has a machine of its own, the grant moves to
 * another machine of the same name: dli_mutex_pass.
 *
 * Turns per grant are limited in number and time: other processes get the lock too. Each turn has its own token.
 */
#include "spare.h"

int64_t dli_mutex_rests_until(const struct dli_claim *claim)
{
    int64_t least = claim->limits ? claim->limits->min_hold : 0;

    return least > 0 ? dli_later(claim->held_since, least) : 0;
}

/* No turn begins later. */
static int64_t turns_end(const struct dli_mutex *m)
{
    return dli_earlier(m->handover.since + m->rules->handover_time, m->grant.limit - m->grant.lease / 4);
}

/* Every machine of the name has a place of its own in a line on the server: the server says which one is next. */
static int is_lined(const struct dli_mutex *m)
{
    return m->rules->passes == DLI_PASS_NAMED;
}

/*
 * Whether the grant may serve another turn, if there is a token for it. In a long line a grant counts from a probe that
 * is long ago, so nearly every one needs a confirmation: turns do not wait for it.
 */
static int has_turn(const struct dli_mutex *m, int64_t now)
{
    return dli_mutex_owned(m) && !m->closed && !m->overdue && now >= m->active->gate_until &&
           (m->renewing.on || m->rules->lives) && !m->renewing.failures && (!m->renewing.confirm || is_lined(m)) &&
           m->turns < m->rules->handover_turns && now < turns_end(m);
}

/* The same within the machine. */
static int has_own_turn(const struct dli_mutex *m, int64_t now)
{
    return !m->rules->passes && m->tokens.next < m->tokens.end && has_turn(m, now);
}

/* The first waiter gets the next turn, if the grant has the lease that it requests. */
static int pass(struct dli_mutex *m, int64_t now)
{
    struct dli_claim *next = DLI_OBJECT(m->active->waiting.next, struct dli_claim, link);

    if (!has_own_turn(m, now) || !next->renew || next->lease != m->grant.lease)
        return 0;
    next->handed = 1;
    m->turns++;
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

    if (dli_claim_linger(claim) == 0 || m->waiters > 0 || now < dli_mutex_rests_until(claim) || !has_own_turn(m, now))
        return 0;
    m->holder = NULL;
    m->handover.linger_until = dli_earlier(now + dli_claim_linger(claim), turns_end(m));
    return 1;
}

void dli_mutex_take_up(struct dli_mutex *m, int64_t now)
{
    if (pass(m, now))
        m->handover.linger_until = 0;
    else
        dli_mutex_stop_linger(m, now);
    m->active->want_at = now;
}

void dli_mutex_stop_linger(struct dli_mutex *m, int64_t now)
{
    if (!m->handover.linger_until)
        return;
    if (dli_mutex_start_drop(m, m->overdue ? m->handover.since : 0, now) == 0)
        m->active->drop.lingered = 1;
}

/* ---- turns of other machines */

int dli_mutex_may_pass(const struct dli_mutex *m, int64_t owner, int64_t now)
{
    const struct dli_claim *holder = m->holder;

    return m->rules->passes && holder && holder->owner == owner && holder->count == 1 &&
           !(m->active->sent.in_flight && m->active->sent.wish.want == m->want.number) &&
           now >= dli_mutex_rests_until(holder) && has_turn(m, now);
}

/*
 * A place in line counts if no second request for it can be under way: that one would come back to the line. Where waiters
 * are called, the place is that of the process, and stays.
 */
static int has_place(const struct dli_mutex *m)
{
    if (m->rules->called)
        return !m->want.doubt;
    return is_lined(m) ? m->want.state == DLI_WANT_KNOWN && !m->want.doubt : m->want.state <= DLI_WANT_FRESH;
}

int dli_mutex_may_receive(const struct dli_mutex *m, const struct dli_mutex *from, int64_t now)
{
    const struct dli_claim *next = DLI_OBJECT(m->active->waiting.next, struct dli_claim, link);

    return m->waiters > 0 && !m->closed && now >= m->active->gate_until && has_place(m) && !m->active->sent.in_flight &&
           !m->active->drop.number && !m->adopting && now < next->until && next->renew == from->holder->renew &&
           next->lease == from->grant.lease;
}

/*
 * When the holder of a fair lock's grant has it renewed, if it must be at once. A turn that takes long needs that, and
 * the end of the turns is soon here: a renewal in each of them would be too many.
 */
static int64_t renewal_of_turn(const struct dli_mutex *m, int64_t now)
{
    int64_t attempt = dli_lease_attempt(dli_mutex_period(m), m->rules->attempt);

    return dli_earlier(m->renewing.at, now) + dli_earlier(m->rules->handover_time, attempt / 4);
}

/*
 * All that belongs to the grant moves. A renewal in flight does not: its answer is about the machine that sent it. So it is
 * repeated.
 */
static void move_grant(struct dli_mutex *from, struct dli_mutex *to, int64_t now)
{
    to->want = from->want;
    to->grant = from->grant;
    to->handover = from->handover;
    to->turns = from->turns;
    to->renewing = from->renewing;
    if (is_lined(to) && (to->renewing.in_flight || to->renewing.confirm))
        to->renewing.at = renewal_of_turn(to, now);
    else if (to->renewing.in_flight)
        to->renewing.at = now;
    to->renewing.in_flight = 0;
    to->active->want_at = from->active->want_at;
    to->active->failure = DLOCK_OK;
    to->active->retries = 0;
    to->line.listen = 0;
    dli_mutex_forget_want(from);
    dli_mutex_probe_at(from, now);
}

void dli_mutex_pass(struct dli_mutex *from, struct dli_mutex *to, int64_t token, int64_t now)
{
    struct dli_claim *next = DLI_OBJECT(to->active->waiting.next, struct dli_claim, link);

    from->holder->state = DLI_CLAIM_DONE;
    from->holder = NULL;
    move_grant(from, to, now);
    to->turns++;
    to->tokens.next = token;
    if (to->tokens.end <= token)
        to->tokens.end = token + 1;
    next->handed = 1;
    dli_mutex_take_turn(to, now);
}

void dli_spare_keep(struct dli_spare *spare, const struct dli_tokens *tokens)
{
    if (tokens->next < tokens->end && tokens->end > spare->end)
        *spare = (struct dli_spare){tokens->next, tokens->end};
}

int dli_spare_left(const struct dli_spare *spare, int64_t highest)
{
    return spare->next < spare->end && spare->end > highest;
}

int64_t dli_spare_take(struct dli_spare *spare)
{
    return spare->next++;
}
