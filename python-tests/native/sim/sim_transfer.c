/*
 * sim_transfer.c: what a holder may request besides a release: a longer lease, and to export its grant so that another
 * process adopts it. Sometimes two try. As in src/client/operation_kinds.c and transfer.c.
 *
 *   lease  the lease that one hold requested does not change the lease of a later hold
 */
#include "sim.h"

#include <inttypes.h>

/* A grant on its way from one process to another. */
struct moving {
    int lock, from_peer;
    int64_t from_number, number, first, token, lease;
    int64_t offer; /* stands for the secret */
    struct sim_owner *owner;
    struct sim_claim *claim;
};

static struct sim_request *send_operation(struct sim *s, struct sim_peer *peer, int lock, int64_t number, int64_t lease,
                                          enum sim_operation what, struct moving *moving)
{
    struct sim_request *request = sim_alloc(s, sizeof *request);

    request->kind = SIM_RENEW;
    request->operation = what;
    request->moving = moving;
    request->peer = peer->index;
    request->lock = lock;
    request->rows = 1;
    request->row[0].lock = lock;
    request->row[0].number = number;
    request->row[0].lease = lease;
    request->stamp = sim_clock(s, peer);
    request->attempt = dli_lease_attempt(lease, peer->rules.attempt);
    if (moving) {
        request->from_peer = moving->from_peer;
        request->from_number = moving->from_number;
        request->row[0].first = moving->first;
        request->token = moving->token;
        request->offer = moving->offer;
    }
    sim_send(s, request);
    return request;
}

void sim_extend(struct sim *s, struct sim_owner *owner)
{
    struct sim_peer *peer = &s->peer[owner->peer];
    int64_t lease = s->plan.lease[sim_below(s, SIM_LEASES)];

    sim_trace(s, "peer %d owner %d extends to %" PRId64, owner->peer, owner->index, lease);
    dli_mutex_extending(&peer->side[owner->lock].m, lease);
    send_operation(s, peer, owner->lock, peer->side[owner->lock].m.want.number, lease, SIM_OPERATION_EXTEND, NULL)
        ->token = owner->claim->token;
}

/* The answer is for the hold that requested it: a later one keeps its own lease. */
static void extended(struct sim *s, const struct sim_request *request, int kept)
{
    struct sim_peer *peer = &s->peer[request->peer];
    struct dli_mutex *m = &peer->side[request->lock].m;
    const struct dli_claim *holder = m->holder;
    int64_t lease = m->grant.lease, limit = m->grant.limit;
    int has = dli_mutex_extended(m, request->row[0].number, request->token, kept, request->row[0].lease, request->stamp,
                                 sim_clock(s, peer));

    s->stats.extended += has;
    if (holder && holder->token != request->token && (has || m->grant.lease != lease || m->grant.limit != limit))
        sim_violated(s, "lease: what peer %d asked for token %" PRId64 " changes the lease of token %" PRId64,
                     request->peer, request->token, holder->token);
}

/* The grant is being moved to another process. */
static void give_away(struct sim *s, const struct moving *grant)
{
    struct moving *moving = sim_alloc(s, sizeof *moving);
    int to = (int)sim_below(s, s->plan.procs);

    *moving = *grant;
    sim_trace(s, "%s goes to peer %d", s->lock[grant->lock].name, to);
    sim_at(s, s->now + sim_delay(s), SIM_GRANT_ARRIVES, to, 0, moving);
}

/* The owner goes on to hold until the server has answered. */
void sim_export(struct sim *s, struct sim_owner *owner)
{
    struct sim_peer *peer = &s->peer[owner->peer];
    struct dli_mutex *m = &peer->side[owner->lock].m;
    struct moving *moving;

    if (dli_mutex_may_export(m, owner->claim->c.owner, sim_clock(s, peer)) != DLOCK_OK)
        return;
    moving = sim_alloc(s, sizeof *moving);
    *moving = (struct moving){.lock = owner->lock, .from_peer = owner->peer, .from_number = m->want.number};
    moving->token = owner->claim->c.token;
    moving->lease = m->grant.lease;
    moving->offer = ++s->offers;
    moving->owner = owner;
    moving->claim = owner->claim;
    sim_trace(s, "peer %d owner %d exports %s", owner->peer, owner->index, s->lock[owner->lock].name);
    dli_mutex_begin_export(m);
    send_operation(s, peer, owner->lock, m->want.number, moving->lease, SIM_OPERATION_EXPORT, moving);
}

