/*
 * kinds.h: what differs between the kinds of locks on the wire: keys, channels, scripts. Scripts say what they do.
 */
#ifndef DLI_REDIS_KINDS_H
#define DLI_REDIS_KINDS_H

#include <stddef.h>
#include <stdint.h>

#include "dlock.h"

enum { DLI_KEYS_MAX = 6, DLI_NO_SCRIPT = -1 };

/*
 * Keys and channels are patterns: "=" stands for the name N, "@" for T(N), which is N when it holds "{" anywhere, else
 * "{N}"; "%" for ":" and, in names with a brace, "::": T("x") is T("{x}"), but what is ours belongs to one lock.
 */
struct dli_kind {
    int32_t id;     /* DLOCK_KIND_* */
    int32_t family; /* the kind whose entry stands for the name: both sides of a read-write lock share one */
    const char *name;
    const char *key[DLI_KEYS_MAX]; /* of the scripts, in their order; the first is N */
    const char *channel;           /* Redisson's */
    int acquire, release, force;   /* scripts */
    int pass;                      /* release and acquire in one; DLI_NO_SCRIPT: one number per exchange */
    int renew;                     /* DLI_NO_SCRIPT: nothing to renew */
    int change;                    /* set, add, count ... */
    int renew_key;                 /* the second key of a renewal row; 0: none */
    const char *suffix;            /* of owner ids on the wire */
    int holds;                     /* index of the key that is made of the owner id too; 0: none */
    int per_owner;                 /* every owner's hold has an id and a machine of its own */
    int slots;                     /* and every acquisition of an owner is a hold */
    int lasting;                   /* it has no lease */
    int own_channel;               /* a waiter's channel is made of its id */
    int momentary;                 /* acquiring is passing through */
};

/* The row of a kind; NULL when there is none. */
const struct dli_kind *dli_kind_find(int32_t kind);

/* The rows one by one, NULL behind the last. */
const struct dli_kind *dli_kind_at(size_t index);

#endif
