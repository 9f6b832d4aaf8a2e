/*
 * tie.c: ties, the watches of the key before. Belongs to lane 0's thread.
 *
 * A tie goes on when its number has the lock: in a line of some processes each waits for the same key again. Its first event
 * that nobody waits for ends it.
 */
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

enum { LOOSE = 32 };

/* A watch of the key before, which the next one that waits for that key may take over. */
struct dli_etcd_tie {
    struct dli_etcd_watch watch; /* waiter NULL: it is loose */
    struct dli_link link;        /* in etcd.loose */
    size_t size;
    char key[];
};

static int is_of(const struct dli_etcd_tie *tie, struct dli_etcd_bytes key)
{
    return dli_etcd_same(key, dli_etcd_text(tie->key, tie->size));
}

static void tie_free(struct dli_etcd *etcd, struct dli_etcd_tie *tie, int tell)
{
    etcd->loose_ties -= tie->watch.waiter == NULL;
    dli_etcd_watch_stop(etcd, &tie->watch, tell);
    dli_list_remove(&tie->link);
    free(tie);
}

void dli_etcd_loosen(struct dli_etcd *etcd, struct dli_etcd_waiter *waiter)
{
    struct dli_etcd_tie *tie = waiter->tie;

    if (tie && waiter->ready == &tie->watch)
        waiter->ready = NULL;
    waiter->tie = NULL;
    if (!tie)
        return;
    tie->watch.waiter = NULL;
    dli_list_append(etcd->loose.next, &tie->link);
    etcd->loose_ties++;
    if (!tie->watch.node.number)
        tie_free(etcd, tie, 0);
    else if (etcd->loose_ties > LOOSE)
        tie_free(etcd, DLI_OBJECT(etcd->loose.prev, struct dli_etcd_tie, link), 1);
}

void dli_etcd_ties_free(struct dli_etcd *etcd)
{
    while (!dli_list_empty(&etcd->loose))
        tie_free(etcd, DLI_OBJECT(etcd->loose.next, struct dli_etcd_tie, link), 0);
}

/* NULL: nobody has watched this key. */
static struct dli_etcd_tie *take_loose(struct dli_etcd *etcd, struct dli_etcd_bytes key)
{
    for (struct dli_link *link = etcd->loose.next; link != &etcd->loose; link = link->next) {
        struct dli_etcd_tie *tie = DLI_OBJECT(link, struct dli_etcd_tie, link);

        if (!is_of(tie, key))
            continue;
        dli_list_remove(&tie->link);
        etcd->loose_ties--;
        return tie;
    }
    return NULL;
}

/* A new one, which watches from now on. NULL without memory. */
static struct dli_etcd_tie *tie_new(struct dli_etcd *etcd, struct dli_etcd_waiter *waiter, struct dli_etcd_bytes key)
{
    struct dli_etcd_tie *tie = calloc(1, sizeof *tie + key.size);

    if (!tie)
        return NULL;
    dli_list_init(&tie->link);
    tie->watch.waiter = waiter;
    tie->size = key.size;
    memcpy(tie->key, key.bytes, key.size);
    dli_etcd_watch_begin(etcd, &tie->watch, &(struct dli_etcd_watching){.key = key});
    if (tie->watch.node.number)
        return tie;
    free(tie);
    return NULL;
}

void dli_etcd_tie(struct dli_etcd *etcd, struct dli_etcd_waiter *waiter, struct dli_etcd_bytes before)
{
    if (waiter->tie && waiter->tie->watch.node.number && is_of(waiter->tie, before))
        return;
    dli_etcd_loosen(etcd, waiter);
    waiter->ready = NULL;
    if (!(waiter->tie = take_loose(etcd, before)) && (waiter->tie = tie_new(etcd, waiter, before)))
        waiter->ready = &waiter->tie->watch;
    if (waiter->tie)
        waiter->tie->watch.waiter = waiter;
}

int dli_etcd_is_tie(const struct dli_etcd_watch *watch)
{
    return watch->waiter->tie && watch == &watch->waiter->tie->watch;
}

void dli_etcd_tie_end(struct dli_etcd *etcd, struct dli_etcd_watch *watch, int tell)
{
    tie_free(etcd, DLI_OBJECT(watch, struct dli_etcd_tie, watch), tell);
}
