/*
 * transfer.c: export of a grant to another process, and adoption of one. See mutex.h.
 */
#include "mutex.h"

dlock_status dli_mutex_may_export(struct dli_mutex *m, int64_t owner, int64_t now)
{
    int32_t state = dli_mutex_state(m, owner, now);

    if (state != DLOCK_STATE_HELD && state != DLOCK_STATE_AT_RISK)
        return state == DLOCK_STATE_LOST ? DLOCK_LOST : DLOCK_NOT_HELD;
    return m->holder->count > 1 || m->exporting ? DLOCK_BUSY : DLOCK_OK;
}

void dli_mutex_begin_export(struct dli_mutex *m)
{
    m->exporting = 1;
    dli_mutex_extending(m, m->grant.lease);
}

dlock_status dli_mutex_exported(struct dli_mutex *m, int64_t owner, int64_t number, int64_t token, int kept,
                                int64_t lease, int64_t stamp, int64_t now)
{
    int has;

    m->exporting = 0;
    has = kept >= 0 && dli_mutex_extended(m, number, token, kept, lease, stamp, now);
    if (dli_mutex_state(m, owner, now) == DLOCK_STATE_LOST)
        return DLOCK_LOST;
    if (!has)
        return kept < 0 ? DLOCK_UNREACHABLE : DLOCK_NOT_HELD;
    if (m->holder->count > 1)
        return DLOCK_BUSY;
    return dli_mutex_let_go(m, now) ? DLOCK_OUT_OF_MEMORY : DLOCK_OK;
}

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
