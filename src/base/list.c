/*
 * list.c: walks over lists, see list.h. A walk belongs to its thread.
 */
#include "list.h"

/* next: NULL: all were met. Else next and last are in the list, and last is not before next. */
struct dli_walk {
    struct dli_link *next, *last;
    struct dli_walk *outer;
};

_Thread_local struct dli_walk *dli_walks;

void dli_walks_leave(const struct dli_link *link)
{
    for (struct dli_walk *walk = dli_walks; walk; walk = walk->outer) {
        if (!walk->next)
            continue;
        if (walk->next == link)
            walk->next = walk->last == link ? NULL : link->next;
        if (walk->last == link)
            walk->last = link->prev;
    }
}

void dli_list_each(struct dli_link *list, void (*visit)(void *owner, struct dli_link *link), void *owner)
{
    struct dli_walk walk = {dli_list_empty(list) ? NULL : list->next, list->prev, dli_walks};

    dli_walks = &walk;
    while (walk.next) {
        struct dli_link *link = walk.next;

        walk.next = link == walk.last ? NULL : link->next;
        visit(owner, link);
    }
    dli_walks = walk.outer;
}
