/*
 * table.c: entries by number, and the paths that they watch, as trees. Belongs to lane 0's thread.
 */
#include <search.h>
#include <stdlib.h>

#include "inner.h"

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

struct dli_zk_entry *dli_zk_entry(const struct dli_zk *zk, int64_t number)
{
    struct dli_zk_entry **found = tfind(&number, (void *const *)&zk->entries, by_number);

    return found ? *found : NULL;
}

static void watch_init(struct dli_zk_watch *watch, struct dli_zk_entry *entry)
{
    watch->entry = entry;
    dli_list_init(&watch->link);
}

struct dli_zk_entry *dli_zk_entry_new(struct dli_zk *zk, const struct dli_place *place, int64_t number)
{
    size_t before = (size_t)place->chroot + 1, size = place->size - before;
    struct dli_zk_entry *entry = calloc(1, sizeof *entry + size);

    if (!entry)
        return NULL;
    entry->number = number;
    entry->family = place->kind->family;
    entry->size = size;
    memcpy(entry->name, place->path + before, size);
    for (int i = 0; i < 2; i++)
        watch_init(&entry->watch[i], entry);
    if (!tsearch(entry, &zk->entries, by_number)) {
        free(entry);
        return NULL;
    }
    return entry;
}

void dli_zk_forget(struct dli_zk *zk, int64_t number)
{
    struct dli_zk_entry *entry = dli_zk_entry(zk, number);

    if (!entry)
        return;
    dli_zk_unwatch_all(zk, entry);
    tdelete(entry, &zk->entries, by_number);
    free(entry->rest);
    free(entry);
}

void dli_zk_forget_all(struct dli_zk *zk)
{
    while (zk->entries)
        dli_zk_forget(zk, (*(struct dli_zk_entry **)zk->entries)->number);
}

/* ---- spots: paths that are watched */

/* A key to search with: the first member of its thing is a text. */
static int by_path(const void *a, const void *b)
{
    const struct dli_zk_spot *x = a, *y = b;
    size_t least = x->path.size < y->path.size ? x->path.size : y->path.size;
    int order = memcmp(x->path.bytes, y->path.bytes, least);

    return order ? order : x->path.size < y->path.size ? -1 : x->path.size > y->path.size;
}

struct dli_zk_spot *dli_zk_spot(const struct dli_zk *zk, struct dli_zk_text path)
{
    struct dli_zk_spot key = {.path = path}, **found = tfind(&key, (void *const *)&zk->spots, by_path);

    return found ? *found : NULL;
}

static struct dli_zk_spot *spot_new(struct dli_zk *zk, struct dli_zk_text path)
{
    struct dli_zk_spot *spot = malloc(sizeof *spot + path.size);

    if (!spot)
        return NULL;
    dli_list_init(&spot->watches);
    memcpy(spot->room, path.bytes, path.size);
    spot->path = (struct dli_zk_text){spot->room, path.size};
    if (!tsearch(spot, &zk->spots, by_path)) {
        free(spot);
        return NULL;
    }
    return spot;
}

void dli_zk_unwatch(struct dli_zk *zk, struct dli_zk_watch *watch)
{
    struct dli_zk_spot *spot = watch->spot;

    if (!spot)
        return;
    dli_list_remove(&watch->link);
    watch->spot = NULL;
    if (watch != &watch->entry->watch[0]) /* of one of its own nodes */
        watch->entry->sure = 0;
    if (!dli_list_empty(&spot->watches))
        return;
    tdelete(spot, &zk->spots, by_path);
    free(spot);
}

void dli_zk_unwatch_all(struct dli_zk *zk, struct dli_zk_entry *entry)
{
    dli_zk_unwatch(zk, &entry->watch[0]);
    dli_zk_unwatch(zk, &entry->watch[1]);
    for (int i = 0; i < entry->rests; i++)
        dli_zk_unwatch(zk, &entry->rest[i]);
}

int dli_zk_watches(struct dli_zk_entry *entry, int permits)
{
    if (permits <= 1 || entry->rest)
        return 0;
    if (!(entry->rest = calloc((size_t)permits - 1, sizeof *entry->rest)))
        return -1;
    entry->rests = permits - 1;
    for (int i = 0; i < entry->rests; i++)
        watch_init(&entry->rest[i], entry);
    return 0;
}

struct dli_zk_watch *dli_zk_watch_of(struct dli_zk_entry *entry, int i)
{
    return i == 0 ? &entry->watch[1] : &entry->rest[i - 1];
}

int dli_zk_watch(struct dli_zk *zk, struct dli_zk_watch *watch, struct dli_zk_text path)
{
    struct dli_zk_spot *spot = dli_zk_spot(zk, path);

    if (spot && watch->spot == spot)
        return 0;
    dli_zk_unwatch(zk, watch);
    spot = dli_zk_spot(zk, path);
    if (!spot && !(spot = spot_new(zk, path)))
        return -1;
    watch->spot = spot;
    dli_list_append(&spot->watches, &watch->link);
    return 0;
}
