/*
 * table.c: see table.h. With n buckets, m is the largest power of two up to n. A slot is in bucket hash mod 2 m, if there
 * is one, else in bucket hash mod m. So a new bucket takes slots from one other only.
 */
#include "table.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST = 64 };

/* The largest power of two up to the number of buckets. */
static size_t whole(const struct dli_table *table)
{
    return (size_t)1 << (63 - __builtin_clzl(table->buckets));
}

void dli_table_init(struct dli_table *table, uint64_t (*hash)(const struct dli_slot *slot),
                    int (*same)(const struct dli_slot *a, const struct dli_slot *b))
{
    *table = (struct dli_table){.hash = hash, .same = same};
}

static struct dli_slot **list_of(const struct dli_table *table, const struct dli_slot *slot)
{
    uint64_t hash = table->hash(slot);
    size_t all = whole(table), i = hash & (2 * all - 1);

    return &table->bucket[i < table->buckets ? i : hash & (all - 1)];
}

static void push(struct dli_slot **list, struct dli_slot *slot)
{
    slot->next = *list;
    *list = slot;
}

struct dli_slot *dli_table_find(const struct dli_table *table, const struct dli_slot *key)
{
    struct dli_slot *slot;

    if (table->count == 0)
        return NULL;
    slot = *list_of(table, key);
    while (slot && !table->same(slot, key))
        slot = slot->next;
    return slot;
}

/* Room for so many buckets. 0, or -1 without memory. */
static int resize(struct dli_table *table, size_t room)
{
    struct dli_slot **bucket = realloc(table->bucket, room * sizeof(struct dli_slot *));

    if (!bucket)
        return -1;
    table->bucket = bucket;
    table->room = room;
    return 0;
}

/* One more bucket. It takes what belongs there from the only one that may have it. */
static void split(struct dli_table *table)
{
    struct dli_slot *slot, *chain = table->bucket[table->buckets - whole(table)];
    struct dli_slot **from = &table->bucket[table->buckets - whole(table)];

    *from = table->bucket[table->buckets++] = NULL;
    while ((slot = chain)) {
        chain = slot->next;
        push(list_of(table, slot), slot);
    }
}

/* One bucket less. */
static void merge(struct dli_table *table)
{
    struct dli_slot *slot, *chain = table->bucket[--table->buckets];

    while ((slot = chain)) {
        chain = slot->next;
        push(list_of(table, slot), slot);
    }
    if (table->room > LEAST && table->buckets <= table->room / 4)
        resize(table, table->room / 2); /* without memory it stays as it is */
}

/* The first buckets. */
static int begin(struct dli_table *table)
{
    if (resize(table, LEAST))
        return -1;
    table->buckets = LEAST;
    memset(table->bucket, 0, LEAST * sizeof(struct dli_slot *));
    return 0;
}

int dli_table_add(struct dli_table *table, struct dli_slot *slot)
{
    if (table->buckets == 0 && begin(table))
        return -1;
    push(list_of(table, slot), slot);
    table->count++;
    if (table->count > table->buckets && (table->buckets < table->room || !resize(table, 2 * table->room)))
        split(table); /* without memory the lists get longer */
    return 0;
}

void dli_table_remove(struct dli_table *table, struct dli_slot *slot)
{
    struct dli_slot **at = list_of(table, slot);

    while (*at != slot)
        at = &(*at)->next;
    *at = slot->next;
    if (--table->count == 0) {
        free(table->bucket);
        dli_table_init(table, table->hash, table->same);
    } else if (table->buckets > LEAST && table->count < table->buckets / 2) {
        merge(table);
        merge(table);
    }
}
