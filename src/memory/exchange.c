/*
 * exchange.c: acquire, wait in line, release. world.mutex is held.
 *
 * An owner id is one acquisition and is never used again: sent twice, it gets the same grant. A release of what is not held
 * leaves the line.
 */
#include <string.h>

#include "inner.h"

/* A lease that is so much longer than it may be comes from a clock that was set back. */
enum { SLACK = 1000000 };

void dli_memory_fail(struct dli_request *request, dlock_status status, const char *sentence)
{
    request->status = status;
    dli_fail(request->reason, status, "%s", sentence);
}

/* ---- a grant */

static int64_t end_of(const struct dli_world *world, const struct dli_exchange *exchange)
{
    int64_t lasts = exchange->wish.lease + exchange->delay, now = dli_memory_now(world);

    return exchange->lives || lasts > INT64_MAX - now ? INT64_MAX : now + lasts;
}

static void answer_grant(struct dli_request *request, int64_t token, int64_t tokens)
{
    struct dli_answer *answer = &request->exchange.answer;

    answer->got = DLI_TRY_GRANTED;
    answer->token = token;
    answer->tokens = tokens;
    answer->more = -1;
    answer->left = -1;
    if (token < request->above)
        request->status = dli_fail_forgot(request->reason, token, request->above - 1);
}

int dli_memory_grant(struct dli_world *world, struct dli_memory_cell *cell, struct dli_request *request)
{
    struct dli_exchange *exchange = &request->exchange;
    struct dli_memory_hold *hold = dli_memory_take(cell, request->kind, exchange->want);
    int64_t block = request->kind->handed && exchange->wish.block > 0 ? exchange->wish.block : 1, first, got;

    if (!hold) {
        dli_memory_fail(request, DLOCK_OUT_OF_MEMORY, "no memory for a lock");
        return -1;
    }
    dli_memory_unstand(dli_memory_waiting(cell, exchange->want));
    got = dli_memory_tokens(world, cell, block, exchange->keep_ms, &first);
    hold->token = first + got - 1;
    hold->permits = request->kind->slots ? exchange->wish.permits : 0;
    hold->ends = end_of(world, exchange);
    hold->silent = dli_memory_now(world) + exchange->lives;
    answer_grant(request, first, got);
    return 0;
}

/* The same request again. */
static void grant_again(const struct dli_world *world, struct dli_memory_hold *hold, struct dli_request *request)
{
    int64_t ends = end_of(world, &request->exchange);

    hold->ends = ends > hold->ends ? ends : hold->ends;
    hold->silent = dli_memory_now(world) + request->exchange.lives;
    answer_grant(request, hold->token, 1);
}

/* ---- no grant */

/* What the last request of the waiter saw of this hold is all that is left to it: it was not renewed since. */
static void mend(const struct dli_world *world, struct dli_memory_hold *hold, struct dli_request *request)
{
    struct dli_answer *answer = &request->exchange.answer;
    const struct dli_seen *seen = &request->exchange.wish.seen;
    int64_t now = dli_memory_now(world), most = seen->left;

    if (seen->ends == hold->ends && seen->token == hold->token && hold->ends - now > most + SLACK) {
        answer->cut = hold->ends - now - most;
        hold->ends = now + most;
    }
    answer->seen = (struct dli_seen){hold->ends, hold->token, hold->ends - now};
}

/* When the last of the holds ends; -1: there are none, or one has no end. */
static int64_t last_end(const struct dli_world *world, const struct dli_memory_cell *cell)
{
    int64_t last = -1, now = dli_memory_now(world);

    for (struct dli_link *link = cell->holds.next; link != &cell->holds; link = link->next)
        if (dli_memory_hold_at(link)->ends - now > last)
            last = dli_memory_hold_at(link)->ends - now;
    return last;
}

static void held_by_others(struct dli_world *world, struct dli_memory_cell *cell, struct dli_request *request)
{
    struct dli_answer *answer = &request->exchange.answer;

    answer->got = DLI_TRY_HELD;
    if (cell->shape == DLOCK_KIND_MUTEX && !dli_list_empty(&cell->holds))
        mend(world, dli_memory_hold_at(cell->holds.next), request);
    answer->left = last_end(world, cell);
}

