/*
 * admin.c: several locks at once, release by force, inspection, gates and the list of names. world.mutex is held.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inner.h"

static struct dli_memory_cell *cell_of(struct dli_world *world, const struct dli_request *request)
{
    return dli_memory_cell(world, request->place->name, request->place->size, 0);
}

/* 1: the name belongs to another kind of lock, and the request has failed. */
static int is_wrong(const struct dli_memory_cell *cell, struct dli_request *request)
{
    if (dli_memory_fits(cell, request->kind))
        return 0;
    dli_memory_fail(request, DLOCK_WRONG_KIND, "the key belongs to another kind of lock");
    return 1;
}

/* ---- several mutexes: all of them are free, or nothing happens */

static enum dli_multi_result may_take(struct dli_world *world, const struct dli_multi_row *row)
{
    const struct dli_memory_cell *cell = dli_memory_cell(world, row->place->name, row->place->size, 0);

    if (!dli_memory_fits(cell, row->place->kind))
        return DLI_MULTI_WRONG_KIND;
    if (!cell || dli_memory_held(cell, row->owner))
        return DLI_MULTI_ALL;
    if (dli_memory_gate_closed(world, cell))
        return DLI_MULTI_GATE;
    return dli_list_empty(&cell->holds) && dli_list_empty(&cell->line) ? DLI_MULTI_ALL : DLI_MULTI_IN_USE;
}

/* 0, or -1 without memory. */
static int take(struct dli_world *world, struct dli_multi_row *row, int64_t keep_ms)
{
    struct dli_memory_cell *cell = dli_memory_cell(world, row->place->name, row->place->size, 1);
    struct dli_memory_hold *hold = cell ? dli_memory_held(cell, row->owner) : NULL;
    int64_t ends = dli_memory_now(world) + row->lease;

    if (hold) {
        row->token = hold->token;
        row->tokens = 1;
    } else if (cell && (hold = dli_memory_take(cell, row->place->kind, row->owner))) {
        row->tokens = dli_memory_tokens(world, cell, row->block, keep_ms, &row->token);
        hold->token = row->token + row->tokens - 1;
    } else {
        return -1;
    }
    row->since = 0;
    hold->ends = ends > hold->ends ? ends : hold->ends;
    return 0;
}

static void give_back(struct dli_world *world, const struct dli_multi_row *row)
{
    struct dli_memory_cell *cell = dli_memory_cell(world, row->place->name, row->place->size, 0);

    dli_memory_let_go(cell, dli_memory_held(cell, row->owner));
    dli_memory_wake(world, cell);
}

void dli_memory_acquire_all(struct dli_memory *memory, struct dli_request *request)
{
    struct dli_world *world = memory->world;
    struct dli_multi_row *row = request->multi.row;
    int count = request->multi.count;

    request->multi.result = DLI_MULTI_ALL;
    request->multi.which = -1;
    for (int i = 0; i < count; i++) {
        request->multi.result = may_take(world, &row[i]);
        request->multi.which = i;
        if (request->multi.result != DLI_MULTI_ALL)
            return;
    }
    for (int i = 0; i < count; i++) {
        if (take(world, &row[i], request->multi.keep_ms) == 0)
            continue;
        while (i-- > 0)
            give_back(world, &row[i]);
        dli_memory_fail(request, DLOCK_OUT_OF_MEMORY, "no memory for a lock");
        return;
    }
}

/* ---- release by force */

void dli_memory_force(struct dli_memory *memory, struct dli_request *request)
{
    struct dli_world *world = memory->world;
    struct dli_memory_cell *cell = cell_of(world, request);

    if (is_wrong(cell, request))
        return;
    if (!cell || dli_list_empty(&cell->holds)) {
        request->status = DLOCK_NOT_HELD;
        return;
    }
    while (!dli_list_empty(&cell->holds))
        dli_memory_let_go(cell, dli_memory_hold_at(cell->holds.next));
    dli_memory_wake(world, cell);
    dli_memory_done(world, cell);
}

/* ---- inspection */

static int64_t length_of(const struct dli_memory_cell *cell)
{
    int64_t length = 0;

    for (struct dli_link *link = cell->line.next; link != &cell->line; link = link->next)
        length++;
    return length;
}

