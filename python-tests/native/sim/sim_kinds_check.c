/*
 * sim_kinds_check.c: the rules of read-write locks and semaphores. See sim_kinds.c; the fair lock's are in sim_turns.c.
 *
 *   exclusion  a writer that believes it holds is alone; no more permits are believed in than there are
 *   ownership  a believed hold is on the server, for at least as long as its process will trust it; of a read-write lock in the
 *              hash or, when a client of Redisson's ended that, beside it
 *   reclaim    a live holder that was heard keeps its permits; at the end those of the dead are back
 *   permits    after every script the free permits and those taken are all there are
 *   fencing    a new grant has a higher token than any before; a repeated request gets the same token
 *   forgotten  a number on the server is one that its live process wants or drops
 *   liveness   in calm times every waiter is served in the end
 */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct sim_key *find(struct sim *s, const char *name)
{
    s->store.now = sim_server_clock(s);
    return sim_find_key(&s->store, sim_word(name));
}

static int64_t value_of(const struct sim_key *key)
{
    char digits[SIM_TEXT_MAX + 1];

    memcpy(digits, key->value.at, key->value.size);
    digits[key->value.size] = '\0';
    return strtoll(digits, NULL, 10);
}

/* A permit's 16 bytes: 10 of the process, 6 of the number. */
static void permit_bytes(const struct sim *s, int peer, int64_t number, char out[16])
{
    memcpy(out, s->peer[peer].bytes, 10);
    for (int i = 0; i < 6; i++)
        out[10 + i] = (char)(number >> 8 * (5 - i) & 0xff);
}

/* When the hold of a number ends on the server, ms; INT64_MAX: never. -1: there is no hold. */
static int64_t read_or_write_ends(struct sim *s, int lock, int peer, int64_t number)
{
    struct sim_key *hash = find(s, s->lock[lock].name);
    char owner[80], hold[120], *end;

    if (!hash)
        return -1;
    sim_kinds_owner(s, lock, peer, number, owner);
    if (!sim_find_field(hash, sim_word(owner)))
        return -1;
    if (sim_writes(s, lock))
        return hash->expires;
    end = stpcpy(stpcpy(hold, "{stock}:"), owner);
    strcpy(end, ":rwlock_timeout:1");
    return find(s, hold) ? find(s, hold)->expires : -1;
}

/* The same beside the hash, see rw_holds.lua. */
static int64_t noted_end(struct sim *s, int lock, int peer, int64_t number)
{
    struct sim_key *holds = s->world == SIM_RW ? find(s, s->lock[lock].about) : NULL;
    const struct sim_field *field;
    char owner[80];

    if (!holds)
        return -1;
    sim_kinds_owner(s, lock, peer, number, owner);
    field = sim_find_field(holds, sim_word(owner));
    return field ? (int64_t)(field->score < 9e15 ? field->score : field->score - 9e15) : -1;
}

static int64_t permits_end(struct sim *s, int lock, int peer, int64_t number)
{
    struct sim_key *out = find(s, s->lock[lock].side);
    int64_t ends = INT64_MAX;
    char owner[80];

    if (!out)
        return -1;
    sim_kinds_owner(s, lock, peer, number, owner);
    if (s->world == SIM_SEMAPHORE)
        return sim_find_field(out, sim_word(owner)) ? INT64_MAX : -1;
    for (int64_t i = 0; i < s->plan.rules.permits; i++) {
        char id[16];
        const struct sim_field *field;

        permit_bytes(s, peer, number - i, id);
        field = sim_find_field(out, (struct sim_word){id, sizeof id});
        if (!field || field->score <= (double)(s->store.now / SIM_MS))
            return -1;
        if ((int64_t)field->score < ends)
            ends = (int64_t)field->score;
    }
    return ends;
}

