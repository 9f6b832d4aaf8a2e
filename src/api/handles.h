/*
 * handles.h: what the opaque handles of the ABI are.
 */
#ifndef DLI_API_HANDLES_H
#define DLI_API_HANDLES_H

#include <pthread.h>

#include "client/client.h"

/*
 * The first statement of a function of the ABI: pthread_cancel ends the thread behind the call, not inside of it, where mutexes
 * are locked and requests are under way.
 */
#define DLI_UNCANCELLED int dli_cancellable __attribute__((cleanup(dli_uncancelled_end))) = dli_uncancelled()

static inline int dli_uncancelled(void)
{
    int before;

    return pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before) == 0 ? before : PTHREAD_CANCEL_DISABLE;
}

static inline void dli_uncancelled_end(const int *before)
{
    int ignored;

    pthread_setcancelstate(*before, &ignored);
}

struct dlock_client {
    struct dli_client *core; /* with a ref */
};

struct dlock_lock {
    struct dli_entry *entry;       /* of the name; with a ref, counted as a handle */
    const struct dli_terms *terms; /* shared */
    struct dli_multi *multi;       /* NULL, or with a ref: a multi-lock; entry is that of its first member then */
};

_Static_assert(sizeof(struct dlock_lock) <= 24, "many locks have a handle that is kept");

/*
 * Check the arguments of a call that needs the server: the handle, the owner (NULL: none) and wait_ms. Starts the
 * client. *owner 0 becomes the number of the calling thread.
 */
dlock_status dli_lock_started(const dlock_lock *lock, int64_t *owner, int64_t wait_ms, dlock_error *reterr);

/* The same for a call that needs no server. The client is not started. */
dlock_status dli_lock_ready(const dlock_lock *lock, int64_t *owner, dlock_error *reterr);

/* DLOCK_OK when the lock's store has the ability; else DLOCK_UNSUPPORTED: where the lock is there are no "what". */
dlock_status dli_lock_needs(const dlock_lock *lock, enum dli_ability ability, const char *what, dlock_error *reterr);

/* DLOCK_UNSUPPORTED with a sentence about the kind: "a semaphore ", then what. */
dlock_status dli_lock_cannot(const dlock_lock *lock, const char *what, dlock_error *reterr);

/*
 * ---- operations.c
 *
 * status is the result of making the operation. When it is not DLOCK_OK, it is the answer. Otherwise the operation is
 * executed or submitted, and the caller loses it. *operation is NULL when there was no memory for it. The operation is
 * passed by address, so that a call can make it in its argument list.
 */

/* value may be NULL. *value is written when the answer is DLOCK_OK. */
dlock_status dli_lock_execute(const dlock_lock *lock, dlock_status status, struct dli_operation **operation,
                              int64_t *value, dlock_error *reterr);
dlock_status dli_lock_submit(const dlock_lock *lock, dlock_status status, struct dli_operation **operation, int64_t tag,
                             dlock_error *reterr);

/* ---- multi.c: the calls on a handle of a multi-lock. owner is not 0: it was resolved before. */
dlock_status dli_several_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t *ret_token,
                                 dlock_error *reterr);
dlock_status dli_several_release(dlock_lock *lock, int64_t owner, dlock_error *reterr);
dlock_status dli_several_submit(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t tag, int release,
                                dlock_error *reterr);
dlock_status dli_several_cancel(dlock_lock *lock, int64_t owner, dlock_error *reterr);
int32_t dli_several_state(const dlock_lock *lock, int64_t owner);

/*
 * What owner holds of all members: the largest token, the smallest count, the shortest remaining time (microseconds or
 * DLI_NEVER). DLOCK_OK, DLOCK_NOT_HELD or DLOCK_LOST.
 */
dlock_status dli_several_held(const dlock_lock *lock, int64_t owner, int64_t *token, int64_t *count, int64_t *remaining,
                              dlock_error *reterr);

/* wait_ms in microseconds; DLI_NEVER for -1. */
int64_t dli_wait(int64_t wait_ms);

/* DLOCK_INVALID_ARGUMENT without a client, or for a timeout_ms below -1. */
dlock_status dli_client_check(const dlock_client *client, int64_t timeout_ms, dlock_error *reterr);

/*
 * The same, and DLOCK_FORKED in a child of the process that used the client. A client that was not used before the
 * fork becomes the child's own: DLOCK_SYSTEM_ERROR when that fails. A closed client passes.
 */
dlock_status dli_client_mine(const dlock_client *client, int64_t timeout_ms, dlock_error *reterr);

#endif
