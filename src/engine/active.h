/*
 * active.h: the part of the mutex machine that a held lock which nobody waits for does not need. See mutex.h and active.c.
 */
#ifndef DLI_ENGINE_ACTIVE_H
#define DLI_ENGINE_ACTIVE_H

#include <stdint.h>

#include "base/list.h"
#include "owners.h"
#include "store/store.h"

struct dli_mutex;
struct dli_request;

/*
 * The exchange that was sent last. It is kept when it is answered: a message may be about it.
 */
struct dli_sent {
    struct dli_asked wish;
    int64_t stamp;    /* read before its first byte */
    int8_t in_flight; /* it is on the wire */
    int8_t before;    /* the state of want */
};

/*
 * The number to be released. Its flags are independent: each may be set whatever the others are, save that only one of
 * lingered and first is.
 */
struct dli_drop {
    int64_t number;  /* 0: none */
    int64_t until;   /* the server has forgotten it by then */
    int64_t rest;    /* the server keeps it until then although it is released; 0: it does not */
    int64_t first;   /* an adoption is undone, which was tried with numbers from this one on; 0: none is */
    int8_t lingered; /* its owner released it before: the lock lingered */
    int8_t unsure;   /* an exchange that names it was sent without answer: it may be released */
    int8_t doubt;    /* a request that wanted it may still be under way: it may come back */
};

/*
 * What only waiting claims, releases and exchanges need, and what few locks have. It is allocated when one begins, and
 * dli_active_trim frees it: a held lock that nobody waits for has none. Then a constant one, in which nothing waits and
 * nothing is sent, stands in its place: whatever is read there is right, and nothing may be written.
 */
struct dli_active {
    struct dli_claim *leaving; /* its release is on the wire; or NULL */
    struct dli_drop drop;
    int64_t probe_at;            /* send the next exchange not before */
    int64_t gate_until;          /* the gate is closed, as far as this process knows */
    int64_t let_gone;            /* the last number that was let go; it is held elsewhere */
    struct dli_owners owners;    /* finds the claims that wait or are lost */
    struct dli_request *request; /* the caller's: the exchange in flight, or NULL */
    struct dli_link waiting;     /* claims, first come first served */
    struct dli_link tries;       /* those that are not patient, in the same order */
    int64_t loose;               /* of the waiting claims, those that are not bound */
    int64_t hasty;               /* of them, those that are not patient */
    struct dli_sent sent;
    int64_t want_at;      /* send nothing that wants the number before; 0: any time */
    int64_t line_seq;     /* the last probe that was answered "still in line"; 0: none */
    int64_t line_at;      /* stamp of that probe; of the first one that named the number before any was answered */
    int64_t line_lease;   /* the shortest lease requested since */
    int64_t again;        /* a probe requested while an exchange was in flight; DLI_NEVER: none */
    int64_t hinted;       /* how far the probes that messages have caused reach: dli_mutex_hint */
    struct dli_seen seen; /* by the last probe that found another holder */
    int64_t seen_at;      /* when its answer was here */
    int retries;          /* failed exchanges in a row */
    dlock_status failure; /* of the last one; DLOCK_OK: none */
};

/* Each machine begins without an active part of its own, and ends so. */
void dli_active_init(struct dli_mutex *m);
void dli_active_fini(struct dli_mutex *m);

/* The machine has an active part from now on: 0. -1: there is no memory for it. */
int dli_active_make(struct dli_mutex *m);

/* Whether it has one. */
int dli_active_own(const struct dli_mutex *m);

/* Free the active part unless it is needed. Call it when what has happened was delivered. */
void dli_active_trim(struct dli_mutex *m);

#endif
