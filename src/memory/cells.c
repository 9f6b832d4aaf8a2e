/*
 * cells.c: the locks of a world, by name: what is held, who stands in line, and tokens. world.mutex is held.
 *
 * A bucket has the cells whose hashes begin with its number. So a larger table has the same order, and a list of all names
 * can go on in it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "inner.h"

enum { HASH_BITS = 32, MOST_BITS = 24 };

/* ---- the table */

uint32_t dli_memory_hash(const char *name, size_t size)
{
    uint64_t hash = dli_hash(name, size);

    hash ^= hash >> 29;
    return (uint32_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> HASH_BITS);
}

static struct dli_memory_cell **bucket_of(const struct dli_world *world, uint32_t hash)
{
    return &world->bucket[hash >> (HASH_BITS - world->bits)];
}

/* Twice the buckets; as before without memory. */
static void grow(struct dli_world *world)
{
    size_t before = (size_t)1 << world->bits;
    struct dli_memory_cell **old = world->bucket, *cell;

    if (world->cells < 2 * before || world->bits == MOST_BITS)
        return;
    if (!(world->bucket = calloc(2 * before, sizeof(void *)))) {
        world->bucket = old;
        return;
    }
    world->bits++;
    for (size_t i = 0; i < before; i++)
        while ((cell = old[i])) {
            struct dli_memory_cell **bucket = bucket_of(world, cell->hash);

            old[i] = cell->next;
            cell->next = *bucket;
            *bucket = cell;
        }
    free(old);
}

void dli_memory_hold_free(struct dli_memory_hold *hold)
{
    free(hold->offer);
    free(hold);
}

static void cell_free(struct dli_world *world, struct dli_memory_cell *cell)
{
    struct dli_memory_cell **at = bucket_of(world, cell->hash);
    struct dli_link *link;

    while (*at != cell)
        at = &(*at)->next;
    *at = cell->next;
    world->cells--;
    while ((link = dli_list_pop(&cell->holds)))
        dli_memory_hold_free(dli_memory_hold_at(link));
    while ((link = dli_list_pop(&cell->line)))
        free(dli_memory_waiter_at(link));
    free(cell);
}

void dli_memory_free_cells(struct dli_world *world)
{
    for (size_t i = 0; i < (size_t)1 << world->bits; i++)
        while (world->bucket[i])
            cell_free(world, world->bucket[i]);
}

/* ---- what has ended */

/* Whether the waiter's client is still there and asks. */
static int lives(const struct dli_world *world, const struct dli_memory_waiter *waiter)
{
    return waiter->until > dli_now() && dli_memory_store_of(world, waiter->owner);
}

/* What is left of a cell when all is gone that has ended. */
struct rest {
    struct dli_world *world;
    struct dli_memory_cell *cell;
    int64_t now;
    int ended; /* something has */
};

static void end_hold(void *owner, struct dli_link *link)
{
    struct rest *rest = owner;

    if (dli_memory_hold_at(link)->ends > rest->now)
        return;
    dli_memory_let_go(rest->cell, dli_memory_hold_at(link));
    rest->ended = 1;
}

static void end_place(void *owner, struct dli_link *link)
{
    struct rest *rest = owner;

    if (lives(rest->world, dli_memory_waiter_at(link)))
        return;
    dli_memory_unstand(dli_memory_waiter_at(link));
    rest->ended = 1;
}

static int is_empty(const struct dli_memory_cell *cell)
{
    return dli_list_empty(&cell->holds) && dli_list_empty(&cell->line) && !cell->there;
}

static void settle(struct dli_world *world, struct dli_memory_cell *cell)
{
    int64_t now = dli_memory_now(world);
    struct rest rest = {.world = world, .cell = cell, .now = now};

    dli_list_each(&cell->holds, end_hold, &rest);
    dli_list_each(&cell->line, end_place, &rest);
    if (cell->token_until <= now && dli_list_empty(&cell->holds))
        cell->token = 0;
    if (cell->gate <= now)
        cell->gate = 0;
    if (is_empty(cell))
        cell->shape = 0;
    if (rest.ended)
        dli_memory_wake(world, cell);
}

static int is_done(const struct dli_memory_cell *cell)
{
    return is_empty(cell) && !cell->gate && !cell->token;
}

void dli_memory_done(struct dli_world *world, struct dli_memory_cell *cell)
{
    if (cell && is_done(cell))
        cell_free(world, cell);
}

