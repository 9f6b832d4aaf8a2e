/*
 * kinds.h: what differs between the kinds of locks on the wire: keys, channels, scripts. Scripts say what they do.
 */
#ifndef DLI_REDIS_CODEC_KINDS_H
#define DLI_REDIS_CODEC_KINDS_H

#include "base/kind.h"

enum { DLI_KEYS_MAX = 6, DLI_NO_SCRIPT = -1 };

/*
 * Keys and channels are patterns: "=" stands for the name N, "@" for T(N), which is N when it holds "{" anywhere, else
 * "{N}"; "%" for ":" and, in names with a brace, "::": T("x") is T("{x}"), but what is ours belongs to one lock.
 */
struct dli_wire {
    int32_t id;                    /* DLOCK_KIND_* */
    const char *key[DLI_KEYS_MAX]; /* of the scripts, in their order; the first is N */
    const char *channel;           /* Redisson's */
    int acquire, release, force;   /* scripts */
    int pass;                      /* release and acquire in one */
    int renew;                     /* the same for all kinds with one renewal number */
    int change;                    /* set, add, count ... */
    int renew_key;                 /* the second key of a renewal row; 0: none */
    const char *suffix;            /* of owner ids */
    int holds;                     /* index of the key that is made of the owner id too; 0: none */
};

/* The row of a kind, which has one. */
const struct dli_wire *dli_wire_of(const struct dli_kind *kind);

/* The rows one by one, NULL behind the last. */
const struct dli_wire *dli_wire_at(size_t index);

#endif
