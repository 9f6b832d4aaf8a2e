/*
 * world.c: worlds, who uses them, and messages to their clients. The list of named worlds is made anew in a child of a
 * fork: a thread of the parent may have had its mutex.
 */
#include <stdlib.h>
#include <string.h>

#include "inner.h"

struct registry {
    uint64_t generation;
    pthread_mutex_t mutex;
    struct dli_link worlds;
};

static struct registry *registry; /* atomic */

/* The list of this process. NULL without memory. */
static struct registry *own_registry(void)
{
    struct registry *seen = __atomic_load_n(&registry, __ATOMIC_ACQUIRE), *made;

    if (seen && seen->generation == dli_fork_generation())
        return seen;
    if (!(made = calloc(1, sizeof *made)))
        return NULL;
    made->generation = dli_fork_generation();
    dli_list_init(&made->worlds);
    pthread_mutex_init(&made->mutex, NULL);
    if (__atomic_compare_exchange_n(&registry, &seen, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    pthread_mutex_destroy(&made->mutex);
    free(made);
    return seen;
}

/* ---- life */

enum { FIRST_BITS = 6 };

/* Where a world's clock begins, so that it stays above 0 however often it is set back. */
#define BEGIN (INT64_C(1) << 60)

static struct dli_world *world_new(const char *name)
{
    struct dli_world *world = calloc(1, sizeof *world);

    if (!world)
        return NULL;
    if (!(world->bucket = calloc((size_t)1 << FIRST_BITS, sizeof(void *)))) {
        free(world);
        return NULL;
    }
    world->bits = FIRST_BITS;
    memcpy(world->name, name, strlen(name) + 1);
    world->generation = dli_fork_generation();
    pthread_mutex_init(&world->mutex, NULL);
    dli_list_init(&world->link);
    dli_list_init(&world->stores);
    dli_memory_begin_keys(world);
    return world;
}

static void world_free(struct dli_world *world)
{
    free(world->bucket);
    pthread_mutex_destroy(&world->mutex);
    free(world);
}

/* The list's mutex held. */
static struct dli_world *find(struct registry *of, const char *name)
{
    for (struct dli_link *link = of->worlds.next; link != &of->worlds && *name; link = link->next)
        if (strcmp(DLI_OBJECT(link, struct dli_world, link)->name, name) == 0)
            return DLI_OBJECT(link, struct dli_world, link);
    return NULL;
}

int dli_memory_enter(struct dli_memory *memory)
{
    struct registry *of = own_registry();
    struct dli_world *world;

    if (memory->world && memory->world->generation == dli_fork_generation())
        return 0;
    dli_list_init(&memory->link); /* after a fork it is in a list of the parent */
    if (!of)
        return -1;
    pthread_mutex_lock(&of->mutex);
    if (!(world = find(of, memory->name)) && (world = world_new(memory->name)) && *memory->name)
        dli_list_append(&of->worlds, &world->link);
    if (world) {
        pthread_mutex_lock(&world->mutex);
        dli_list_append(&world->stores, &memory->link);
        world->refs++;
        pthread_mutex_unlock(&world->mutex);
    }
    memory->world = world;
    pthread_mutex_unlock(&of->mutex);
    return world ? 0 : -1;
}

static void drop_messages(struct dli_memory *memory)
{
    struct dli_link *link;

    while ((link = dli_list_pop(&memory->messages)))
        free(DLI_OBJECT(link, struct dli_memory_message, link));
}

static int is_shut(const struct dli_memory *memory)
{
    for (int i = 0; i < DLI_MEMORY_LANES; i++)
        if (memory->lane[i] && !memory->lane[i]->shut)
            return 0;
    return 1;
}

/* The mutexes of the list and of the world held: the store hears nothing more. The last one ends the world's locks. */
static void quit(struct dli_memory *memory)
{
    struct dli_world *world = memory->world;

    dli_list_remove(&memory->link);
    drop_messages(memory);
    if (!dli_list_empty(&world->stores))
        return;
    dli_list_remove(&world->link);
    dli_memory_free_cells(world);
    dli_memory_free_keys(world);
}

void dli_memory_quit(struct dli_memory *memory)
{
    struct dli_world *world = memory->world;
    struct registry *of = own_registry();

    if (!of || world->generation != dli_fork_generation())
        return;
    pthread_mutex_lock(&of->mutex);
    pthread_mutex_lock(&world->mutex);
    if (is_shut(memory))
        quit(memory);
    pthread_mutex_unlock(&world->mutex);
    pthread_mutex_unlock(&of->mutex);
}

void dli_memory_leave(struct dli_memory *memory)
{
    struct dli_world *world = memory->world;
    struct registry *of = own_registry();
    int last;

    if (!world || !of || world->generation != dli_fork_generation())
        return;
    pthread_mutex_lock(&of->mutex);
    pthread_mutex_lock(&world->mutex);
    quit(memory);
    last = --world->refs == 0;
    pthread_mutex_unlock(&world->mutex);
    pthread_mutex_unlock(&of->mutex);
    if (last)
        world_free(world);
}

/* ---- world.mutex held */

int64_t dli_memory_now(const struct dli_world *world)
{
    return BEGIN + dli_now() + world->offset;
}

struct dli_memory *dli_memory_store_of(const struct dli_world *world, const char *owner)
{
    for (struct dli_link *link = world->stores.next; link != &world->stores; link = link->next) {
        struct dli_memory *memory = DLI_OBJECT(link, struct dli_memory, link);

        if (memory->lane[0] && dli_uuid_same(memory->store.uuid, owner))
            return memory;
    }
    return NULL;
}

void dli_memory_wake_lane(struct dli_lane *lane)
{
    lane->fresh = 1;
    if (lane->sleeping)
        dli_wake_set(lane->wake_fd);
    lane->sleeping = 0;
}

/* family and number: as in struct dli_message_target. */
static void send(struct dli_memory *memory, enum dli_memory_what what, const char *name, size_t size, int32_t family,
                 int64_t number, int64_t ms)
{
    struct dli_memory_message *message;

    if (!memory->lane[0] || memory->lane[0]->shut)
        return;
    message = dli_memory_cut_until(memory) ? NULL : calloc(1, sizeof *message + size);
    if (message) {
        message->what = what;
        message->ms = ms;
        memcpy(message->name, name, size);
        message->target = (struct dli_message_target){family, message->name, size, number};
        dli_list_append(&memory->messages, &message->link);
    }
    memory->missed |= !message;
    dli_memory_wake_lane(memory->lane[0]);
}

void dli_memory_tell(struct dli_world *world, const struct dli_memory_cell *cell, const struct dli_kind *kind,
                     const char *owner, int64_t number)
{
    struct dli_memory *memory = dli_memory_store_of(world, owner);

    if (memory)
        send(memory, DLI_MEMORY_HINT, cell->name, cell->size, kind->family, number, 0);
}

void dli_memory_tell_lapsed(struct dli_world *world)
{
    for (struct dli_link *link = world->stores.next; link != &world->stores; link = link->next)
        send(DLI_OBJECT(link, struct dli_memory, link), DLI_MEMORY_LAPSED, "", 0, 0, 0, 0);
}

static int concerns(const struct dli_memory *memory, const struct dli_memory_cell *cell)
{
    for (struct dli_link *link = cell->holds.next; link != &cell->holds; link = link->next)
        if (dli_uuid_same(memory->store.uuid, dli_memory_hold_at(link)->owner))
            return 1;
    for (struct dli_link *link = cell->line.next; link != &cell->line; link = link->next)
        if (dli_uuid_same(memory->store.uuid, dli_memory_waiter_at(link)->owner))
            return 1;
    return 0;
}

void dli_memory_tell_gate(struct dli_world *world, const struct dli_memory_cell *cell, const struct dli_kind *kind,
                          int64_t ms)
{
    for (struct dli_link *link = world->stores.next; link != &world->stores; link = link->next) {
        struct dli_memory *memory = DLI_OBJECT(link, struct dli_memory, link);

        if (memory->lane[0] && concerns(memory, cell))
            send(memory, DLI_MEMORY_GATE, cell->name, cell->size, kind->family, 0, ms);
    }
}

void dli_memory_stir(struct dli_world *world)
{
    for (struct dli_link *link = world->stores.next; link != &world->stores; link = link->next) {
        struct dli_memory *memory = DLI_OBJECT(link, struct dli_memory, link);

        for (int i = 0; i < DLI_MEMORY_LANES; i++)
            if (memory->lane[i])
                dli_memory_wake_lane(memory->lane[i]);
    }
    __atomic_add_fetch(&world->changed, 1, __ATOMIC_SEQ_CST);
    dli_futex_wake(&world->changed, INT32_MAX);
}