/* Each new cell removes what is left of some others. */
static void sweep(struct dli_world *world)
{
    struct dli_memory_cell **at;

    world->swept = (world->swept + 1) & (((size_t)1 << world->bits) - 1);
    at = &world->bucket[world->swept];
    while (*at) {
        settle(world, *at);
        if (is_done(*at))
            cell_free(world, *at);
        else
            at = &(*at)->next;
    }
}

void dli_memory_settle_all(struct dli_world *world)
{
    for (size_t i = 0; i < (size_t)1 << world->bits; i++)
        sweep(world);
}

struct dli_memory_cell *dli_memory_cell(struct dli_world *world, const char *name, size_t size, int make)
{
    uint32_t hash = dli_memory_hash(name, size);
    struct dli_memory_cell *cell = *bucket_of(world, hash), **bucket;

    while (cell && (cell->hash != hash || cell->size != size || memcmp(cell->name, name, size) != 0))
        cell = cell->next;
    if (cell) {
        settle(world, cell);
        return cell;
    }
    if (!make || !(cell = calloc(1, sizeof *cell + size)))
        return NULL;
    sweep(world);
    cell->hash = hash;
    cell->size = size;
    memcpy(cell->name, name, size);
    dli_list_init(&cell->holds);
    dli_list_init(&cell->line);
    world->cells++;
    grow(world);
    bucket = bucket_of(world, hash);
    cell->next = *bucket;
    *bucket = cell;
    return cell;
}

/* ---- what is in a cell */

int32_t dli_memory_shape(const struct dli_kind *kind)
{
    return kind->family == DLOCK_KIND_FAIR ? DLOCK_KIND_MUTEX : kind->family;
}

int dli_memory_fits(const struct dli_memory_cell *cell, const struct dli_kind *kind)
{
    return !cell || is_empty(cell) || cell->shape == dli_memory_shape(kind);
}

int dli_memory_gate_closed(const struct dli_world *world, const struct dli_memory_cell *cell)
{
    return cell && cell->gate > dli_memory_now(world);
}

int64_t dli_memory_tokens(struct dli_world *world, struct dli_memory_cell *cell, int64_t block, int64_t keep_ms,
                          int64_t *first)
{
    int64_t last = dli_wall() + world->offset, got = 1;

    if (cell->token && cell->token >= last)
        last = cell->token + 1;
    if (cell->token)
        got = block < last - cell->token ? block : last - cell->token;
    cell->token = last;
    cell->token_until = dli_memory_now(world) + keep_ms * DLI_MEMORY_MS;
    *first = last - got + 1;
    return got;
}

struct dli_memory_hold *dli_memory_held(const struct dli_memory_cell *cell, const char *owner)
{
    for (struct dli_link *link = cell->holds.next; link != &cell->holds; link = link->next)
        if (!dli_memory_hold_at(link)->resting && strcmp(dli_memory_hold_at(link)->owner, owner) == 0)
            return dli_memory_hold_at(link);
    return NULL;
}

struct dli_memory_hold *dli_memory_take(struct dli_memory_cell *cell, const struct dli_kind *kind, const char *owner)
{
    struct dli_memory_hold *hold = calloc(1, sizeof *hold);

    if (!hold)
        return NULL;
    hold->kind = kind;
    memcpy(hold->owner, owner, strlen(owner) + 1);
    dli_list_append(&cell->holds, &hold->link);
    cell->shape = dli_memory_shape(kind);
    return hold;
}

void dli_memory_let_go(struct dli_memory_cell *cell, struct dli_memory_hold *hold)
{
    cell->count += cell->there ? hold->permits : 0;
    dli_list_remove(&hold->link);
    dli_memory_hold_free(hold);
}

/* ---- the line */

struct dli_memory_waiter *dli_memory_waiting(const struct dli_memory_cell *cell, const char *owner)
{
    for (struct dli_link *link = cell->line.next; link != &cell->line; link = link->next)
        if (strcmp(dli_memory_waiter_at(link)->owner, owner) == 0)
            return dli_memory_waiter_at(link);
    return NULL;
}

int dli_memory_stand(struct dli_memory_cell *cell, const struct dli_kind *kind, const char *owner, int64_t until)
{
    struct dli_memory_waiter *waiter = dli_memory_waiting(cell, owner);

    if (!waiter) {
        if (!(waiter = calloc(1, sizeof *waiter)))
            return -1;
        waiter->kind = kind;
        memcpy(waiter->owner, owner, strlen(owner) + 1);
        dli_list_append(&cell->line, &waiter->link);
        cell->shape = dli_memory_shape(kind);
    }
    waiter->until = until;
    return 0;
}

void dli_memory_unstand(struct dli_memory_waiter *waiter)
{
    if (!waiter)
        return;
    dli_list_remove(&waiter->link);
    free(waiter);
}
