/*
 * transfer.c: export of a grant to another process, and adoption of one. See mutex.h.
 */
#include "mutex.h"

int dli_mutex_let_go(struct dli_mutex *m, int64_t now)
{
    if (dli_active_make(m))
        return -1;
    if (m->holder) {
        m->holder->state = DLI_CLAIM_DONE;
        m->holder = NULL;
        m->active->let_gone = m->want.number;
    }
    dli_mutex_forget_want(m);
    m->active->probe_at = now;
    return 0;
}

int dli_mutex_may_adopt(const struct dli_mutex *m)
{
    int undoing = m->active->drop.number && m->active->drop.first;

    return !m->closed && !m->holder && !m->active->leaving && m->want.state == DLI_WANT_NONE && !m->adopting &&
           m->waiters == 0 && (undoing || (!m->active->drop.number && !m->active->sent.in_flight));
}

int dli_mutex_begin_adopt(struct dli_mutex *m)
{
    if (dli_active_make(m)) /* the adoption may have to be undone */
        return -1;
    m->adopting = 1;
    return 0;
}

void dli_mutex_disown(struct dli_mutex *m, int64_t number, int64_t lease, int64_t now)
{
    int64_t first = m->active->drop.number && m->active->drop.first ? m->active->drop.first : number;

    dli_mutex_drop(m, number, dli_later(lease, m->rules->delay), now);
    m->active->drop.first = first;
}

int dli_mutex_falls(const struct dli_mutex *m, int64_t token)
{
    return token < m->tokens.next - 1;
}

int dli_mutex_adopt(struct dli_mutex *m, struct dli_claim *claim, int64_t number, int64_t token, int64_t stamp,
                    int64_t now)
{
    if (m->active->drop.first) /* the undo of an earlier try: that try holds nothing any more */
        m->active->drop.number = m->active->drop.first = 0;
    m->want.number = number;
    m->want.state = DLI_WANT_KNOWN;
    m->grant.lease = claim->lease;
    m->want.longest_lease = dli_later(m->grant.lease, m->rules->delay);
    m->grant.stamp = stamp;
    m->grant.limit = dli_lease_limit(stamp, m->grant.lease, m->rules->drift_ppm);
    if (m->closed || now >= m->grant.limit || dli_mutex_falls(m, token)) {
        dli_mutex_start_drop(m, 0, now);
        return 0;
    }
    m->want.state = DLI_WANT_OWNED;
    m->tokens.next = token;
    m->tokens.end = token + 1;
    m->renewing.at = stamp + m->grant.lease / 3;
    dli_mutex_hold(m, claim, now); /* before the claims that came during the adoption */
    return 1;
}
