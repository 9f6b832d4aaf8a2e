/*
 * handles.h: what the opaque handles of the ABI are.
 */
#ifndef DLI_API_HANDLES_H
#define DLI_API_HANDLES_H

#include "watchdog/ask.h"

struct dlock_client {
    struct dli_client *core; /* with a ref */
};

struct dlock_lock {
    struct dli_entry *entry; /* of the name; with a ref, counted as a handle */
    const struct dli_kind *kind;
    struct dli_terms terms;
};

/* A handle and an owner (NULL: none) that may be used with the server now; owner 0 becomes the calling thread. */
dlock_status dli_lock_started(const dlock_lock *lock, int64_t *owner, int64_t wait_ms, dlock_error *reterr);

/* The same for calls that need no server. */
dlock_status dli_lock_ready(const dlock_lock *lock, int64_t *owner, dlock_error *reterr);

/* Say what happened to which lock on which server; a sentence of why with this status wins over the table's. */
dlock_status dli_lock_said(const struct dli_entry *entry, dlock_status status, const dlock_error *why,
                           dlock_error *reterr);

/* DLOCK_UNSUPPORTED with a sentence: "a semaphore ...". */
dlock_status dli_lock_cannot(const dlock_lock *lock, const char *what, dlock_error *reterr);

/* wait_ms as microseconds, DLI_NEVER for -1. */
int64_t dli_wait(int64_t wait_ms);

#endif
