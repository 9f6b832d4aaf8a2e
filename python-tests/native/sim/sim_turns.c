/*
 * sim_turns.c: the fair lock: the order in its line, and its turns in memory (--world turns), as src/client/pass.c has them.
 * There every owner has a machine and a place in line of its own. The last machine of a process has no owner: it gives
 * back what the server grants to a number that has had its turn. See sim.h.
 *
 *   order      the lock goes to the first in line, by the server and in memory
 *   exclusion, ownership, forgotten, liveness: as in sim_kinds_check.c
 *   fencing    tokens of the server only go up, and so do those of holders
 *   stray      a number that has left the line after its turn is not granted again
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

/* ---- the order in line */

/* The number of a wire id; NULL when it is not one. */
static struct sim_number *number_of(struct sim *s, const struct sim_text *id)
{
    char digits[SIM_TEXT_MAX + 1];

    memcpy(digits, id->at, id->size);
    digits[id->size] = '\0';
    for (int i = 0; id->size > 37 && i < s->plan.procs; i++)
        if (memcmp(id->at, s->peer[i].uuid, 36) == 0)
            return sim_number(s, &s->peer[i], strtoll(digits + 37, NULL, 10));
    return NULL;
}

/* The place of a number in the order of arrival; 0: it is not known to be in line. */
static int64_t place(const struct sim *s, const struct sim_number *number)
{
    return number && number->placed == s->round ? number->place : 0;
}

/* Who comes in the same microsecond has the same place: the scripts know no order among them. */
static int64_t next_place(struct sim *s)
{
    if (s->places == 0 || s->store.now != s->placed_at)
        s->places++;
    s->placed_at = s->store.now;
    return s->places;
}

static void give_places(struct sim *s, const struct sim_key *key)
{
    for (int i = 0; key && i < key->count; i++) {
        struct sim_number *number = number_of(s, &key->fields[i].name);

        if (!number || number->placed == s->round + 1)
            continue;
        if (!place(s, number))
            number->place = next_place(s);
        number->placed = s->round + 1;
    }
}

/* A waiter whose record is there has a place. One that was silent until it was forgotten joins at the end. */
static void note_places(struct sim *s)
{
    give_places(s, find(s, s->lock[0].about));
    s->round++;
}

void sim_fair_ran(struct sim *s, const struct sim_seen *before)
{
    struct sim_seen after = sim_look(s, 0);
    struct sim_key *line = find(s, s->lock[0].line);
    int64_t own = after.peer >= 0 ? place(s, sim_number(s, &s->peer[after.peer], after.number)) : 0;

    if (after.peer >= 0 && (after.peer != before->peer || after.number != before->number))
        for (int i = 0; line && i < line->count; i++) {
            int64_t other = place(s, number_of(s, &line->fields[i].name));

            if (other && (!own || other < own))
                sim_violated(s, "order: peer %d gets the lock, %.*s came before", after.peer, line->fields[i].name.size,
                             line->fields[i].name.at);
        }
    note_places(s);
}

/* ---- turns in memory */

int64_t sim_turns_end(struct sim *s, int peer, int64_t number)
{
    struct sim_seen seen = sim_look(s, 0);

    return seen.peer == peer && seen.number == number ? seen.expires : -1;
}

int sim_turns_side(const struct sim *s, const struct sim_peer *peer, int64_t number)
{
    for (int i = 0; i < s->plan.locks - 1; i++)
        if (peer->side[i].wanted == number)
            return i;
    return s->plan.locks - 1;
}

void sim_turns_begin(struct sim_side *side, const char *text)
{
    int used = 0;
    int64_t number;

    side->turns = side->m.want.number;
    side->served = side->next.count = 0;
    for (; sscanf(text, "%" SCNd64 "%n", &number, &used) == 1 && side->next.count < DLI_NEXT_MAX; text += used) {
        side->next.number[side->next.count++] = number;
        used += text[used] == ',';
    }
}

/* The server's line at the grant decides. */
static void check_order(struct sim *s, struct sim_peer *peer, const struct sim_side *giver, int64_t heir)
{
    const struct sim_number *number = sim_number(s, peer, giver->turns);

    if (giver->served >= SIM_SIDES || number->follows[giver->served] != heir)
        sim_violated(s, "order: peer %d passes the lock on to %" PRId64 ", which was not next in line", peer->index,
                     heir);
}

