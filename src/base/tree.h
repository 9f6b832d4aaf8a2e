/*
 * tree.h: what <search.h> lacks: a walk over a tree of tsearch with an argument. Not every C library has twalk_r.
 */
#ifndef DLI_BASE_TREE_H
#define DLI_BASE_TREE_H

/* Call each for all items under root, in order. It adds and removes none. */
void dli_tree_each(const void *root, void (*each)(void *owner, void *item), void *owner);

#endif
