/*
 * sim_claims.c: the rules about grants from their owners' view, and about the end of a run.
 *
 *   fencing   the token of a claim is one of those reserved for its number, higher than any before, and stays
 *   lost      a grant that ended without release is reported lost exactly once; a released one never is
 *   renewal   nothing is renewed after its release was answered
 *   calm      without faults no renewed grant is lost or at risk
 *   left over only keys with a TTL stay on the server
 */
#include "sim.h"

#include <inttypes.h>

enum { TOMBSTONE_MS = 120000 }; /* as in bury.lua */

void sim_check_renewal(struct sim *s, struct sim_peer *peer, int64_t number)
{
    if (sim_number(s, peer, number)->released)
        sim_violated(s, "renewal: peer %d renews %" PRId64 " after its release was answered", peer->index, number);
}

void sim_check_granted(struct sim *s, struct sim_claim *claim)
{
    struct sim_peer *peer = &s->peer[claim->peer];
    struct sim_lock *lock = &s->lock[claim->lock];
    const struct sim_number *number;

    claim->number = peer->side[claim->lock].m.want.number;
    claim->token = claim->c.token;
    claim->granted_at = s->now;
    number = sim_number(s, peer, claim->number);
    sim_trace(s, "peer %d owner %d holds %s with token %" PRId64, claim->peer, claim->owner, lock->name, claim->token);
    s->stats.claims++;
    s->stats.handovers += claim->c.handed;
    if (claim->granted)
        sim_violated(s, "claims: peer %d owner %d is granted twice", claim->peer, claim->owner);
    claim->granted = 1;
    claim->next = s->claims;
    s->claims = claim;
    if (number->forced) /* the first renewal of a grant in flight finds out that force took the lock */
        return;
    if (sim_shared(s)) { /* grants of shared locks come in any order */
        sim_check_passed(s, claim);
        if (s->world == SIM_TURNS)
            sim_turns_granted(s, claim);
        return;
    }
    if (number->first == 0 || claim->token < number->first || claim->token > number->last)
        sim_violated(s, "fencing: token %" PRId64 " of peer %d was not reserved for %" PRId64, claim->token,
                     claim->peer, claim->number);
    if (claim->adopted ? claim->token != lock->token_max : claim->token <= lock->token_max)
        sim_violated(s, "fencing: token %" PRId64 " on %s comes after %" PRId64, claim->token, lock->name,
                     lock->token_max);
    lock->token_max = claim->token;
}

void sim_check_lost(struct sim *s, struct sim_claim *claim)
{
    struct sim_peer *peer = &s->peer[claim->peer];

    sim_trace(s, "peer %d owner %d is told that it lost: %d", claim->peer, claim->owner, claim->c.cause);
    s->stats.losses++;
    claim->lost_reports++;
    if (!claim->granted || claim->released || claim->let_go || claim->lost_reports > 1)
        sim_violated(s, "lost: peer %d owner %d: granted %d released %d lost %d", claim->peer, claim->owner,
                     claim->granted, claim->released, claim->lost_reports);
    if (s->now <= s->calm_from || claim->granted_at <= s->calm_from || sim_number(s, peer, claim->number)->forced)
        return;
    if ((claim->c.cause == DLOCK_CAUSE_EXPIRED && claim->c.renew) || claim->c.cause == DLOCK_CAUSE_TAKEN)
        sim_violated(s, "calm: peer %d owner %d lost %s without a fault, cause %d", claim->peer, claim->owner,
                     s->lock[claim->lock].name, claim->c.cause);
}

void sim_check_at_risk(struct sim *s, const struct sim_claim *claim)
{
    sim_trace(s, "peer %d owner %d is told that it is at risk", claim->peer, claim->owner);
    if (s->now > s->calm_from && claim->granted_at > s->calm_from)
        sim_violated(s, "calm: peer %d owner %d is at risk on %s without a fault", claim->peer, claim->owner,
                     s->lock[claim->lock].name);
}

void sim_check_released(struct sim *s, struct sim_claim *claim)
{
    if (claim->released || claim->lost_reports > 0 || !claim->granted || claim->c.token != claim->token)
        sim_violated(s, "claims: release of peer %d owner %d: released %d lost %d granted %d token %" PRId64,
                     claim->peer, claim->owner, claim->released, claim->lost_reports, claim->granted, claim->c.token);
    claim->released = 1;
}

/* ---- the end */

static void check_claims(struct sim *s)
{
    for (const struct sim_claim *claim = s->claims; claim; claim = claim->next)
        if (s->peer[claim->peer].alive && claim->released + claim->lost_reports + claim->let_go != 1)
            sim_violated(s, "lost: peer %d owner %d ended with token %" PRId64 " released %d, reported lost %d",
                         claim->peer, claim->owner, claim->token, claim->released, claim->lost_reports);
}

static int is_fence(const struct sim *s, const struct sim_key *key)
{
    for (int i = 0; i < s->plan.locks; i++)
        if (sim_same(&key->name, sim_word(s->lock[i].fence)))
            return 1;
    return 0;
}

static void check_keys(struct sim *s)
{
    int64_t now = sim_server_clock(s) / SIM_MS, beat = 3 * s->plan.rules.safety / SIM_MS + 1000;
    int64_t longest = 2 * beat > s->plan.lease_max / SIM_MS ? 2 * beat : s->plan.lease_max / SIM_MS;

    longest = longest > TOMBSTONE_MS ? longest : TOMBSTONE_MS;
    for (int i = 0; i < s->store.count; i++) {
        const struct sim_key *key = &s->store.keys[i];

        if (is_fence(s, key) ? key->expires < 0 && !s->plan.fenced : key->expires < 0 || key->expires > now + longest)
            sim_violated(s, "left over: %.*s has no TTL, or too long a one", key->name.size, key->name.at);
    }
}

static void check_lock(struct sim *s, int index)
{
    struct sim_lock *lock = &s->lock[index];
    struct sim_seen seen = sim_look(s, index);
    const struct sim_key *line = sim_find_key(&s->store, sim_word(lock->line));

    if (seen.peer >= 0 && s->peer[seen.peer].alive && !s->peer[seen.peer].foreign && s->now > s->calm_from &&
        s->now > sim_number(s, &s->peer[seen.peer], seen.number)->excused)
        sim_violated(s, "left over: %s still belongs to peer %d as %" PRId64, lock->name, seen.peer, seen.number);
    if (line && s->plan.calm && !(line->count == 1 && line->fields[0].name.at[0] == '*'))
        sim_violated(s, "left over: %d in the line of %s", line->count, lock->name);
}

void sim_check_end(struct sim *s)
{
    check_claims(s);
    if (s->world) {
        sim_kinds_end(s);
        return;
    }
    check_keys(s);
    for (int i = 0; i < s->plan.locks; i++)
        check_lock(s, i);
}
