/*
 * list.h: intrusive doubly linked lists. A node that is in no list points to itself.
 *
 * A list that is walked while others are called is walked by dli_list_each, and in no other way (./dev lint). A walk keeps the
 * next node and the last one, and the thread keeps its walks. dli_list_remove, by which every node leaves every list, moves
 * each walk of the thread away from the node first. So a walk never has a node that is in no list, or in another one:
 *
 * - Only nodes of a list are ever kept: the walk begins with two of them, and goes on by the links of such nodes.
 * - They are kept until they are met or removed, and it hears of both.
 * - Nobody else removes them: what guards the list is held during the walk, as for every use of the list. Who releases it
 *   meanwhile may not walk; he takes one node off after the other (dli_list_pop).
 *
 * A walk ends: it meets each node that was there at its begin at most once, and none that came later.
 */
#ifndef DLI_BASE_LIST_H
#define DLI_BASE_LIST_H

#include <stddef.h>

struct dli_link {
    struct dli_link *next, *prev;
};

/* The object of type that holds link as its member. */
/* By hand: releases of clang-format disagree here. */
/* clang-format off */
#define DLI_OBJECT(link, type, member) ((type *)(void *)((char *)(link) - offsetof(type, member)))
/* clang-format on */

static inline void dli_list_init(struct dli_link *list)
{
    list->next = list->prev = list;
}

static inline int dli_list_empty(const struct dli_link *list)
{
    return list->next == list;
}

static inline void dli_list_append(struct dli_link *list, struct dli_link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

struct dli_walk;
extern _Thread_local struct dli_walk *dli_walks; /* of this thread: the one that began last */

/* The walks of this thread no longer have the node, which is still in its list. */
void dli_walks_leave(const struct dli_link *link);

/*
 * Call visit for each node. It may remove and free this node and any others, and add some: nodes that are removed are not
 * met any more, and those that are added are not met. The head of the list stays.
 */
void dli_list_each(struct dli_link *list, void (*visit)(void *owner, struct dli_link *link), void *owner);

/* Take a node out of its list, if it is in one. */
static inline void dli_list_remove(struct dli_link *link)
{
    if (dli_walks)
        dli_walks_leave(link);
    link->prev->next = link->next;
    link->next->prev = link->prev;
    dli_list_init(link);
}

/* A list of which only the last node is known. It takes half the memory of a list's head, and zeroes are an empty one. */
struct dli_ring {
    struct dli_link *last; /* NULL: it is empty */
};

/* The node is in no list. */
static inline void dli_ring_append(struct dli_ring *ring, struct dli_link *link)
{
    if (ring->last)
        dli_list_append(ring->last->next, link);
    ring->last = link;
}

/* Take a node out of this ring, or of a list with a head, if it is in one. It is in no other ring. */
static inline void dli_ring_remove(struct dli_ring *ring, struct dli_link *link)
{
    if (ring->last == link)
        ring->last = link->prev == link ? NULL : link->prev;
    dli_list_remove(link);
}

/* The first node, and the one after link. NULL: there is none. */
static inline struct dli_link *dli_ring_first(const struct dli_ring *ring)
{
    return ring->last ? ring->last->next : NULL;
}

static inline struct dli_link *dli_ring_next(const struct dli_ring *ring, const struct dli_link *link)
{
    return link == ring->last ? NULL : link->next;
}

/* Take the first node out. NULL: the ring is empty. */
static inline struct dli_link *dli_ring_pop(struct dli_ring *ring)
{
    struct dli_link *first = dli_ring_first(ring);

    if (first)
        dli_ring_remove(ring, first);
    return first;
}

/* Take the first node out. NULL: the list is empty. */
static inline struct dli_link *dli_list_pop(struct dli_link *list)
{
    struct dli_link *first = list->next;

    if (first == list)
        return NULL;
    dli_list_remove(first);
    return first;
}

#endif
