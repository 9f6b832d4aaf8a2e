/*
 * active.c: makes and frees the active part of a mutex machine. See active.h.
 */
#include <stdlib.h>

#include "mutex.h"

enum { AGAIN = 20 * DLI_MS };

/* The active part of all machines that have none of their own. */
static const struct dli_active nothing = {
    .waiting = {(struct dli_link *)&nothing.waiting, (struct dli_link *)&nothing.waiting},
    .tries = {(struct dli_link *)&nothing.tries, (struct dli_link *)&nothing.tries},
    .again = DLI_NEVER,
};

static int has_own(const struct dli_mutex *m)
{
    return m->active != &nothing;
}

void dli_active_init(struct dli_mutex *m)
{
    m->active = (struct dli_active *)&nothing;
}

void dli_active_fini(struct dli_mutex *m)
{
    if (has_own(m))
        free(m->active);
    dli_active_init(m);
}

int dli_active_make(struct dli_mutex *m)
{
    struct dli_active *active;

    if (has_own(m))
        return 0;
    if (!(active = malloc(sizeof *active)))
        return -1;
    *active = nothing;
    dli_list_init(&active->waiting);
    dli_list_init(&active->tries);
    m->active = active;
    return 0;
}

int dli_active_to_send(struct dli_mutex *m, int64_t now)
{
    if (dli_active_make(m) == 0)
        return 0;
    if (m->leaving)
        dli_mutex_settle(m, m->leaving, DLOCK_OUT_OF_MEMORY);
    m->probe.at = now + AGAIN;
    return -1;
}

/* A failure is kept: whoever comes next backs off, too. */
void dli_active_trim(struct dli_mutex *m)
{
    int quiet = m->want.state == DLI_WANT_NONE || m->want.state == DLI_WANT_OWNED;

    if (has_own(m) && quiet && m->waiters == 0 && !m->drop.number && !m->parked && !m->active->sent.in_flight &&
        m->active->failure == DLOCK_OK)
        dli_active_fini(m);
}
