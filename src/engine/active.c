/*
 * active.c: makes and frees the active part of a mutex machine. See active.h.
 */
#include <stdlib.h>

#include "mutex.h"

/* The active part of all machines that have none of their own. */
static const struct dli_active nothing = {
    .waiting = {(struct dli_link *)&nothing.waiting, (struct dli_link *)&nothing.waiting},
    .tries = {(struct dli_link *)&nothing.tries, (struct dli_link *)&nothing.tries},
    .again = DLI_NEVER,
};

int dli_active_own(const struct dli_mutex *m)
{
    return m->active != &nothing;
}

void dli_active_init(struct dli_mutex *m)
{
    m->active = (struct dli_active *)&nothing;
}

void dli_active_fini(struct dli_mutex *m)
{
    if (dli_active_own(m))
        free(m->active);
    dli_active_init(m);
}

int dli_active_make(struct dli_mutex *m)
{
    struct dli_active *active;

    if (dli_active_own(m))
        return 0;
    if (!(active = malloc(sizeof *active)))
        return -1;
    *active = nothing;
    dli_list_init(&active->waiting);
    dli_list_init(&active->tries);
    m->active = active;
    return 0;
}

/* Whether what the active part knows is of no use any more. A failure is kept: whoever comes next backs off, too. */
static int is_spent(const struct dli_active *active)
{
    return !active->drop.number && !active->leaving && !active->sent.in_flight && active->failure == DLOCK_OK &&
           !active->gate_until && !active->let_gone && !active->owners.slots;
}

void dli_active_trim(struct dli_mutex *m)
{
    int quiet = m->want.state == DLI_WANT_NONE || m->want.state == DLI_WANT_OWNED;

    if (dli_active_own(m) && quiet && m->waiters == 0 && !m->parked && !m->adopting && is_spent(m->active))
        dli_active_fini(m);
}
