/*
 * sim_chaos.c: faults that strike at random times, drawn every 100 ms, and the end of all faults. See sim.h.
 */
#include "sim.h"

#include <inttypes.h>

static struct sim_peer *any_peer(struct sim *s)
{
    return &s->peer[sim_below(s, s->plan.procs + s->plan.foreign)];
}

static int living(const struct sim *s)
{
    int count = 0;

    for (int i = 0; i < s->plan.procs; i++)
        count += s->peer[i].alive && !s->peer[i].side[0].m.closed;
    return count;
}

static void crash(struct sim *s, struct sim_peer *peer)
{
    sim_trace(s, "peer %d crashes", peer->index);
    peer->alive = 0;
    for (int i = s->pendings - 1; i >= 0; i--)
        if (s->pending[i]->peer == peer->index)
            s->pending[i] = s->pending[--s->pendings];
    for (int i = 0; i < 2; i++)
        peer->conn[i].generation++;
    if (peer->subscriber && !peer->subscriber->silent)
        sim_subscriber_close(s, peer->subscriber, sim_fault(s, SIM_SUB_LATE));
}

/* The subscriptions are gone; their owner notices soon, or after a while. */
void sim_unsubscribe_all(struct sim *s, struct sim_peer *peer, int silent)
{
    int64_t until = s->now + (silent ? sim_below(s, 3 * SIM_SECOND) : sim_below(s, SIM_MS));

    if (!peer->subscriber || peer->subscriber->silent)
        return;
    sim_trace(s, "peer %d loses its subscriptions%s", peer->index, silent ? " without a word" : "");
    sim_fired(s, silent ? SIM_SUB_SILENT : SIM_SUB_DROP);
    sim_disturb(s, peer, until + 200 * SIM_MS + 4 * s->plan.delay + s->plan.rules.safety);
    sim_subscriber_close(s, peer->subscriber, silent || sim_fault(s, SIM_SUB_LATE));
    sim_at(s, until, SIM_SUB_NOTICED, peer->index, 0, peer->subscriber);
}

static void force(struct sim *s, int index)
{
    struct sim_request *request = sim_alloc(s, sizeof *request);
    struct sim_seen seen = sim_look(s, index);

    if (seen.peer < 0 || s->now < s->error_until)
        return;
    sim_trace(s, "force release of %s", s->lock[index].name);
    sim_fired(s, SIM_FORCE);
    sim_number(s, &s->peer[seen.peer], seen.number)->forced = 1;
    s->lock[index].forced_at = s->now;
    request->kind = SIM_FORCED;
    request->full = 1;
    request->lock = index;
    sim_execute(s, request);
}

static void extend(int64_t *until, int64_t at)
{
    *until = at > *until ? at : *until;
}

static void strike_server(struct sim *s)
{
    int64_t span = sim_below(s, 2 * s->plan.lease_max);
    int fault = (int)sim_between(s, SIM_STALL, SIM_BUSY);

    if (!sim_fault(s, fault))
        return;
    sim_trace(s, "server: fault %d for %" PRId64 " us", fault, span);
    if (fault == SIM_STALL)
        extend(&s->stalled_until, s->now + span);
    else if (fault == SIM_OOM)
        extend(&s->oom_until, s->now + span);
    else
        extend(&s->error_until, s->now + span);
    s->error_kind = fault == SIM_LOADING || fault == SIM_BUSY ? fault : s->error_kind;
    extend(&s->server_disturbed, s->now + span);
}

static int strikes(struct sim *s, enum sim_fault fault)
{
    return s->plan.chance[fault] && sim_below(s, 1000000) < s->plan.chance[fault];
}

static void strike_peer(struct sim *s)
{
    struct sim_peer *peer = any_peer(s);

    if (!peer->alive)
        return;
    if (sim_fault(s, SIM_PAUSE))
        sim_pause(s, peer, s->now + sim_below(s, 3 * s->plan.lease_max));
    if (sim_fault(s, SIM_CONN_DROP))
        sim_drop_conn(s, peer, (int)sim_below(s, 2), sim_below(s, s->plan.lease_max / 2));
    if (strikes(s, SIM_SUB_DROP))
        sim_unsubscribe_all(s, peer, 0);
    if (strikes(s, SIM_SUB_SILENT))
        sim_unsubscribe_all(s, peer, 1);
    if (living(s) < 2 && !peer->foreign)
        return;
    if (!peer->foreign && !peer->side[0].m.closed && sim_fault(s, SIM_CLOSE))
        sim_close_process(s, peer);
    else if (sim_fault(s, SIM_CRASH))
        crash(s, peer);
}

void sim_chaos(struct sim *s)
{
    if (!s->faults_on)
        return;
    strike_peer(s);
    strike_server(s);
    if (strikes(s, SIM_FORCE))
        force(s, (int)sim_below(s, s->plan.locks));
    if (sim_fault(s, SIM_RESTART))
        sim_restart(s);
    if (strikes(s, SIM_NOSCRIPT))
        for (int i = 0; i < SIM_SCRIPTS_MAX; i++)
            s->loaded[i] = 0;
    sim_at(s, s->now + 100 * SIM_MS, SIM_CHAOS, -1, 0, NULL);
}

static int64_t at_most(int64_t at, int64_t most)
{
    return at < most ? at : most;
}

/* All faults end; data in flight arrives soon. */
void sim_calm(struct sim *s)
{
    int64_t soon = s->now + 10 * SIM_MS;

    sim_trace(s, "all faults have ended");
    s->faults_on = 0;
    for (int i = 0; i < s->plan.procs + s->plan.foreign; i++) {
        struct sim_peer *peer = &s->peer[i];

        peer->paused_until = at_most(peer->paused_until, s->now + 8 * SIM_MS);
        peer->wake_reply = peer->wake_timer = 0;
        peer->disturbed_until = at_most(peer->disturbed_until, soon + s->plan.rules.safety);
        for (int k = 0; k < 2; k++) {
            peer->conn[k].down_until = at_most(peer->conn[k].down_until, s->now);
            peer->conn[k].up_at = at_most(peer->conn[k].up_at, soon);
            peer->conn[k].down_at = at_most(peer->conn[k].down_at, soon);
        }
    }
    for (int i = 0; i < s->subscribers; i++) {
        s->subscriber[i].up_at = at_most(s->subscriber[i].up_at, soon);
        s->subscriber[i].down_at = at_most(s->subscriber[i].down_at, soon);
    }
    s->server_disturbed = at_most(s->server_disturbed, soon);
    s->stalled_until = at_most(s->stalled_until, s->now);
    s->error_until = at_most(s->error_until, s->now);
    s->oom_until = at_most(s->oom_until, s->now);
    sim_hurry(s, soon);
    s->calm_from = s->now + 3 * s->plan.lease_max + 3 * s->plan.rules.safety + 3 * SIM_SECOND;
}
