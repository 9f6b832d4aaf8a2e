/*
 * kind.h: what differs between the kinds of locks for whoever keeps their holds. What differs on the wire is the store's.
 */
#ifndef DLI_BASE_KIND_H
#define DLI_BASE_KIND_H

#include <stddef.h>
#include <stdint.h>

#include "dlock.h"

struct dli_kind {
    int32_t id;     /* DLOCK_KIND_* */
    int32_t family; /* the kind whose entry stands for the name: both sides of a read-write lock share one */
    const char *name;
    int renewal;     /* holds whose kinds have the same number are renewed together; 0: nothing to renew */
    int pass;        /* a release and an acquisition can go as one exchange */
    int forcible;    /* it can be released by force */
    int per_owner;   /* every owner's hold has an id and a machine of its own */
    int slots;       /* and every acquisition of an owner is a hold */
    int lasting;     /* a hold does not end by itself: renewals say that the holder lives */
    int own_channel; /* a waiter hears on a channel of its own */
    int momentary;   /* acquiring is passing through */
};

/* The row of a kind; NULL when there is none. */
const struct dli_kind *dli_kind_find(int32_t kind);

#endif
