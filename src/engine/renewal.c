/*
 * renewal.c: renewal of the grant, and what passing time does to it. See mutex.h.
 */
#include "mutex.h"

#include <assert.h>

static void report(struct dli_mutex *m, struct dli_claim *claim, int what)
{
    claim->reports = (int8_t)(claim->reports | what);
    dli_ring_remove(&m->reports, &claim->report);
    dli_ring_append(&m->reports, &claim->report);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The holder has lost its grant. That is reported once and final. What the server still knows of it is dropped. */
void dli_mutex_lose(struct dli_mutex *m, int32_t cause, int64_t now)
{
    struct dli_claim *claim = m->holder;
    int64_t rest = 0;

    if (m->handover.linger_until) { /* nobody holds it: no report */
        dli_mutex_stop_linger(m, now);
        return;
    }
    assert(claim);
    m->holder = NULL;
    dli_ring_remove(&m->done, &claim->link);
    claim->state = DLI_CLAIM_LOST;
    claim->cause = (int8_t)cause;
    dli_ring_append(&m->lost, &claim->link);
    dli_owners_add(m, claim);
    report(m, claim, DLI_REPORT_LOST);
    if (cause != DLOCK_CAUSE_TAKEN)
        rest = later(dli_later(now, m->rules->delay), dli_mutex_rests_until(claim));
    dli_mutex_start_drop(m, rest, now); /* also when it was taken: a probe in flight may put it in line again */
    dli_mutex_probe_at(m, now);
}

static int64_t max_hold_at(const struct dli_mutex *m)
{
    const struct dli_claim *claim = m->holder;

    return claim && claim->limits ? dli_later(claim->held_since, claim->limits->max_hold) : DLI_NEVER;
}

static int64_t risk_at(const struct dli_mutex *m)
{
    if (!m->holder || !m->renewing.on || m->renewing.at_risk)
        return DLI_NEVER;
    if (m->renewing.failures >= 2)
        return 0;
    if (m->renewing.confirm) /* granted by push: the stamp is old from the start */
        return m->holder->held_since + dli_lease_attempt(m->grant.lease, m->rules->attempt);
    return m->grant.stamp + m->grant.lease * 2 / 3;
}

static int renews(const struct dli_mutex *m)
{
    return m->renewing.on || m->renewing.confirm || m->rules->lives;
}

int64_t dli_mutex_period(const struct dli_mutex *m)
{
    return m->rules->lives ? m->rules->lives : m->grant.lease;
}

void dli_mutex_renew_from(struct dli_mutex *m, int64_t stamp)
{
    int64_t period = dli_mutex_period(m);

    m->renewing.at = stamp + period / 3 - dli_mutex_jitter(m, period / 30);
}

int64_t dli_mutex_renewal(const struct dli_mutex *m, int64_t now)
{
    if (!dli_mutex_owned(m) || !m->holder || m->renewing.in_flight || !renews(m) || now < m->renewing.at)
        return 0;
    return m->want.number;
}

void dli_mutex_renewing(struct dli_mutex *m)
{
    m->renewing.in_flight = 1;
}

void dli_mutex_renewed(struct dli_mutex *m, int64_t number, int kept, int64_t lease, int64_t stamp, int64_t now)
{
    int64_t limit = dli_lease_limit(stamp, lease, m->rules->drift_ppm);

    dli_mutex_tick(m, now);
    if (!dli_mutex_owned(m) || number != m->want.number)
        return;
    m->renewing.in_flight = 0;
    if (kept == 0) {
        dli_mutex_lose(m, DLOCK_CAUSE_TAKEN, now);
    } else if (kept < 0) {
        m->renewing.failures += kept == -1;
        m->renewing.at =
            now + dli_lease_attempt(dli_mutex_period(m), m->rules->attempt) / 3 + dli_mutex_jitter(m, 10 * DLI_MS);
    } else {
        m->grant.limit = limit > m->grant.limit ? limit : m->grant.limit;
        m->grant.stamp = stamp > m->grant.stamp ? stamp : m->grant.stamp;
        m->renewing.confirm = 0;
        m->renewing.failures = 0;
        m->renewing.at_risk = 0;
        dli_mutex_renew_from(m, stamp);
    }
    dli_mutex_tick(m, now);
}

void dli_mutex_extending(struct dli_mutex *m, int64_t lease)
{
    int64_t lasts = dli_later(lease, m->rules->delay);

    m->want.longest_lease = m->want.longest_lease > lasts ? m->want.longest_lease : lasts;
}

/* Whether the hold with this token and grant number goes on. */
static int holds(const struct dli_mutex *m, int64_t number, int64_t token)
{
    return dli_mutex_owned(m) && number == m->want.number && m->holder && m->holder->token == token;
}

int dli_mutex_extended(struct dli_mutex *m, int64_t number, int64_t token, int kept, int64_t lease, int64_t stamp,
                       int64_t now)
{
    int renewing = m->renewing.in_flight;

    if (kept == 1 && !holds(m, number, token)) /* the server keeps it longer than the present holder knows */
        return 0;
    if (kept == 1) {
        m->grant.stamp = stamp > m->grant.stamp ? stamp : m->grant.stamp; /* first, or a shorter lease seems at risk */
        m->grant.lease = m->holder->lease = lease;
    }
    dli_mutex_renewed(m, number, kept, lease, stamp, now);
    if (dli_mutex_owned(m) && number == m->want.number)
        m->renewing.in_flight = renewing != 0;
    return kept == 1 && holds(m, number, token);
}

/* When the server must have forgotten drop. An exchange in flight may still put it in line. */
static int64_t drop_ends(const struct dli_mutex *m)
{
    return m->active->sent.in_flight && m->active->sent.wish.want == m->active->drop.number ? DLI_NEVER
                                                                                            : m->active->drop.until;
}

void dli_mutex_tick(struct dli_mutex *m, int64_t now)
{
    if (m->handover.linger_until && now >= m->handover.linger_until)
        dli_mutex_stop_linger(m, now);
    if (dli_mutex_owned(m) && now >= m->grant.limit)
        dli_mutex_lose(m, DLOCK_CAUSE_EXPIRED, now);
    else if (now >= max_hold_at(m))
        dli_mutex_lose(m, DLOCK_CAUSE_MAX_HOLD, now);
    if (now >= risk_at(m)) {
        m->renewing.at_risk = 1;
        report(m, m->holder, DLI_REPORT_AT_RISK);
    }
    if (m->active->leaving && now >= m->active->leaving->until)
        dli_mutex_settle(m, m->active->leaving, DLOCK_UNKNOWN_OUTCOME);
    if (m->active->drop.number && now >= drop_ends(m)) {
        m->active->drop.number = 0;
        if (m->active->leaving)
            dli_mutex_settle(m, m->active->leaving, DLOCK_UNKNOWN_OUTCOME);
    }
}

int64_t dli_mutex_sure_until(const struct dli_mutex *m)
{
    return dli_earlier(m->grant.limit, max_hold_at(m));
}

int64_t dli_mutex_alarm(const struct dli_mutex *m)
{
    int64_t at = DLI_NEVER;

    if (m->handover.linger_until) {
        at = m->handover.linger_until;
    } else if (dli_mutex_owned(m)) {
        at = dli_earlier(m->grant.limit, max_hold_at(m));
        at = dli_earlier(at, risk_at(m));
        if (!m->renewing.in_flight && renews(m))
            at = dli_earlier(at, m->renewing.at);
    } else if (!m->active->sent.in_flight && !m->adopting &&
               ((m->waiters > 0 && !m->parked) || m->want.state != DLI_WANT_NONE)) {
        at = m->waiters > 0 && m->active->want_at > m->active->probe_at ? m->active->want_at : m->active->probe_at;
    }
    if (m->active->drop.number)
        at = dli_earlier(at, m->active->sent.in_flight ? drop_ends(m) : dli_earlier(m->active->probe_at, drop_ends(m)));
    if (m->active->leaving)
        at = dli_earlier(at, m->active->leaving->until);
    return at;
}
