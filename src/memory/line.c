/*
 * line.c: who may get a lock now, and who is told so. world.mutex is held.
 *
 * Mutexes, fair and read-write locks have one line each, in order of arrival: who stands first gets the lock first, and a
 * reader waits only for the writers before it. Semaphores and latches have no order: all who wait are told, and ask.
 */
#include <stdlib.h>
#include <string.h>

#include "inner.h"

static int is_read(const struct dli_kind *kind)
{
    return kind->id == DLOCK_KIND_READ;
}

/* Whether holds of others keep this kind out. */
static int kept_out(const struct dli_memory_cell *cell, const struct dli_kind *kind)
{
    for (struct dli_link *link = cell->holds.next; link != &cell->holds; link = link->next)
        if (!is_read(kind) || !is_read(dli_memory_hold_at(link)->kind))
            return 1;
    return 0;
}

/* Whether somebody stands before the owner who must get the lock first. */
static int is_behind(const struct dli_memory_cell *cell, const struct dli_kind *kind, const char *owner)
{
    for (struct dli_link *link = cell->line.next; link != &cell->line; link = link->next) {
        const struct dli_memory_waiter *waiter = dli_memory_waiter_at(link);

        if (strcmp(waiter->owner, owner) == 0)
            return 0;
        if (!is_read(kind) || !is_read(waiter->kind))
            return 1;
    }
    return 0;
}

int dli_memory_free_for(const struct dli_memory_cell *cell, const struct dli_kind *kind, const char *owner,
                        const char *under)
{
    if (*under && dli_memory_held(cell, under))
        return 1;
    return !kept_out(cell, kind) && !is_behind(cell, kind, owner);
}

int64_t dli_memory_number(const char *owner)
{
    return strtoll(owner + DLI_UUID_SIZE + 1, NULL, 10);
}

static int is_ordered(const struct dli_memory_cell *cell)
{
    return cell->shape == DLOCK_KIND_MUTEX || cell->shape == DLOCK_KIND_WRITE;
}

static int same_client(const char *owner, const char *other)
{
    return memcmp(owner, other, DLI_UUID_SIZE) == 0;
}

void dli_memory_tell_all(struct dli_world *world, struct dli_memory_cell *cell)
{
    for (struct dli_link *link = cell->line.next; link != &cell->line; link = link->next) {
        const struct dli_memory_waiter *waiter = dli_memory_waiter_at(link);

        dli_memory_tell(world, cell, waiter->kind, waiter->owner, dli_memory_number(waiter->owner));
    }
}

void dli_memory_wake(struct dli_world *world, struct dli_memory_cell *cell)
{
    const char *told = "";

    for (struct dli_link *link = cell->line.next; link != &cell->line; link = link->next) {
        const struct dli_memory_waiter *waiter = dli_memory_waiter_at(link);
        int ordered = is_ordered(cell);

        if (ordered && kept_out(cell, waiter->kind))
            return;
        if (ordered)
            dli_memory_tell(world, cell, waiter->kind, waiter->owner, dli_memory_number(waiter->owner));
        else if (!*told || !same_client(told, waiter->owner))
            dli_memory_tell(world, cell, waiter->kind, waiter->owner, 0);
        told = waiter->owner;
        if (ordered && !is_read(waiter->kind))
            return;
    }
}
