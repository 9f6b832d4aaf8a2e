/*
 * handles.h: what the opaque handles of the ABI are.
 */
#ifndef DLI_API_HANDLES_H
#define DLI_API_HANDLES_H

#include "client/client.h"

struct dlock_client {
    struct dli_client *core; /* with a ref */
};

struct dlock_lock {
    struct dli_entry *entry; /* of the name; with a ref, counted as a handle */
    const struct dli_kind *kind;
    struct dli_terms terms;
    struct dli_multi *multi; /* with a ref: several locks as one; entry is that of the first then */
};

/* A handle and an owner (NULL: none) that may be used with the server now; owner 0 becomes the calling thread. */
dlock_status dli_lock_started(const dlock_lock *lock, int64_t *owner, int64_t wait_ms, dlock_error *reterr);

/* The same for calls that need no server. */
dlock_status dli_lock_ready(const dlock_lock *lock, int64_t *owner, dlock_error *reterr);

/* DLOCK_UNSUPPORTED with a sentence: "a semaphore ...". */
dlock_status dli_lock_cannot(const dlock_lock *lock, const char *what, dlock_error *reterr);

/*
 * ---- order.c: status is that of making the order; when it is not DLOCK_OK, it is the answer. Otherwise the order, NULL
 * for one that found no memory, is carried out and gone afterwards. It is handed over by address, so that a call can make it
 * among the arguments.
 */

/* *value is written when the answer is DLOCK_OK and may be NULL. */
dlock_status dli_lock_execute(const dlock_lock *lock, dlock_status status, struct dli_operation **operation,
                              int64_t *value, dlock_error *reterr);
dlock_status dli_lock_submit(const dlock_lock *lock, dlock_status status, struct dli_operation **operation, int64_t tag,
                             dlock_error *reterr);

/* ---- multi.c: the calls of a handle of several locks; owner is a number already */
dlock_status dli_several_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t *ret_token,
                                 dlock_error *reterr);
dlock_status dli_several_release(dlock_lock *lock, int64_t owner, dlock_error *reterr);
dlock_status dli_several_submit(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t tag, int release,
                                dlock_error *reterr);
dlock_status dli_several_cancel(dlock_lock *lock, int64_t owner, dlock_error *reterr);
int32_t dli_several_state(const dlock_lock *lock, int64_t owner);

/* What owner holds of all: the largest token, the smallest count and time. DLOCK_OK, DLOCK_NOT_HELD or DLOCK_LOST. */
dlock_status dli_several_held(const dlock_lock *lock, int64_t owner, int64_t *token, int64_t *count, int64_t *remaining,
                              dlock_error *reterr);

/* wait_ms as microseconds, DLI_NEVER for -1. */
int64_t dli_wait(int64_t wait_ms);

/* DLOCK_INVALID_ARGUMENT without a client, or for a timeout that is none. */
dlock_status dli_client_check(const dlock_client *client, int64_t timeout_ms, dlock_error *reterr);

/* The same, and DLOCK_FORKED in a child of a process that has used it; one that was not used is the child's own. Closed ones pass. */
dlock_status dli_client_mine(const dlock_client *client, int64_t timeout_ms, dlock_error *reterr);

#endif
