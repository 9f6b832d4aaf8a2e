/*
 * exchange.h: what the engine wants to say to a lock store, and what it hears back. The seam between deciding and wire.
 */
#ifndef DLI_STORE_EXCHANGE_H
#define DLI_STORE_EXCHANGE_H

#include <stdint.h>

#include "dlock.h"

enum dli_mode { DLI_MODE_TRY = 0, DLI_MODE_LINE = 1, DLI_MODE_POLL = 2 };

/*
 * What a look saw of a hold of another process of ours: when it ends by the server's clock, in ms since 1970, 0 for nothing seen; the
 * last token; and what is left of it, in microseconds.
 */
struct dli_seen {
    int64_t ends, token, left;
};

/* An exchange with the server. Times are microseconds. */
struct dli_wish {
    int64_t want, drop; /* grant numbers; 0: none. One at least is set */
    int64_t lease;
    int64_t block;   /* tokens to reserve, at most; permits of a semaphore */
    int64_t beat;    /* how long a place in line lasts without another look */
    int64_t attempt; /* time for this attempt */
    int64_t rest;    /* drop: keep the lock for so long still */
    int64_t seq;
    struct dli_seen seen; /* by the last look; left is what is left now by our clock */
    int64_t first; /* drop is an adoption that is undone, tried with numbers from this one on; 0: it is released */
    int doubt;     /* a request that wanted drop may still be under way */
    enum dli_mode mode;
    int patient; /* somebody who may wait stands behind it */
    int listening;
};

enum dli_try { DLI_TRY_NONE, DLI_TRY_GRANTED, DLI_TRY_HELD, DLI_TRY_WRONG_KIND, DLI_TRY_GATE, DLI_TRY_QUARANTINE };

/* What the server answered to an exchange. */
struct dli_answer {
    dlock_status status; /* DLOCK_OK: the rest is valid. Else why not */
    int sent;            /* not OK: the server may have acted */
    int refused;         /* not OK: the server said no, and did nothing */
    int repeated;        /* the request was sent twice: the first may still be under way */
    int released;        /* drop was held until now */
    enum dli_try got;    /* for want */
    int64_t token;       /* GRANTED: the first of those reserved */
    int64_t tokens;      /* GRANTED: how many are reserved */
    int64_t left; /* HELD: microseconds until the lock may be free; < 0 unknown. QUIET: the quarantine lasts so long */
    int foreign;  /* HELD: by a client that is not libdlock */
    struct dli_seen seen; /* HELD */
    int64_t
        cut; /* HELD: the server's clock was set back, and the lease was longer than it may be by so many microseconds */
    int spent; /* not GRANTED: some servers may have granted it all the same. It must not be wanted again */
};

#endif
