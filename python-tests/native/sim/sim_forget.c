/*
 * sim_forget.c: a server that loses all of its memory, by a flush between two scripts or by a restart (--forgets). Whoever
 * held is then as after a force release. What must hold all the same: tokens only go up, new holders exclude each other,
 * old ones are told in time, and the work goes on. See sim.h.
 */
#include "sim.h"

#include <inttypes.h>

static void forget_number(struct sim *s, struct sim_peer *peer, int64_t which)
{
    struct sim_number *number = sim_number(s, peer, which);

    number->buried = number->exported = 0;
    if (sim_shared(s) && number->first && sim_kinds_keeps(s, number->lock, peer->index, which) >= 0)
        number->forced = 1;
}

static void take_from_holders(struct sim *s)
{
    for (int i = 0; i < s->plan.locks && !sim_shared(s); i++) {
        struct sim_seen seen = sim_look(s, i);

        if (seen.peer >= 0)
            sim_number(s, &s->peer[seen.peer], seen.number)->forced = 1;
        s->lock[i].seen = (struct sim_seen){.peer = -1};
        s->lock[i].free_since = s->now;
        s->lock[i].expired = 0;
    }
    for (int i = 0; i < s->plan.procs; i++)
        for (int64_t number = 1; number <= s->peer[i].numbers; number++)
            forget_number(s, &s->peer[i], number);
}

void sim_forget(struct sim *s)
{
    sim_trace(s, "the server has lost its memory");
    take_from_holders(s);
    sim_store_reset(&s->store);
    s->forgot_at = s->now;
    sim_kinds_open(s);
}

/* All connections and scripts are gone with the server. It is away for a moment. */
void sim_restart(struct sim *s)
{
    int64_t away = sim_below(s, s->plan.lease_max / 2);

    sim_forget(s);
    for (int i = 0; i < SIM_SCRIPTS_MAX; i++)
        s->loaded[i] = 0;
    for (int i = 0; i < s->plan.procs + s->plan.foreign; i++) {
        struct sim_peer *peer = &s->peer[i];

        for (int k = 0; peer->alive && k < 2; k++)
            sim_drop_conn(s, peer, k, away);
        if (peer->alive)
            sim_unsubscribe_all(s, peer, 0);
    }
}

/* A believer whose number the server has not is told within a lease; of a plain semaphore, once the server answers. */
void sim_check_told(struct sim *s, struct sim_peer *peer, struct sim_number *number, int there)
{
    int64_t most = s->plan.lease_max + s->plan.late + 50 * SIM_MS, since;

    if (there) {
        number->gone_since = 0;
        return;
    }
    if (!number->gone_since)
        number->gone_since = s->now;
    since = number->gone_since > peer->disturbed_until ? number->gone_since : peer->disturbed_until;
    if (s->world == SIM_SEMAPHORE && s->server_disturbed > since)
        since = s->server_disturbed;
    if (s->now - since > most)
        sim_violated(s, "lost: peer %d believes for %" PRId64 " us in a hold that was taken away", peer->index,
                     s->now - number->gone_since);
}