int64_t sim_kinds_ends(struct sim *s, int lock, int peer, int64_t number)
{
    if (s->world == SIM_TURNS)
        return sim_turns_end(s, peer, number);
    return s->world == SIM_RW ? read_or_write_ends(s, lock, peer, number) : permits_end(s, lock, peer, number);
}

/* The same; where a client of Redisson's ends the hash, also beside it. */
int64_t sim_kinds_keeps(struct sim *s, int lock, int peer, int64_t number)
{
    int64_t ends = sim_kinds_ends(s, lock, peer, number);

    return ends < 0 && s->cut_at ? noted_end(s, lock, peer, number) : ends;
}

/* ---- around a script */

int sim_kinds_held(struct sim *s, const struct sim_request *request)
{
    return sim_shared(s) && request->kind == SIM_EXCHANGE && request->wish.want &&
           sim_kinds_ends(s, request->lock, request->peer, request->wish.want) >= 0;
}

/* Holds or permits that are out. Scores above those of tokens belong to notes about holds, see sem_holders.lua. */
static int64_t count_out(const struct sim_key *out)
{
    int64_t sum = 0;

    for (int i = 0; out && i < out->count; i++)
        sum += out->fields[i].score < 9e15;
    return sum;
}

static void check_total(struct sim *s)
{
    struct sim_key *left = find(s, s->lock[0].name), *out = find(s, s->lock[0].side);
    int64_t each = s->world == SIM_SEMAPHORE ? s->plan.rules.permits : 1;
    int64_t sum = (left ? value_of(left) : 0) + count_out(out) * each;

    if (s->plan.total && sum != s->plan.total)
        sim_violated(s, "permits: %" PRId64 " left and out, there are %" PRId64, sum, s->plan.total);
}

static void check_token(struct sim *s, const struct sim_request *request, int held)
{
    struct sim_number *number = sim_number(s, &s->peer[request->peer], request->wish.want);
    struct sim_lock *lock = &s->lock[0];
    int64_t token = request->result.value[1], last = token;

    if (held && number->first && token != number->first && token != number->last &&
        (!s->plan.chance[SIM_FORGET] || token <= lock->fence_max))
        sim_violated(s, "fencing: number %" PRId64 " of peer %d asks again and gets %" PRId64 ", not %" PRId64,
                     request->wish.want, request->peer, token, number->first);
    if (!held && token <= lock->fence_max)
        sim_violated(s, "fencing: a new grant has %" PRId64 " after %" PRId64, token, lock->fence_max);
    if (request->result.count > 2)
        last += request->result.value[2] - 1;
    s->stats.wire_grants += !held;
    number->lock = request->lock;
    if (!held || !number->first) /* else the counter was lost, and a repeated request got a later token */
        number->first = token;
    if (!held || number->last < last)
        number->last = last;
    if (last > lock->fence_max)
        lock->fence_max = last;
}

/* A request that runs late may leave a number that nobody knows. */
static void excuse(struct sim *s, const struct sim_request *request, int64_t which)
{
    struct sim_number *number = sim_number(s, &s->peer[request->peer], which);

    if (request->copy || request->done)
        number->excused = s->now + 2 * dli_mutex_beat(&s->peer[0].side[0].m) + 3 * s->plan.lease_max;
}

void sim_kinds_ran(struct sim *s, const struct sim_request *request, int held)
{
    if (request->kind == SIM_EXCHANGE && request->wish.want)
        excuse(s, request, request->wish.want);
    for (int i = 0; request->kind == SIM_RENEW && i < request->rows; i++)
        excuse(s, request, request->row[i].number);
    if (s->world != SIM_TURNS && request->kind == SIM_EXCHANGE && request->wish.want && request->result.count > 1 &&
        request->result.value[0] == 1)
        check_token(s, request, held);
    check_total(s);
}

/* ---- after an event */

static int awake(const struct sim *s, const struct sim_peer *peer)
{
    return peer->alive && !sim_paused(s, peer);
}

