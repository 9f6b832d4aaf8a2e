/*
 * table.h: a hash table in which each bucket is a list. What is in it has a struct dli_slot. It grows and shrinks by one
 * bucket at a time (linear hashing), so no call takes long. Not thread safe.
 */
#ifndef DLI_BASE_TABLE_H
#define DLI_BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct dli_slot {
    struct dli_slot *next;
};

struct dli_table {
    uint64_t (*hash)(const struct dli_slot *slot);
    int (*same)(const struct dli_slot *a, const struct dli_slot *b); /* these have the same hash, too */
    struct dli_slot **bucket;                                        /* lists */
    size_t buckets, room;                                            /* in use; allocated */
    size_t count;                                                    /* of slots */
};

/* An empty table. It has no memory of its own, then and whenever it is empty again. */
void dli_table_init(struct dli_table *table, uint64_t (*hash)(const struct dli_slot *slot),
                    int (*same)(const struct dli_slot *a, const struct dli_slot *b));

/* The slot that is the same as key, or NULL. */
struct dli_slot *dli_table_find(const struct dli_table *table, const struct dli_slot *key);

/* A slot that the table does not have. 0, or -1 without memory. */
int dli_table_add(struct dli_table *table, struct dli_slot *slot);

/* A slot that the table has. */
void dli_table_remove(struct dli_table *table, struct dli_slot *slot);

#endif
