/*
 * drop.c: a grant number that is over becomes drop: it is released until the server has surely forgotten it. See mutex.h.
 */
#include "mutex.h"

#include <assert.h>

enum { AGAIN = 20 * DLI_MS };

int64_t dli_mutex_beat(const struct dli_mutex *m)
{
    return 3 * m->rules->safety + 1000 * DLI_MS;
}

int64_t dli_mutex_place(const struct dli_mutex *m)
{
    return dli_later(dli_mutex_beat(m), m->want.longest_lease);
}

/* A renewal sent before may still arrive for the time of one attempt. */
void dli_mutex_drop(struct dli_mutex *m, int64_t number, int64_t lasts, int64_t now)
{
    m->active->drop = (struct dli_drop){
        .number = number,
        .until = m->rules->kept ? DLI_NEVER : dli_lease_gone(now + m->rules->attempt, lasts, m->rules->drift_ppm),
    };
    m->active->probe_at = now;
}

/* There is no memory for the drop. Nobody has the lock here, and nobody gets it, until it can be dropped. */
static void drop_later(struct dli_mutex *m, int64_t rest, int64_t now)
{
    assert(dli_mutex_owned(m));
    m->overdue = 1;
    m->handover.since = rest;
    m->handover.linger_until = now + AGAIN;
}

/*
 * Want has ended or is given up. It becomes drop, which is released until the server must have forgotten it, but not before
 * rest is over. A number in line may be granted as long as its place lasts.
 */
int dli_mutex_start_drop(struct dli_mutex *m, int64_t rest, int64_t now)
{
    if (dli_mutex_known(m) && dli_active_make(m)) {
        drop_later(m, rest, now);
        return -1;
    }
    if (dli_mutex_known(m) && !m->rules->unheard) {
        dli_mutex_drop(m, m->want.number, dli_mutex_owned(m) ? m->want.longest_lease : dli_mutex_place(m), now);
        m->active->drop.rest = rest;
    }
    if (m->want.doubt)
        m->active->drop.doubt = 1;
    dli_mutex_forget_want(m);
    return 0;
}

void dli_mutex_give_back(struct dli_mutex *m, int64_t number, int64_t now)
{
    if (m->active->drop.number || number == m->want.number || number <= m->active->let_gone ||
        number > __atomic_load_n(m->rules->numbers, __ATOMIC_RELAXED) || dli_active_make(m))
        return;
    dli_mutex_drop(m, number, m->want.longest_lease, now);
    m->active->drop.doubt = 1; /* a late request has put it in line: there may be more */
}
