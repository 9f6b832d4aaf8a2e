/*
 * list.h: intrusive doubly linked lists. A node that is in no list points to itself.
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

/* Take a node out of its list, if it is in one. */
static inline void dli_list_remove(struct dli_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    dli_list_init(link);
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