static void check_holder(struct sim *s, struct sim_peer *peer, int lock)
{
    const struct dli_mutex *m = &peer->side[lock].m;
    int64_t until = sim_kinds_keeps(s, lock, peer->index, m->want.number);

    if (until < 0)
        sim_violated(s, "ownership: peer %d believes in %" PRId64 " (side %d), which the server does not have",
                     peer->index, m->want.number, lock);
    else if (until < INT64_MAX && sim_when(s, peer, m->grant.limit) > sim_expiry(s, until))
        sim_violated(s, "deadline: peer %d will trust %" PRId64 " (side %d) longer than the server keeps it",
                     peer->index, m->want.number, lock);
}

static int taken_away(struct sim *s, struct sim_peer *peer, int lock, int64_t number)
{
    struct sim_number *known = sim_number(s, peer, number);

    if (known->forced)
        sim_check_told(s, peer, known, sim_kinds_ends(s, lock, peer->index, number) >= 0);
    return known->forced;
}

static void check_exclusion(struct sim *s)
{
    int64_t holders[2] = {0, 0};

    for (int i = 0; i < s->plan.procs; i++) {
        struct sim_peer *peer = &s->peer[i];

        for (int k = 0; awake(s, peer) && k < s->plan.locks; k++) {
            if (!peer->side[k].m.holder || taken_away(s, peer, k, peer->side[k].m.want.number))
                continue;
            holders[sim_writes(s, k)]++;
            check_holder(s, peer, k);
        }
    }
    if (s->world == SIM_TURNS && holders[0] > 1)
        sim_violated(s, "exclusion: %" PRId64 " holders of a fair lock", holders[0]);
    if (s->world == SIM_RW && (holders[1] > 1 || (holders[1] && holders[0])))
        sim_violated(s, "exclusion: %" PRId64 " writers and %" PRId64 " readers", holders[1], holders[0]);
    if (s->plan.total && holders[0] * s->plan.rules.permits > s->plan.total)
        sim_violated(s, "exclusion: %" PRId64 " holders of %" PRId64 " permits each, there are %" PRId64, holders[0],
                     s->plan.rules.permits, s->plan.total);
}

/* Numbers of live processes on the server that nobody wants or drops. */
static void check_forgotten(struct sim *s)
{
    for (int i = 0; i < s->plan.procs; i++) {
        struct sim_peer *peer = &s->peer[i];

        for (int k = 0; peer->alive && k < s->plan.locks; k++) {
            const struct dli_mutex *m = &peer->side[k].m;

            for (int64_t number = peer->numbers; number > 0 && number > peer->numbers - 24; number--) {
                const struct sim_number *known = sim_number(s, peer, number);

                if (!known->first || known->lock != k || number == m->want.number || number == m->active->drop.number ||
                    s->now <= known->excused || sim_kinds_ends(s, k, i, number) < 0)
                    continue;
                sim_violated(s, "forgotten: peer %d neither wants nor drops %" PRId64 " (side %d)", i, number, k);
            }
        }
    }
}

static void check_served(struct sim *s)
{
    int64_t settled = s->plan.faults_end + 3 * s->plan.lease_max, patience = 4 * sim_patience(s);

    if (s->calm_from > settled)
        settled = s->calm_from;
    for (int i = 0; s->now > settled && i < s->plan.procs; i++) {
        for (int k = 0; s->peer[i].alive && k < s->plan.locks; k++) {
            const struct dli_link *list = &s->peer[i].side[k].m.active->waiting;
            const struct sim_claim *claim = DLI_OBJECT(list->next, struct sim_claim, c.link);

            if (list->next == list || claim->c.until != DLI_NEVER)
                continue;
            if (s->now - (claim->asked_at > settled ? claim->asked_at : settled) > patience)
                sim_violated(s, "liveness: peer %d waits since %" PRId64 " (side %d)", i, claim->asked_at, k);
        }
    }
}

