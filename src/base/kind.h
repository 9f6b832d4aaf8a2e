/*
 * kind.h: how the kinds of locks differ in this process. How they differ on the wire is in redis/.
 */
#ifndef DLI_BASE_KIND_H
#define DLI_BASE_KIND_H

#include <stddef.h>
#include <stdint.h>

#include "dlock.h"

struct dli_kind {
    int32_t id;     /* DLOCK_KIND_* */
    int32_t family; /* the kind that names its entry: both sides of a read-write lock share one entry */
    const char *name;
    int renewal;   /* kinds with the same number share renewal requests; 0: nothing to renew */
    int pass;      /* one exchange can release and acquire */
    int handed;    /* a grant may serve several turns in memory: it reserves tokens for them */
    int forcible;  /* it can be released by force */
    int per_owner; /* every owner has a hold id and a state machine of its own */
    int slots;     /* with per_owner: every acquisition is a hold of its own */
    int queued;  /* with per_owner: waiters of this process know of one another; without own_channel one asks for all */
    int lasting; /* a hold has no lease: renewals show the server that the holder lives */
    int own_channel; /* a waiter subscribes to a channel of its own */
    int called; /* with queued: a process stands in line on the server; it is told when its turn has come, and asks again */
    int momentary; /* an acquisition passes and holds nothing */
};

/* The row of a kind; NULL when there is none. */
const struct dli_kind *dli_kind_find(int32_t kind);

#endif
