/*
 * sim_pass.c: turns in memory between the machines of one name in a process, as src/client/pass.c gives them; and what
 * must hold for their tokens. See sim.h.
 *
 *   fencing  a token was reserved by its process, and nobody else has it; in a process the tokens of turns only go up
 */
#include "sim.h"

#include <inttypes.h>

void sim_keep_tokens(struct sim_peer *peer, const struct dli_tokens *tokens)
{
    if (tokens->next >= tokens->end || tokens->end <= peer->tokens_end)
        return;
    peer->next_token = tokens->next;
    peer->tokens_end = tokens->end;
}

static int64_t take_token(struct sim_peer *peer)
{
    return peer->next_token < peer->tokens_end && peer->tokens_end > peer->highest ? peer->next_token++ : 0;
}

static int pass_to(struct sim *s, struct sim_peer *peer, int from, int to)
{
    struct dli_mutex *giver = &peer->side[from].m, *heir = &peer->side[to].m;
    int64_t now = sim_clock(s, peer), number = giver->want.number, token;

    if (to == from || sim_writes(s, to) != sim_writes(s, from) || !dli_mutex_may_receive(heir, giver, now) ||
        !(token = take_token(peer)))
        return 0;
    sim_trace(s, "peer %d passes %" PRId64 " on from side %d to side %d", peer->index, number, from, to);
    dli_mutex_pass(giver, heir, token, now);
    sim_number(s, peer, number)->lock = to;
    sim_service(s, peer, to);
    return 1;
}

int sim_pass(struct sim *s, const struct sim_owner *owner)
{
    struct sim_peer *peer = &s->peer[owner->peer];
    struct dli_mutex *m = &peer->side[owner->lock].m;
    int64_t now = sim_clock(s, peer);

    dli_mutex_tick(m, now);
    if (!sim_shared(s) || (s->world == SIM_RW && !sim_writes(s, owner->lock)) ||
        !dli_mutex_may_pass(m, owner->claim->c.owner, now))
        return 0;
    for (int i = 1, first = owner->lock; i < s->plan.locks; i++)
        if (pass_to(s, peer, first, (first + i) % s->plan.locks))
            return 1;
    return 0;
}

static int was_reserved(struct sim *s, struct sim_peer *peer, int64_t token)
{
    for (int64_t which = peer->numbers; which > 0; which--) {
        const struct sim_number *number = sim_number(s, peer, which);

        if (number->first && number->first <= token && token <= number->last)
            return 1;
    }
    return 0;
}

void sim_check_passed(struct sim *s, const struct sim_claim *claim)
{
    if (!was_reserved(s, &s->peer[claim->peer], claim->token))
        sim_violated(s, "fencing: token %" PRId64 " was not reserved by peer %d", claim->token, claim->peer);
    for (const struct sim_claim *other = s->claims; other; other = other->next) {
        if (other == claim)
            continue;
        if (other->token == claim->token)
            sim_violated(s, "fencing: token %" PRId64 " of peer %d and of peer %d", claim->token, claim->peer, other->peer);
        if (claim->c.handed && other->peer == claim->peer && other->token > claim->token)
            sim_violated(s, "fencing: peer %d hands over token %" PRId64 " after %" PRId64, claim->peer, claim->token,
                         other->token);
    }
}
