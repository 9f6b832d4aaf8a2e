/*
 * table.c: links by number. Belongs to lane 0's thread. A link is the first member of what it stands for, and the number
 * follows it.
 */
#include <stdlib.h>

#include "inner.h"

enum { SMALLEST = 64 };

struct numbered {
    struct dli_link link;
    int64_t number;
};

static int64_t number_of(const struct dli_link *link)
{
    return DLI_OBJECT(link, struct numbered, link)->number;
}

static struct dli_link *bucket_of(const struct dli_etcd_table *table, int64_t number)
{
    return &table->bucket[(uint64_t)number % table->size];
}

struct dli_link *dli_etcd_find(const struct dli_etcd_table *table, int64_t number)
{
    struct dli_link *list = table->size ? bucket_of(table, number) : NULL;

    for (struct dli_link *link = list ? list->next : NULL; link && link != list; link = link->next)
        if (number_of(link) == number)
            return link;
    return NULL;
}

/* Twice as many buckets. Without memory the table stays as it is. */
static void grow(struct dli_etcd_table *table)
{
    struct dli_etcd_table wide = {.size = table->size ? 2 * table->size : SMALLEST, .count = table->count};

    if (!(wide.bucket = malloc(wide.size * sizeof *wide.bucket)))
        return;
    for (size_t i = 0; i < wide.size; i++)
        dli_list_init(&wide.bucket[i]);
    for (size_t i = 0; i < table->size; i++) {
        struct dli_link *link;

        while ((link = dli_list_pop(&table->bucket[i])))
            dli_list_append(bucket_of(&wide, number_of(link)), link);
    }
    free(table->bucket);
    *table = wide;
}

int dli_etcd_enlist(struct dli_etcd_table *table, struct dli_link *link, int64_t number)
{
    if (table->count >= 2 * table->size)
        grow(table);
    if (!table->size)
        return -1;
    DLI_OBJECT(link, struct numbered, link)->number = number;
    dli_list_append(bucket_of(table, number), link);
    table->count++;
    return 0;
}

void dli_etcd_delist(struct dli_etcd_table *table, struct dli_link *link)
{
    if (dli_list_empty(link))
        return;
    dli_list_remove(link);
    table->count--;
}

struct dli_link *dli_etcd_any(const struct dli_etcd_table *table)
{
    for (size_t i = 0; table->count > 0 && i < table->size; i++)
        if (!dli_list_empty(&table->bucket[i]))
            return table->bucket[i].next;
    return NULL;
}

void dli_etcd_table_free(struct dli_etcd_table *table)
{
    free(table->bucket);
    *table = (struct dli_etcd_table){0};
}
