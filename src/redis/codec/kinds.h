/*
 * kinds.h: how the kinds of locks differ on the wire: keys, channels and scripts. The head of a script describes what
 * it does.
 */
#ifndef DLI_REDIS_CODEC_KINDS_H
#define DLI_REDIS_CODEC_KINDS_H

#include "base/kind.h"

enum { DLI_KEYS_MAX = 7, DLI_NO_SCRIPT = -1 };

#define DLI_GATE_PATTERN   "dlock_gate%@"            /* of every kind */
#define DLI_TURNS_PATTERN  "dlock_turns%@"           /* of kinds whose waiters are called */
#define DLI_NOBODY_PATTERN "dlock_gate%@:moving"     /* nobody makes this key */
#define DLI_TOMBS_PATTERN  "dlock_fair%@:tombstones" /* of fair locks, whose scripts make it from their fifth key */

/*
 * Keys and channels are patterns:
 *   =   the name N
 *   @   T(N): N if it contains "{" anywhere, else "{N}"
 *   %   ":", or "::" if N contains "{". T("x") is T("{x}"), but a key of our own must belong to one of the two locks.
 */
struct dli_wire {
    int32_t id;                    /* DLOCK_KIND_* */
    const char *key[DLI_KEYS_MAX]; /* of the scripts, in their order; the first is N */
    const char *channel;           /* Redisson's */
    int acquire, release, force;   /* scripts */
    int pass;                      /* release and acquire in one */
    int renew;                     /* kinds with the same renewal number share it */
    int change;                    /* set, add, count ... */
    int renew_key;                 /* the second key of a renewal row; 0: none */
    int renew_also;                /* the third; 0: none */
    const char *suffix;            /* of owner ids */
    int holds;                     /* index of the key that contains the owner's id; 0: none */
};

/* The row of a kind. Every kind has one. */
const struct dli_wire *dli_wire_of(const struct dli_kind *kind);

/* The rows one by one, NULL behind the last. */
const struct dli_wire *dli_wire_at(size_t index);

#endif