/* ---- permits of silent holders */

/* The numbers whose permits a process has on the server; 0: none. */
static void numbers_there(struct sim *s, int peer, int64_t held[SIM_LOCKS])
{
    int found = 0;

    memset(held, 0, SIM_LOCKS * sizeof *held);
    for (int64_t number = s->peer[peer].numbers; number > 0 && found < SIM_LOCKS; number--)
        if (sim_number(s, &s->peer[peer], number)->first && permits_end(s, 0, peer, number) >= 0)
            held[found++] = number;
}

/* A live holder that was heard keeps its permits. One whose grant is still on its way to it was not heard. */
static void reclaimed_from(struct sim *s, struct sim_peer *peer, int64_t number)
{
    const struct dli_mutex *m = &peer->side[sim_number(s, peer, number)->lock].m;

    sim_number(s, peer, number)->forced = 1;
    if (peer->alive && m->holder && m->want.number == number && s->now > s->calm_from &&
        sim_when(s, peer, m->grant.stamp) > s->calm_from)
        sim_violated(s, "reclaim: peer %d lives, and its permits are given back", peer->index);
}

static void reclaim(struct sim *s)
{
    struct sim_request *request = sim_alloc(s, sizeof *request);
    int64_t left = value_of(find(s, s->lock[0].name)), held[SIM_PROCS][SIM_LOCKS];

    for (int i = 0; i < s->plan.procs; i++)
        numbers_there(s, i, held[i]);
    request->kind = SIM_RECLAIM;
    request->full = 1;
    sim_execute(s, request);
    s->stats.reclaimed += value_of(find(s, s->lock[0].name)) - left;
    for (int i = 0; i < s->plan.procs; i++)
        for (int k = 0; k < SIM_LOCKS; k++)
            if (held[i][k] && permits_end(s, 0, i, held[i][k]) < 0)
                reclaimed_from(s, &s->peer[i], held[i][k]);
}

/* A reclaim from time to time. */
static void reclaim_sometimes(struct sim *s)
{
    if (s->world != SIM_SEMAPHORE || s->now < s->reclaim_at || s->now < s->error_until)
        return;
    s->reclaim_at = s->now + 500 * SIM_MS;
    reclaim(s);
}

/* In some seeds a client of Redisson's ends the hash of a read-write lock from time to time. */
static void cut_sometimes(struct sim *s)
{
    struct sim_key *hash;

    if (s->world != SIM_RW || s->seed % 4 != 3 || s->now < s->cut_at || s->now > s->plan.faults_end)
        return;
    s->cut_at = s->now + s->plan.lease_max / 2;
    if (!(hash = find(s, s->lock[0].name)))
        return;
    sim_trace(s, "a client of Redisson's ends the hash");
    if (s->calm_from < s->now + s->plan.lease_max)
        s->calm_from = s->now + s->plan.lease_max;
    sim_drop_key(&s->store, hash);
}

void sim_kinds_step(struct sim *s)
{
    cut_sometimes(s);
    reclaim_sometimes(s);
    check_exclusion(s);
    check_forgotten(s);
    check_served(s);
}

/* ---- the end */

void sim_kinds_end(struct sim *s)
{
    struct sim_key *left;

    if (s->world == SIM_TURNS)
        sim_turns_over(s);
    if (s->world == SIM_SEMAPHORE) {
        s->now += s->plan.rules.lives + SIM_SECOND;
        reclaim(s);
    }
    left = find(s, s->lock[0].name);
    if (s->world == SIM_SEMAPHORE && (!left || value_of(left) != s->plan.total))
        sim_violated(s, "permits: all are released, and not all are there");
    for (int i = 0; i < s->store.count; i++) {
        const struct sim_key *key = &s->store.keys[i];

        if (key->expires < 0 && s->world == SIM_RW)
            sim_violated(s, "left over: %.*s has no TTL", key->name.size, key->name.at);
    }
}
