/*
 * acquire.h: what callers can ask of one lock name: the blocking, submitted and in-memory forms behind the ABI.
 *
 * All functions take entry.mutex themselves. why, never NULL, receives a sentence about trouble with the server; the
 * caller of the ABI gets it together with the names of lock and server.
 */
#ifndef DLI_CLIENT_ACQUIRE_H
#define DLI_CLIENT_ACQUIRE_H

#include "core.h"

/* How a handle wants its lock. */
struct dli_terms {
    int64_t lease, max_hold, min_hold, linger, release_timeout; /* microseconds */
    int renew, interruptible;
    int64_t permits;
};

/* ---- acquire.c */
dlock_status dli_acquire(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t wait,
                         int64_t *token, dlock_error *reason);
dlock_status dli_release(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, dlock_error *reason);
dlock_status dli_acquire_local(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t *token);
dlock_status dli_release_local(struct dli_entry *entry, int64_t owner);

/*
 * The steps of these, under entry.mutex. enter: the machine's claim for a request; it sets *waiter (with a ref for the caller)
 * when the claim must be waited for, else returns the answer. expect: the machine's next answer is for the claim's caller, and
 * sets settled. result: of a settled claim. answer: what its caller is told, after a result. said: with the words of an
 * exchange that the caller has not made itself. released: what a release in memory leaves to do.
 */
dlock_status dli_acquire_enter(struct dli_entry *entry, struct dli_waiter *fresh, int64_t now,
                               struct dli_waiter **waiter, int64_t *token);
void dli_acquire_expect(struct dli_waiter *waiter);
dlock_status dli_acquire_result(const struct dli_waiter *waiter);
dlock_status dli_acquire_answer(struct dli_waiter *waiter, dlock_status status, int64_t *token, dlock_error *reason);
dlock_status dli_acquire_report(const struct dli_entry *entry, dlock_status status, dlock_error *reason);
void dli_acquire_released(struct dli_entry *entry, struct dli_claim *ended, int64_t now);

/* entry.mutex held: the grant is the caller's, unless its time was over before the caller woke up: DLOCK_LOST then. */
dlock_status dli_acquire_receive(struct dli_waiter *waiter, int64_t *token);

/* ---- submit.c: an event with tag tells the end, or run is told when there is one */
dlock_status dli_submit_acquire(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t wait,
                                int64_t tag, struct dli_run *run);
dlock_status dli_submit_release(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t tag,
                                struct dli_run *run);

/* The same for what takes longer than a moment, DLOCK_WOULD_BLOCK then; else the answer, and no event. */
dlock_status dli_begin_acquire(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t wait,
                               int64_t tag, int64_t *token, dlock_error *reason);
dlock_status dli_begin_release(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t tag,
                               dlock_error *reason);

/* What owner holds goes back in the background; nobody is told. */
void dli_submit_give_up(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner);
dlock_status dli_submit_cancel(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner);

/* ---- query.c */
int32_t dli_query_state(struct dli_entry *entry, int64_t owner);

/* What owner holds: DLOCK_OK, DLOCK_NOT_HELD or DLOCK_LOST. */
dlock_status dli_query_held(struct dli_entry *entry, int64_t owner, int64_t *token, int64_t *count, int64_t *remaining);

/* The grant number of permit index of what owner holds: DLOCK_OK, DLOCK_NOT_HELD, DLOCK_LOST, DLOCK_INVALID_ARGUMENT. */
dlock_status dli_query_permit(struct dli_entry *entry, int64_t owner, int64_t index, int64_t *number);

/* ---- operation.c */

/* Say what happened to which lock on which server; a sentence of why with this status wins over the table's. */
dlock_status dli_lock_report(const struct dli_entry *entry, dlock_status status, const dlock_error *reason,
                             dlock_error *reterr);

/* ---- transfer.c */
enum { DLI_GRANT_MAX = 512 };

dlock_status dli_transfer_export(struct dli_entry *entry, int64_t owner, uint8_t *out, size_t room, size_t *size);

/* entry.mutex held: a new waiter for the machine with one ref for the caller; NULL without memory. */
struct dli_waiter *dli_acquire_waiter(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner,
                                      int64_t wait, int64_t now);

#endif
