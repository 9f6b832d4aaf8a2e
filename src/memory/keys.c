/*
 * keys.c: the keys of transactions: values that a program keeps beside its locks. world.mutex is held.
 *
 * A key that is not there stays in the table while a round watches it, so that a round sees each change: also when the key
 * was made and deleted again.
 */
#include <stdlib.h>
#include <string.h>

#include "inner.h"

enum { LOOKED_AT = 2 };

static struct dli_memory_key *key_at(const struct dli_slot *slot)
{
    return DLI_OBJECT(slot, struct dli_memory_key, slot);
}

static uint64_t hash(const struct dli_slot *slot)
{
    return key_at(slot)->hash;
}

static int same(const struct dli_slot *a, const struct dli_slot *b)
{
    const struct dli_memory_key *one = key_at(a), *other = key_at(b);

    return one->size == other->size && memcmp(one->name, other->name, one->size) == 0;
}

void dli_memory_begin_keys(struct dli_world *world)
{
    dli_table_init(&world->keys, hash, same);
    dli_list_init(&world->each_key);
}

/* ---- values */

void dli_memory_key_set(struct dli_world *world, struct dli_memory_key *key, char *value, size_t size, int64_t ends)
{
    free(key->value);
    key->value = value;
    key->value_size = size;
    key->ends = ends;
    key->changed = ++world->changes;
}

void dli_memory_key_settle(struct dli_world *world, struct dli_memory_key *key)
{
    if (key->value && key->ends <= dli_memory_now(world))
        dli_memory_key_set(world, key, NULL, 0, INT64_MAX);
}

void dli_memory_key_done(struct dli_world *world, struct dli_memory_key *key)
{
    if (key->value || key->watchers)
        return;
    dli_table_remove(&world->keys, &key->slot);
    dli_list_remove(&key->link);
    free(key);
}

static void free_key(void *owner, struct dli_link *link)
{
    struct dli_memory_key *key = DLI_OBJECT(link, struct dli_memory_key, link);

    if (key->value)
        dli_memory_key_set(owner, key, NULL, 0, INT64_MAX);
    dli_memory_key_done(owner, key);
}

void dli_memory_free_keys(struct dli_world *world)
{
    dli_list_each(&world->each_key, free_key, world);
}

/* ---- finding */

/* Each new key removes what has expired among a few others, all in turn. */
static void sweep(struct dli_world *world)
{
    for (int i = 0; i < LOOKED_AT && !dli_list_empty(&world->each_key); i++) {
        struct dli_memory_key *key = DLI_OBJECT(dli_list_pop(&world->each_key), struct dli_memory_key, link);

        dli_list_append(&world->each_key, &key->link);
        dli_memory_key_settle(world, key);
        dli_memory_key_done(world, key);
    }
}

static struct dli_memory_key *make(struct dli_world *world, const struct dli_memory_key *wanted)
{
    struct dli_memory_key *key = malloc(sizeof *key + wanted->size);

    if (!key)
        return NULL;
    *key = *wanted;
    key->name = memcpy(key->room, wanted->name, wanted->size);
    if (dli_table_add(&world->keys, &key->slot)) {
        free(key);
        return NULL;
    }
    dli_list_append(&world->each_key, &key->link);
    return key;
}

struct dli_memory_key *dli_memory_key(struct dli_world *world, const char *name, size_t size)
{
    struct dli_memory_key wanted = {.hash = dli_memory_hash(name, size), .name = name, .size = size, .ends = INT64_MAX};
    struct dli_slot *slot = dli_table_find(&world->keys, &wanted.slot);

    if (!slot) {
        sweep(world);
        return make(world, &wanted);
    }
    dli_memory_key_settle(world, key_at(slot));
    return key_at(slot);
}
