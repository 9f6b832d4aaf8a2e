/*
 * renew.c: renewals, and the move of a hold to another owner. world.mutex is held.
 */
#include <stdlib.h>
#include <string.h>

#include "inner.h"

/* A lease is only ever made longer, and by a little at least: so a waiter sees that it was renewed. */
static void extend(const struct dli_world *world, struct dli_memory_hold *hold, int64_t lease)
{
    int64_t ends = dli_memory_now(world) + lease;

    if (hold->kind->lasting)
        hold->silent = ends;
    else
        hold->ends = ends > hold->ends ? ends : hold->ends + 1;
}

/* The hold of the row: its owner's, or that of an earlier try to move it. */
static struct dli_memory_hold *find(const struct dli_memory_cell *cell, const struct dli_renewal *row)
{
    struct dli_memory_hold *hold = dli_memory_held(cell, row->owner);
    const char *heir = row->transfer ? row->transfer->heir : "";
    int64_t most = *heir ? dli_memory_number(heir) : 0;

    if (hold || !*heir)
        return hold;
    for (struct dli_link *link = cell->holds.next; link != &cell->holds; link = link->next) {
        int64_t number = dli_memory_number(dli_memory_hold_at(link)->owner);

        if (!dli_memory_hold_at(link)->resting && number >= row->transfer->first && number <= most &&
            memcmp(dli_memory_hold_at(link)->owner, heir, DLI_UUID_SIZE) == 0)
            return dli_memory_hold_at(link);
    }
    return NULL;
}

/* The heir's process learns of a closed gate as the holder's did. */
static void move(struct dli_world *world, struct dli_memory_cell *cell, struct dli_memory_hold *hold,
                 const struct dli_renewal *row)
{
    memcpy(hold->owner, row->transfer->heir, sizeof hold->owner);
    if (dli_memory_gate_closed(world, cell))
        dli_memory_tell_gate(world, cell, row->kind, (cell->gate - dli_memory_now(world)) / DLI_MEMORY_MS + 1);
}

/* The owner offers its hold. */
static void offer(const struct dli_world *world, struct dli_memory_hold *hold, struct dli_renewal *row)
{
    struct dli_transfer *transfer = row->transfer;
    struct dli_memory_offer *offer = hold->offer;

    if (offer && strcmp(offer->owner, row->owner) == 0 && offer->attempt >= transfer->attempt &&
        strcmp(offer->proof, transfer->proof) != 0) {
        row->kept = 0;
        transfer->forged = 1;
        return;
    }
    if (!offer && !(offer = hold->offer = malloc(sizeof *offer))) {
        row->kept = -1;
        return;
    }
    memcpy(offer->owner, row->owner, sizeof offer->owner);
    memcpy(offer->proof, transfer->proof, sizeof offer->proof);
    offer->attempt = transfer->attempt;
    offer->token = transfer->token;
    offer->lease = transfer->lease;
    extend(world, hold, row->lease);
}

/* The heir takes the hold, if the owner has offered it and the proof is right. */
static void adopt(struct dli_world *world, struct dli_memory_cell *cell, struct dli_memory_hold *hold,
                  struct dli_renewal *row)
{
    struct dli_transfer *transfer = row->transfer;
    const struct dli_memory_offer *offer = hold->offer;
    int offered = offer && strcmp(offer->owner, row->owner) == 0;

    transfer->forged = offered && strcmp(offer->proof, transfer->proof) != 0;
    row->kept = offered && !transfer->forged;
    if (!row->kept)
        return;
    transfer->token = offer->token;
    transfer->lease = offer->lease;
    extend(world, hold, offer->lease + row->delay);
    if (strcmp(hold->owner, transfer->heir) != 0)
        move(world, cell, hold, row);
}

static void renew_row(struct dli_world *world, struct dli_renewal *row)
{
    struct dli_memory_cell *cell = dli_memory_cell(world, row->place->name, row->place->size, 0);
    struct dli_memory_hold *hold = cell ? find(cell, row) : NULL;

    row->kept = hold != NULL;
    row->since = 0;
    if (!hold)
        return;
    if (row->transfer && *row->transfer->heir)
        adopt(world, cell, hold, row);
    else if (row->transfer)
        offer(world, hold, row);
    else
        extend(world, hold, row->lease);
}

void dli_memory_renew(struct dli_memory *memory, struct dli_request *request)
{
    struct dli_renewal *row = request->renew.row;

    for (int i = 0; i < request->renew.count; i++) {
        if (dli_memory_fault(memory, DLI_MEMORY_RENEWALS, row[i].place))
            row[i].kept = -1;
        else
            renew_row(memory->world, &row[i]);
    }
}