/* Keep a place in line if the request may wait, else give it up. */
static void stand(struct dli_memory_cell *cell, struct dli_request *request)
{
    const struct dli_exchange *exchange = &request->exchange;
    int64_t until = dli_now() + exchange->wish.beat;

    if (exchange->wish.mode == DLI_MODE_TRY)
        dli_memory_unstand(dli_memory_waiting(cell, exchange->want));
    else if (dli_memory_stand(cell, request->kind, exchange->want, until))
        dli_memory_fail(request, DLOCK_OUT_OF_MEMORY, "no memory for a place in line");
}

/* ---- want */

static void decide(struct dli_world *world, struct dli_memory_cell *cell, struct dli_request *request)
{
    struct dli_exchange *exchange = &request->exchange;

    if (request->kind->slots || request->kind->momentary) {
        dli_memory_count_in(world, cell, request);
    } else if (dli_memory_free_for(cell, request->kind, exchange->want, exchange->under)) {
        dli_memory_grant(world, cell, request);
        return;
    } else {
        held_by_others(world, cell, request);
    }
    if (request->status == DLOCK_OK && exchange->answer.got == DLI_TRY_HELD)
        stand(cell, request);
}

static void want(struct dli_world *world, struct dli_memory_cell *cell, struct dli_request *request)
{
    struct dli_exchange *exchange = &request->exchange;
    struct dli_memory_hold *hold = dli_memory_held(cell, exchange->want);

    if (!dli_memory_fits(cell, request->kind)) {
        exchange->answer.got = DLI_TRY_WRONG_KIND;
    } else if (hold) {
        grant_again(world, hold, request);
    } else if (dli_memory_gate_closed(world, cell)) {
        exchange->answer.got = DLI_TRY_GATE;
        dli_memory_unstand(dli_memory_waiting(cell, exchange->want));
    } else {
        decide(world, cell, request);
    }
}

/* ---- drop */

/* The number of an owner of the same client; -1: it is of another one. */
static int64_t number_of_client(const char *owner, const char *client)
{
    return memcmp(owner, client, DLI_UUID_SIZE) == 0 ? dli_memory_number(owner) : -1;
}

/* Nobody learned of an adoption: the hold goes back to its first owner. */
static void undo(struct dli_memory_cell *cell, struct dli_exchange *exchange)
{
    int64_t most = dli_memory_number(exchange->drop);

    for (struct dli_link *link = cell->holds.next; link != &cell->holds; link = link->next) {
        struct dli_memory_hold *hold = dli_memory_hold_at(link);
        int64_t number = number_of_client(hold->owner, exchange->drop);

        if (number < exchange->wish.first || number > most || strcmp(hold->owner, exchange->back) == 0)
            continue;
        memcpy(hold->owner, exchange->back, sizeof hold->owner);
        exchange->answer.released = 1;
        return;
    }
}

static int64_t others_in_line(const struct dli_memory_cell *cell, const char *owner)
{
    int64_t count = 0;

    for (struct dli_link *link = cell->line.next; link != &cell->line; link = link->next)
        count += memcmp(dli_memory_waiter_at(link)->owner, owner, DLI_UUID_SIZE) != 0;
    return count;
}

static void drop(struct dli_world *world, struct dli_memory_cell *cell, struct dli_exchange *exchange)
{
    struct dli_memory_hold *hold = dli_memory_held(cell, exchange->drop);

    if (exchange->wish.first) {
        undo(cell, exchange);
        return;
    }
    dli_memory_unstand(dli_memory_waiting(cell, exchange->drop));
    if (hold && exchange->wish.rest > 0) {
        hold->resting = 1;
        hold->ends = dli_memory_now(world) + exchange->wish.rest;
    } else if (hold) {
        dli_memory_let_go(cell, hold);
        exchange->answer.others = others_in_line(cell, exchange->drop);
    }
    exchange->answer.released = hold != NULL;
    dli_memory_wake(world, cell);
}

void dli_memory_exchange(struct dli_memory *memory, struct dli_request *request)
{
    struct dli_world *world = memory->world;
    struct dli_exchange *exchange = &request->exchange;
    struct dli_memory_cell *cell =
        dli_memory_cell(world, request->place->name, request->place->size, exchange->wish.want != 0);

    memset(&exchange->answer, 0, sizeof exchange->answer);
    exchange->next.count = 0;
    if (!cell && exchange->wish.want) {
        dli_memory_fail(request, DLOCK_OUT_OF_MEMORY, "no memory for a lock");
        return;
    }
    if (cell && exchange->wish.drop)
        drop(world, cell, exchange);
    if (exchange->wish.want)
        want(world, cell, request);
    dli_memory_done(world, cell);
}