int sim_turns_next(struct sim *s, struct sim_peer *peer, int from, int to)
{
    const struct sim_side *side = &peer->side[from];

    if (to == s->plan.locks - 1 || side->turns != side->m.want.number || side->served >= side->next.count)
        return 0;
    if (s->driver_mutant == 20)
        return 1;
    return peer->side[to].m.want.number == side->next.number[side->served];
}

void sim_turns_move(struct sim *s, struct sim_peer *peer, int from, int to)
{
    struct sim_side *giver = &peer->side[from], *heir = &peer->side[to];
    struct sim_number *number = sim_number(s, peer, heir->m.want.number);

    check_order(s, peer, giver, heir->m.want.number);
    giver->next.number[giver->served] = heir->m.want.number;
    number->had_at = s->now;
    number->excused = s->now + 2 * dli_mutex_beat(&heir->m) + 3 * s->plan.lease_max;
    heir->turns = giver->turns;
    heir->next = giver->next;
    heir->served = giver->served + 1;
    heir->wanted = giver->wanted;
    giver->turns = giver->wanted = 0;
}

void sim_turns_tell(const struct sim *s, const struct sim_side *side, struct sim_request *request)
{
    if (s->world != SIM_TURNS || !side->turns || request->wish.drop != side->turns || s->driver_mutant == 21)
        return;
    request->served = side->next;
    request->served.count = side->served;
}

void sim_turns_stray(struct sim *s, struct sim_peer *peer, int64_t number)
{
    dli_mutex_give_back(&peer->side[s->plan.locks - 1].m, number, sim_clock(s, peer));
}

static void note_left(struct sim *s, const struct sim_request *request)
{
    for (int i = 0; i < request->served.count; i++)
        sim_number(s, &s->peer[request->peer], request->served.number[i])->left = 1;
}

/* Who comes next in line behind a grant, as far as they are of the same process. */
static void note_followers(struct sim *s, struct sim_number *number, int peer)
{
    const struct sim_key *line = find(s, s->lock[0].line);

    memset(number->follows, 0, sizeof number->follows);
    for (int i = 0; line && i < line->count && i < SIM_SIDES; i++) {
        const struct sim_number *other = number_of(s, &line->fields[i].name);

        if (memcmp(line->fields[i].name.at, s->peer[peer].uuid, 36) != 0)
            return;
        number->follows[i] = other - s->peer[peer].number;
    }
}

void sim_turns_ran(struct sim *s, const struct sim_request *request, const struct sim_seen *before)
{
    struct sim_seen after = sim_look(s, 0);
    struct sim_lock *lock = &s->lock[0];
    struct sim_number *number;

    sim_fair_ran(s, before);
    note_left(s, request);
    if (after.peer < 0 || after.fence == before->fence)
        return;
    number = sim_number(s, &s->peer[after.peer], after.number);
    if (after.fence <= lock->fence_max)
        sim_violated(s, "fencing: token %" PRId64 " is reserved after %" PRId64, after.fence, lock->fence_max);
    if (number->left && s->driver_mutant != 20 && !s->forgets)
        sim_violated(s, "stray: peer %d is granted %" PRId64 ", which has left the line", after.peer, after.number);
    if (number->had_at > s->calm_from && number->had_at)
        sim_violated(s, "stray: peer %d is granted %" PRId64 ", which has had its turn", after.peer, after.number);
    note_followers(s, number, after.peer);
    s->stats.wire_grants += before->peer != after.peer || before->number != after.number;
    number->lock = sim_turns_side(s, &s->peer[after.peer], after.number);
    number->first = number->first ? number->first : lock->fence_max + 1;
    number->last = lock->fence_max = after.fence;
}

void sim_turns_granted(struct sim *s, const struct sim_claim *claim)
{
    if (claim->token <= s->lock[0].token_max)
        sim_violated(s, "fencing: token %" PRId64 " comes after %" PRId64, claim->token, s->lock[0].token_max);
    s->lock[0].token_max = claim->token;
}

void sim_turns_over(struct sim *s)
{
    struct sim_seen seen = sim_look(s, 0);
    const struct sim_key *line = find(s, s->lock[0].line);

    if (seen.peer >= 0 && s->peer[seen.peer].alive && s->now > s->calm_from &&
        s->now > sim_number(s, &s->peer[seen.peer], seen.number)->excused)
        sim_violated(s, "left over: the lock still belongs to peer %d as %" PRId64, seen.peer, seen.number);
    if (line && s->plan.calm)
        sim_violated(s, "left over: %d in line", line->count);
}
