/*
 * tree.c: see tree.h. A walk leaves its argument where only its own thread sees it.
 */
#include "tree.h"

#include <search.h>

struct walk {
    void (*each)(void *owner, void *item);
    void *owner;
};

static _Thread_local const struct walk *walking;

static void visit(const void *node, VISIT which, int depth)
{
    const struct walk *walk = walking;

    (void)depth;
    if (which == postorder || which == leaf)
        walk->each(walk->owner, *(void *const *)node);
}

void dli_tree_each(const void *root, void (*each)(void *owner, void *item), void *owner)
{
    const struct walk walk = {each, owner}, *outer = walking;

    walking = &walk;
    twalk(root, visit);
    walking = outer;
}