void dli_memory_inspect(struct dli_memory *memory, struct dli_request *request)
{
    struct dli_world *world = memory->world;
    struct dli_inspection *inspection = &request->inspection;
    const struct dli_memory_cell *cell = cell_of(world, request);

    if (is_wrong(cell, request))
        return;
    memset(inspection, 0, sizeof *inspection);
    inspection->left_ms = -2;
    inspection->now_us = dli_wall() + world->offset;
    if (!cell)
        return;
    inspection->token = cell->token;
    inspection->waiters = length_of(cell);
    if (!dli_list_empty(&cell->holds) && !request->kind->slots) {
        const struct dli_memory_hold *hold = dli_memory_hold_at(cell->holds.next);

        snprintf(inspection->holder, sizeof inspection->holder, "%s%s", hold->owner, hold->resting ? ":rest" : "");
        inspection->left_ms = (hold->ends - dli_memory_now(world)) / DLI_MEMORY_MS;
    }
}

/* ---- gates */

/* Those in line are sent away. Holders go on: their processes keep others of their own out from now on. */
static void close_gate(struct dli_world *world, struct dli_memory_cell *cell, struct dli_request *request)
{
    cell->gate = dli_memory_now(world) + request->gate_ms * DLI_MEMORY_MS;
    if (cell->shape != DLOCK_KIND_MUTEX) {
        dli_memory_tell_all(world, cell);
        return;
    }
    dli_memory_tell_gate(world, cell, request->kind, request->gate_ms);
    while (!dli_list_empty(&cell->line))
        dli_memory_unstand(dli_memory_waiter_at(cell->line.next));
}

static void open_gate(struct dli_world *world, struct dli_memory_cell *cell, const struct dli_request *request)
{
    cell->gate = 0;
    if (cell->shape == DLOCK_KIND_MUTEX)
        dli_memory_tell_gate(world, cell, request->kind, 0);
    dli_memory_done(world, cell);
}

void dli_memory_gate(struct dli_memory *memory, struct dli_request *request)
{
    struct dli_world *world = memory->world;
    struct dli_memory_cell *cell =
        dli_memory_cell(world, request->place->name, request->place->size, request->gate_ms > 0);

    if (is_wrong(cell, request))
        return;
    if (request->gate_ms > 0 && cell)
        close_gate(world, cell, request);
    else if (request->gate_ms > 0)
        dli_memory_fail(request, DLOCK_OUT_OF_MEMORY, "no memory for a gate");
    else if (dli_memory_gate_closed(world, cell))
        open_gate(world, cell, request);
    else
        request->status = DLOCK_UNCHANGED;
}

void dli_memory_gate_left(struct dli_memory *memory, struct dli_request *request)
{
    struct dli_world *world = memory->world;
    const struct dli_memory_cell *cell = cell_of(world, request);

    request->gate_ms = -1;
    if (dli_memory_gate_closed(world, cell))
        request->gate_ms = (cell->gate - dli_memory_now(world)) / DLI_MEMORY_MS + 1;
}

/* ---- names: those whose tokens are remembered, in order of their hashes; the place in the list is such a hash */

enum { AT_ONCE = 500, HASH_BITS = 32 };

/* The room for the names of a bucket. */
static size_t room_of(const struct dli_memory_cell *cell)
{
    size_t room = 0;

    for (; cell; cell = cell->next)
        room += cell->size + 1;
    return room;
}

/* 0, or -1 without memory. */
static int add_bucket(const struct dli_world *world, const struct dli_memory_cell *cell, struct dli_request *request)
{
    char *names = realloc(request->list.names, request->list.size + room_of(cell) + 1);

    if (!names)
        return -1;
    request->list.names = names;
    for (; cell; cell = cell->next) {
        if (dli_list_empty(&cell->holds) && cell->token_until <= dli_memory_now(world))
            continue;
        memcpy(names + request->list.size, cell->name, cell->size);
        request->list.size += cell->size;
        names[request->list.size++] = '\0';
    }
    return 0;
}

void dli_memory_list(struct dli_memory *memory, struct dli_request *request)
{
    struct dli_world *world = memory->world;
    int shift = HASH_BITS - world->bits;
    uint64_t at = request->list.at >> shift, end = UINT64_C(1) << world->bits;

    request->list.names = NULL;
    request->list.size = 0;
    for (size_t count = 0; at < end && count < AT_ONCE; at++) {
        for (const struct dli_memory_cell *cell = world->bucket[at]; cell; cell = cell->next)
            count++;
        if (!world->bucket[at])
            continue;
        if (add_bucket(world, world->bucket[at], request)) {
            dli_memory_fail(request, DLOCK_OUT_OF_MEMORY, "no memory for names");
            return;
        }
    }
    request->list.at = at < end ? at << shift : 0;
}
