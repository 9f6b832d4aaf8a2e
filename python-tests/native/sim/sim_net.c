/*
 * sim_net.c: requests and replies. Each process has two connections for commands, first in, first out each way. Faults:
 * not sent, lost, late, doubled, reply lost, connection dropped. See sim.h.
 */
#include "sim.h"

#include <inttypes.h>

int64_t sim_delay(struct sim *s)
{
    return sim_between(s, s->plan.delay / 20, s->plan.delay);
}

/* The usual delay, or as long as five leases. */
static int64_t faulty_delay(struct sim *s, struct sim_peer *peer)
{
    int64_t delay = sim_delay(s);

    if (!sim_fault(s, SIM_DELAY))
        return delay;
    delay = sim_below(s, sim_percent(s, 70) ? s->plan.lease_max : 5 * s->plan.lease_max);
    sim_disturb(s, peer, s->now + delay);
    return delay;
}

static int64_t in_order(int64_t *last, int64_t at)
{
    *last = at > *last ? at : *last;
    return *last;
}

static void forget_pending(struct sim *s, const struct sim_request *request)
{
    for (int i = 0; i < s->pendings; i++) {
        if (s->pending[i] == request) {
            s->pending[i] = s->pending[--s->pendings];
            return;
        }
    }
}

static void settle(struct sim *s, struct sim_request *request, dlock_status status, int sent)
{
    request->done = 1;
    request->status = status;
    request->sent = sent;
    forget_pending(s, request);
    sim_complete(s, request);
}

void sim_complete(struct sim *s, struct sim_request *request)
{
    if (request->kind == SIM_EXCHANGE)
        sim_exchange_done(s, request);
    else if (request->operation)
        sim_order_done(s, request);
    else if (request->kind == SIM_RENEW)
        sim_renewal_done(s, request);
    else if (request->kind != SIM_FORCED)
        sim_redisson_done(s, request);
}

/* The same request once more, later, from a connection whose replies nobody reads any more. */
static void haunt(struct sim *s, const struct sim_request *request)
{
    struct sim_request *copy = sim_alloc(s, sizeof *copy);
    int64_t after = sim_between(s, 1, sim_percent(s, 70) ? s->plan.lease_max : 5 * s->plan.lease_max);

    *copy = *request;
    copy->copy = 1;
    copy->done = 1;
    sim_at(s, s->now + after, SIM_ARRIVE, request->peer, 0, copy);
}

void sim_send(struct sim *s, struct sim_request *request)
{
    struct sim_peer *peer = &s->peer[request->peer];
    struct sim_conn *conn = &peer->conn[request->conn];

    if (s->pendings == SIM_PENDING) {
        sim_violated(s, "simulator: more than %d requests in flight", SIM_PENDING);
        return;
    }
    request->generation = conn->generation;
    s->pending[s->pendings++] = request;
    if (s->now < conn->down_until || sim_fault(s, SIM_NOT_SENT)) {
        request->generation = -1;
        sim_disturb(s, peer, s->now + sim_delay(s));
        sim_at(s, s->now + sim_delay(s), SIM_FAIL, request->peer, 0, request);
        return;
    }
    sim_at(s, s->now + request->attempt, SIM_TIMEOUT, request->peer, 0, request);
    if (sim_fault(s, SIM_REQUEST_LOST)) {
        sim_trace(s, "  (lost)");
        sim_disturb(s, peer, s->now + request->attempt);
        return;
    }
    if (sim_fault(s, SIM_DUPLICATE)) {
        haunt(s, request);
        request->twice = 1;
    }
    sim_at(s, in_order(&conn->up_at, s->now + faulty_delay(s, peer)), SIM_ARRIVE, request->peer, 0, request);
}

void sim_arrive(struct sim *s, struct sim_request *request)
{
    struct sim_peer *peer = &s->peer[request->peer];
    struct sim_conn *conn = &peer->conn[request->conn];

    if (!request->copy && (request->generation != conn->generation || !peer->alive)) {
        if (sim_fault(s, SIM_LATE))
            haunt(s, request);
        return;
    }
    sim_execute(s, request);
    if (request->copy || !peer->alive)
        return;
    if (sim_fault(s, SIM_REPLY_LOST)) {
        sim_trace(s, "  (reply lost)");
        sim_disturb(s, peer, s->now + request->attempt);
        return;
    }
    sim_at(s, in_order(&conn->down_at, s->now + faulty_delay(s, peer)), SIM_REPLY, request->peer, 0, request);
}

void sim_reply(struct sim *s, struct sim_event event)
{
    struct sim_request *request = event.what;
    struct sim_peer *peer = &s->peer[request->peer];

    if (request->done || request->generation != peer->conn[request->conn].generation)
        return;
    if (!event.deferred && sim_fault(s, SIM_PAUSE_REPLY)) {
        sim_pause(s, peer, s->now + sim_below(s, 3 * s->plan.lease_max));
        sim_defer(s, event, peer->paused_until + peer->wake_reply);
        return;
    }
    settle(s, request, DLOCK_OK, 1);
}

void sim_timeout(struct sim *s, struct sim_request *request)
{
    struct sim_peer *peer = &s->peer[request->peer];

    if (request->done)
        return;
    sim_disturb(s, peer, s->now);
    if (sim_percent(s, 50))
        sim_drop_conn(s, peer, request->conn, sim_below(s, 50 * SIM_MS));
    settle(s, request, DLOCK_UNREACHABLE, 1);
}

void sim_failed(struct sim *s, struct sim_request *request)
{
    if (!request->done)
        settle(s, request, DLOCK_UNREACHABLE, request->generation >= 0);
}

void sim_drop_conn(struct sim *s, struct sim_peer *peer, int index, int64_t down)
{
    struct sim_conn *conn = &peer->conn[index];

    for (int i = 0; i < s->pendings; i++) {
        struct sim_request *request = s->pending[i];

        if (request->peer == peer->index && request->conn == index && request->generation == conn->generation)
            sim_at(s, s->now + sim_below(s, SIM_MS), SIM_FAIL, peer->index, 0, request);
    }
    sim_trace(s, "peer %d loses connection %d for %" PRId64 " us", peer->index, index, down);
    conn->generation++;
    conn->down_until = s->now + down;
    conn->up_at = conn->down_at = 0;
    sim_disturb(s, peer, conn->down_until);
}
