/*
 * counters.c: semaphores, permit semaphores and latches: a count of what is left, and who has the rest. world.mutex is held.
 */
#include <string.h>

#include "inner.h"

/* ---- acquire */

/* When the first lease ends, or -1. */
static int64_t first_end(const struct dli_world *world, const struct dli_memory_cell *cell)
{
    int64_t first = INT64_MAX;

    for (struct dli_link *link = cell->holds.next; link != &cell->holds; link = link->next)
        if (dli_memory_hold_at(link)->ends < first)
            first = dli_memory_hold_at(link)->ends;
    return first == INT64_MAX ? -1 : first - dli_memory_now(world);
}

static void pass_latch(const struct dli_memory_cell *cell, struct dli_answer *answer)
{
    int open = !cell->there || cell->count == 0;

    answer->got = open ? DLI_TRY_GRANTED : DLI_TRY_HELD;
    answer->token = answer->tokens = open;
    answer->left = -1;
}

void dli_memory_count_in(struct dli_world *world, struct dli_memory_cell *cell, struct dli_request *request)
{
    struct dli_answer *answer = &request->exchange.answer;
    int64_t permits = request->exchange.wish.permits;

    if (request->kind->momentary) {
        pass_latch(cell, answer);
        if (answer->got == DLI_TRY_GRANTED)
            dli_memory_unstand(dli_memory_waiting(cell, request->exchange.want));
    } else if (cell->count < permits) {
        answer->got = DLI_TRY_HELD;
        answer->left = first_end(world, cell);
    } else if (dli_memory_grant(world, cell, request) == 0) {
        cell->count -= permits;
        answer->more = cell->count;
        answer->left = first_end(world, cell);
    }
}

/* ---- read and change */

static int64_t permits_out(const struct dli_memory_cell *cell)
{
    int64_t out = 0;

    for (struct dli_link *link = cell->holds.next; link != &cell->holds; link = link->next)
        out += dli_memory_hold_at(link)->permits;
    return out;
}

struct reclaimed {
    struct dli_memory_cell *cell;
    int64_t since, back;
};

static void reclaim_one(void *owner, struct dli_link *link)
{
    struct dli_memory_hold *hold = dli_memory_hold_at(link);
    struct reclaimed *all = owner;

    if (hold->silent >= all->since)
        return;
    all->back += all->cell->there ? hold->permits : 0;
    dli_memory_let_go(all->cell, hold);
}

/* Permits of holders whose clients have been silent for so long come back. */
static int64_t reclaim(struct dli_world *world, struct dli_memory_cell *cell, int64_t silent_ms)
{
    struct reclaimed all = {.cell = cell, .since = dli_memory_now(world) - silent_ms * DLI_MEMORY_MS};

    dli_list_each(&cell->holds, reclaim_one, &all);
    return all.back;
}

static int is_word(const struct dli_request *request, const char *word)
{
    return strcmp(request->change.what, word) == 0;
}

/* 1: the request only reads. */
static int read(const struct dli_memory_cell *cell, struct dli_request *request)
{
    int64_t left = cell && cell->there ? cell->count : 0, out = cell ? permits_out(cell) : 0;

    if (is_word(request, "count"))
        request->change.value = left;
    else if (is_word(request, "acquired"))
        request->change.value = out;
    else if (is_word(request, "permits"))
        request->change.value = cell && cell->there ? left + out : 0;
    else
        return 0;
    return 1;
}

/* "set", and "setpermits": make number the total. */
static void set(struct dli_memory_cell *cell, struct dli_request *request)
{
    int64_t more = request->change.number - cell->count - permits_out(cell);

    if (!cell->there)
        cell->count = request->change.number;
    else if (is_word(request, "set"))
        request->status = DLOCK_UNCHANGED;
    else
        cell->count += more;
    cell->there = 1;
    request->change.value = cell->count;
}

static void count_down(struct dli_memory_cell *cell, struct dli_request *request)
{
    cell->count = cell->there && cell->count > request->change.number ? cell->count - request->change.number : 0;
    cell->there = cell->count > 0;
    request->change.value = cell->count;
}

static void change(struct dli_world *world, struct dli_memory_cell *cell, struct dli_request *request)
{
    int64_t number = request->change.number;

    if (is_word(request, "add")) {
        cell->count = cell->there ? cell->count + number : number;
        cell->there = 1;
        request->change.value = cell->count;
    } else if (is_word(request, "drain")) {
        request->change.value = cell->there ? cell->count : 0;
        cell->count = 0;
    } else if (is_word(request, "reclaim")) {
        request->change.value = reclaim(world, cell, number);
    } else if (is_word(request, "down")) {
        count_down(cell, request);
    } else {
        set(cell, request);
    }
}

void dli_memory_change(struct dli_memory *memory, struct dli_request *request)
{
    struct dli_world *world = memory->world;
    struct dli_memory_cell *cell = dli_memory_cell(world, request->place->name, request->place->size, 0);

    if (!dli_memory_fits(cell, request->kind)) {
        dli_memory_fail(request, DLOCK_WRONG_KIND, "the key does not belong to this kind of lock");
        return;
    }
    if (read(cell, request))
        return;
    if (!cell && !(cell = dli_memory_cell(world, request->place->name, request->place->size, 1))) {
        dli_memory_fail(request, DLOCK_OUT_OF_MEMORY, "no memory for a lock");
        return;
    }
    change(world, cell, request);
    cell->shape = dli_memory_shape(request->kind);
    dli_memory_wake(world, cell);
    dli_memory_done(world, cell);
}
