/*
 * exchange.h: what the engine requests from a lock store, and the answer. The interface between decisions and the wire.
 */
#ifndef DLI_STORE_EXCHANGE_H
#define DLI_STORE_EXCHANGE_H

#include <stdint.h>

#include "dlock.h"

enum dli_mode { DLI_MODE_TRY = 0, DLI_MODE_LINE = 1, DLI_MODE_POLL = 2 };

/*
 * What a probe saw of a hold that another libdlock process has. ends: when it ends by the server's clock, in ms since
 * 1970; 0: nothing was seen. token: the last one reserved. left: the rest of the hold, in microseconds.
 */
struct dli_seen {
    int64_t ends, token, left;
};

/* Grant numbers of one process that follow one another in a line on the server. */
enum { DLI_NEXT_MAX = 31 };

struct dli_next {
    int count;
    int64_t number[DLI_NEXT_MAX];
};

/* An exchange with the server. Times are microseconds. */
struct dli_wish {
    int64_t want, drop; /* grant numbers; 0: none. At least one is set */
    int64_t lease;
    int64_t block;        /* tokens to reserve, at most: also for turns in memory */
    int64_t permits;      /* of a semaphore; 0: it is none */
    int64_t beat;         /* how long a place in line lasts without another probe */
    int64_t attempt;      /* time for this attempt */
    int64_t rest;         /* drop: the lock stays taken for this long */
    int64_t seq;          /* the number of this probe */
    struct dli_seen seen; /* by the last probe; left is updated to now by our clock */
    int64_t first; /* drop is an adoption to undo, and its tries had numbers from this one on; 0: drop is released */
    int doubt;     /* an earlier request to acquire drop may still be under way */
    enum dli_mode mode;
    int patient;   /* at least one claim behind it may wait */
    int listening; /* this process subscribes to the lock's channel */
    int pollers;   /* so many clients that poll count as if they did, too */
};

/*
 * Whether a grant may be one for which most tokens were asked: tokens of them, from token on, all above zero and below 2^53. This
 * is the same for answers and for messages.
 */
static inline int dli_grant_fits(int64_t token, int64_t tokens, int64_t most)
{
    return token > 0 && tokens > 0 && tokens <= most && token < (INT64_C(1) << 53) - tokens;
}

/* What is kept of a wish for its answer, and for a message about it. */
struct dli_asked {
    int64_t want, drop, lease, seq;
    int8_t mode, patient;
};

static inline struct dli_asked dli_asked_of(const struct dli_wish *wish)
{
    return (struct dli_asked){.want = wish->want,
                              .drop = wish->drop,
                              .lease = wish->lease,
                              .seq = wish->seq,
                              .mode = (int8_t)wish->mode,
                              .patient = (int8_t)wish->patient};
}

enum dli_try { DLI_TRY_NONE, DLI_TRY_GRANTED, DLI_TRY_HELD, DLI_TRY_WRONG_KIND, DLI_TRY_GATE, DLI_TRY_QUARANTINE };

/* What the server answered to an exchange. */
struct dli_answer {
    dlock_status status; /* DLOCK_OK: the rest is valid. Else the reason */
    int sent;            /* not OK: the server may have acted */
    int refused;         /* not OK: the server refused, and did nothing */
    int hurried;         /* not OK: the caller's wait was over before an attempt is: the server may be well */
    int repeated;        /* the request was sent twice: the first one may still be under way */
    int released;        /* drop was held until now */
    int64_t others;      /* so many other processes wait for what was released */
    enum dli_try got;    /* for want */
    int64_t token;       /* GRANTED: the first of those reserved */
    int64_t tokens;      /* GRANTED: how many are reserved */
    int64_t since;       /* GRANTED: the hold counts from then, if that is before its request; 0: from its request */
    int64_t left;        /* HELD: microseconds until the lock may be free; < 0 unknown. QUARANTINE: how long it lasts */
    int foreign;         /* HELD: by a client that is not libdlock */
    struct dli_seen seen; /* HELD */
    int64_t cut;  /* HELD: microseconds cut off a lease that was too long because the server's clock was set back */
    int64_t more; /* GRANTED, of a semaphore: so many permits are left; -1: not known. left: when the next lease ends */
    int spent;    /* not GRANTED: want must not be used again. A server may have granted it, or grants it no more */
};

#endif
