/*
 * transfer.c: export of a grant to another process, and adoption of one. See mutex.h.
 */
#include "mutex.h"

void dli_mutex_let_go(struct dli_mutex *m, int64_t now)
{
    if (m->holder) {
        m->holder->state = DLI_CLAIM_DONE;
        m->holder = NULL;
        m->let_gone = m->want.number;
    }
    dli_mutex_forget_want(m);
    m->probe.at = now;
}

int dli_mutex_may_adopt(const struct dli_mutex *m)
{
    int undoing = m->drop.number && m->drop.first;

    return !m->closed && !m->holder && !m->leaving && m->want.state == DLI_WANT_NONE && !m->adopting &&
           m->waiters == 0 && (undoing || (!m->drop.number && !m->active->sent.in_flight));
}

void dli_mutex_disown(struct dli_mutex *m, int64_t number, int64_t lease, int64_t now)
{
    int64_t first = m->drop.number && m->drop.first ? m->drop.first : number;

    dli_mutex_drop(m, number, dli_later(lease, m->rules->delay), now);
    m->drop.first = first;
}

int dli_mutex_falls(const struct dli_mutex *m, int64_t token)
{
    return token < m->tokens.next - 1;
}

int dli_mutex_adopt(struct dli_mutex *m, struct dli_claim *claim, int64_t number, int64_t token, int64_t stamp,
                    int64_t now)
{
    if (m->drop.first) /* the undo of an earlier try: that try holds nothing any more */
        m->drop.number = m->drop.first = 0;
    m->want.number = number;
    m->want.state = DLI_WANT_KNOWN;
    m->grant.lease = claim->lease;
    m->want.longest_lease = dli_later(m->grant.lease, m->rules->delay);
    m->grant.stamp = stamp;
    m->grant.limit = dli_lease_limit(stamp, m->grant.lease, m->rules->drift_ppm);
    if (m->closed || now >= m->grant.limit || dli_mutex_falls(m, token)) {
        dli_mutex_start_drop(m, now);
        return 0;
    }
    m->want.state = DLI_WANT_OWNED;
    m->tokens.next = token;
    m->tokens.end = token + 1;
    m->renewing.at = stamp + m->grant.lease / 3;
    dli_mutex_hold(m, claim, now); /* before the claims that came during the adoption */
    return 1;
}