/* The server was asked to keep the offer. From now on no request gets the lock by that number, save an adoption's. */
static void exported(struct sim *s, const struct sim_request *request, int kept)
{
    const struct moving *moving = request->moving;
    struct sim_owner *owner = moving->owner;
    struct sim_peer *peer = &s->peer[request->peer];
    struct sim_number *number = sim_number(s, peer, moving->from_number);

    if (dli_mutex_exported(&peer->side[request->lock].m, moving->claim->c.owner, moving->from_number, moving->token,
                           kept, moving->lease, request->stamp, sim_clock(s, peer)) != DLOCK_OK)
        return;
    if (owner->claim != moving->claim || owner->state != SIM_HOLDING)
        sim_violated(s, "claims: peer %d exports what owner %d does not hold", owner->peer, owner->index);
    number->excused = s->now + 3 * s->plan.lease_max;
    number->exported = !s->forgot_at || request->ran_at > s->forgot_at;
    moving->claim->let_go = 1;
    owner->state = SIM_IDLE;
    owner->claim = NULL;
    owner->blind = 0;
    sim_owner_wake(s, owner, sim_below(s, s->plan.think));
    give_away(s, moving);
    if (sim_below(s, 4) == 0)
        give_away(s, moving);
}

static struct sim_owner *idle_owner(struct sim *s, struct sim_peer *peer)
{
    for (int i = 0; i < s->plan.owners; i++)
        if (peer->owner[i].state == SIM_IDLE && !peer->owner[i].same_lock)
            return &peer->owner[i];
    return NULL;
}

void sim_grant_arrives(struct sim *s, struct sim_peer *peer, void *grant)
{
    struct moving *moving = grant;
    struct dli_mutex *m = &peer->side[moving->lock].m;
    struct sim_owner *owner = idle_owner(s, peer);
    struct sim_number *known;

    struct sim_side *side = &peer->side[moving->lock];

    if (!owner || !dli_mutex_may_adopt(m) ||
        (m->active->drop.number && (side->giver != moving->from_peer || side->given != moving->from_number)))
        return;
    side->giver = moving->from_peer;
    side->given = moving->from_number;
    owner->lock = moving->lock;
    owner->state = SIM_ASKING;
    owner->version++;
    moving->owner = owner;
    moving->number = ++peer->numbers;
    moving->claim = owner->claim = sim_make_claim(s, owner);
    moving->claim->adopted = 1;
    moving->first = m->active->drop.number ? m->active->drop.first : moving->number;
    known = sim_number(s, peer, moving->number);
    known->lock = moving->lock;
    known->first = known->last = moving->token;
    known->excused = s->now + 3 * s->plan.lease_max;
    known->forced = sim_number(s, &s->peer[moving->from_peer], moving->from_number)->forced;
    if (dli_mutex_begin_adopt(m)) /* as reserve() in transfer.c */
        sim_violated(s, "memory: there is none");
    send_operation(s, peer, moving->lock, moving->number, moving->lease, SIM_OPERATION_ADOPT, moving);
}

/* The caller tries the same grant once more, at once or when the undo may have ended. */
static void try_again(struct sim *s, struct sim_peer *peer, const struct moving *grant)
{
    struct moving *moving = sim_alloc(s, sizeof *moving);

    *moving = *grant;
    sim_at(s, s->now + sim_below(s, SIM_SECOND), SIM_GRANT_ARRIVES, peer->index, 0, moving);
}

static void adopt(struct sim *s, struct sim_request *request, int kept)
{
    struct sim_peer *peer = &s->peer[request->peer];
    struct moving *moving = request->moving;
    struct dli_mutex *m = &peer->side[request->lock].m;

    m->adopting = 0;
    if ((kept < 0 && request->sent) || (kept == 0 && request->twice)) {
        dli_mutex_disown(m, moving->number, moving->lease, sim_clock(s, peer));
        if (sim_percent(s, 50))
            try_again(s, peer, moving);
    }
    if (kept == 1) {
        moving->claim->c.lease = moving->lease;
        sim_number(s, peer, moving->number)->excused = 0;
        kept = dli_mutex_adopt(m, &moving->claim->c, moving->number, moving->token, request->stamp, sim_clock(s, peer));
        s->stats.adopted += kept;
    }
    if (kept != 1) {
        moving->owner->state = SIM_IDLE;
        moving->owner->claim = NULL;
        sim_owner_wake(s, moving->owner, sim_below(s, s->plan.think));
    }
}

void sim_order_done(struct sim *s, struct sim_request *request)
{
    struct sim_peer *peer = &s->peer[request->peer];
    int good = request->status == DLOCK_OK && !request->result.error;
    int kept = good ? (int)request->result.value[0] : -1;

    sim_trace(s, "peer %d is told of its operation: %d", request->peer, kept);
    if (request->operation == SIM_OPERATION_ADOPT)
        adopt(s, request, kept);
    else if (request->operation == SIM_OPERATION_EXPORT)
        exported(s, request, kept);
    else if (kept >= 0)
        extended(s, request, kept);
    sim_service(s, peer, request->lock);
}
