/*
 * table.c: things by number, as a tree. Belongs to lane 0's thread.
 */
#include <search.h>

#include "inner.h"

static int compare(const void *a, const void *b)
{
    int64_t x = ((const struct dli_etcd_node *)a)->number, y = ((const struct dli_etcd_node *)b)->number;

    return x < y ? -1 : x > y;
}

struct dli_etcd_node *dli_etcd_find(const struct dli_etcd_table *table, int64_t number)
{
    struct dli_etcd_node key = {number}, **found = tfind(&key, (void *const *)&table->root, compare);

    return found ? *found : NULL;
}

int dli_etcd_enlist(struct dli_etcd_table *table, struct dli_etcd_node *node, int64_t number)
{
    node->number = number;
    if (tsearch(node, &table->root, compare))
        return 0;
    node->number = 0;
    return -1;
}

void dli_etcd_delist(struct dli_etcd_table *table, struct dli_etcd_node *node)
{
    if (node->number)
        tdelete(node, &table->root, compare);
    node->number = 0;
}

struct dli_etcd_node *dli_etcd_any(const struct dli_etcd_table *table)
{
    return table->root ? *(struct dli_etcd_node **)table->root : NULL;
}
