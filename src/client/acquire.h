/*
 * acquire.h: the calls on one lock name behind the ABI: blocking, submitted, begun and in memory.
 *
 * All functions take entry.mutex themselves, unless their contract says that it is held. reason receives the text of a
 * failure at the server. It is not NULL, except in dli_lock_report. The ABI's functions add the names of lock and
 * server.
 */
#ifndef DLI_CLIENT_ACQUIRE_H
#define DLI_CLIENT_ACQUIRE_H

#include "core.h"

/* How a handle wants its lock. Times are microseconds. No padding: terms are compared as bytes. */
struct dli_terms {
    const struct dli_kind *kind;
    int64_t lease, max_hold, min_hold, linger, release_timeout; /* DLI_NEVER: no such limit */
    int renew, interruptible;
    int64_t permits;
};

/* ---- client.c: the same terms, stored once for all handles of the client that have them; NULL without memory. */
const struct dli_terms *dli_terms_get(struct dli_client *client, const struct dli_terms *terms);
void dli_terms_put(struct dli_client *client, const struct dli_terms *terms);

/* ---- acquire.c. cancelled may be NULL. Who sets it, and then calls dli_submit_cancel, ends this wait, whichever comes first. */
dlock_status dli_acquire(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t wait,
                         const uint32_t *cancelled, int64_t *token, dlock_error *reason);
dlock_status dli_release(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, dlock_error *reason);
dlock_status dli_acquire_local(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t *token);
dlock_status dli_release_local(struct dli_entry *entry, int64_t owner);

/*
 * The steps of these calls, with entry.mutex held.
 *
 *  enter     the machine's claim for a request. Sets *waiter, with a ref for the caller, when the claim must be waited
 *            for. Otherwise returns the answer.
 *  expect    the machine's next answer is for the claim's caller, and sets settled.
 *  over      the caller, which acquires or is releasing, has its answer: the claim is settled, or another thread of the
 *            owner has released what was granted. In that case settled and notify belong to that release.
 *  result    of a claim whose acquisition or release is over.
 *  answer    what the caller gets after a result. DLOCK_NOT_HELD: what dli_hold_swapped says, without entry.mutex.
 *  report    fills in reason from an exchange that the caller has not made itself. Returns status.
 *  released  does what a release in memory leaves to do.
 */
dlock_status dli_acquire_enter(struct dli_entry *entry, struct dli_waiter *fresh, int64_t now,
                               struct dli_waiter **waiter, int64_t *token);
void dli_acquire_asked(struct dli_waiter *waiter, int64_t now); /* measure its wait; before the claim is delivered */
void dli_acquire_expect(struct dli_waiter *waiter);
int dli_acquire_over(const struct dli_waiter *waiter, int releasing);
dlock_status dli_acquire_result(const struct dli_waiter *waiter);
dlock_status dli_acquire_answer(struct dli_waiter *waiter, dlock_status status, int64_t *token, dlock_error *reason);
dlock_status dli_acquire_report(const struct dli_entry *entry, dlock_status status, dlock_error *reason);
void dli_acquire_released(struct dli_entry *entry, struct dli_claim *ended, dlock_status status, int64_t now);

/* entry.mutex held: the caller takes its grant. DLOCK_LOST when the grant was over before the caller woke up. */
dlock_status dli_acquire_receive(struct dli_waiter *waiter, int64_t *token);

/* ---- submit.c: an event with tag has the result; with a run, the run gets it instead */
dlock_status dli_submit_acquire(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t wait,
                                int64_t tag, struct dli_run *run);
dlock_status dli_submit_release(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t tag,
                                struct dli_run *run);

/* Answer at once, without an event, when that takes only a moment. Else DLOCK_WOULD_BLOCK; an event with tag comes. */
dlock_status dli_begin_acquire(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t wait,
                               int64_t tag, int64_t *token, dlock_error *reason);
dlock_status dli_begin_release(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t tag,
                               dlock_error *reason);

/* Release what owner holds in the background. Nobody gets the result. */
void dli_submit_give_up(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner);

/* End owner's wait, or give back a grant that came after owner was interrupted. DLOCK_OK or DLOCK_NOT_HELD. */
dlock_status dli_submit_cancel(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner);

/* ---- hold.c: what an owner has */
int32_t dli_query_state(struct dli_entry *entry, int64_t owner);

/* The hold of owner. *remaining is in microseconds, or DLI_NEVER. DLOCK_OK, DLOCK_NOT_HELD or DLOCK_LOST. */
dlock_status dli_query_held(struct dli_entry *entry, int64_t owner, int64_t *token, int64_t *count, int64_t *remaining);

/*
 * The grant number of the permit with this index in owner's hold. DLOCK_OK, DLOCK_NOT_HELD, DLOCK_LOST,
 * DLOCK_INVALID_ARGUMENT.
 */
dlock_status dli_query_permit(struct dli_entry *entry, int64_t owner, int64_t index, int64_t *number);

/* ---- operation.c */

/* The text of reason when reason has this status, else the text of the status. */
const char *dli_reason_text(dlock_status status, const dlock_error *reason);

/* Fill in reterr: a sentence that names lock and server, with dli_reason_text. Returns status. */
dlock_status dli_lock_report(const struct dli_entry *entry, dlock_status status, const dlock_error *reason,
                             dlock_error *reterr);

/* ---- transfer.c */
enum { DLI_GRANT_MAX = 512 };

/* A new waiter, with one ref for the machine and one for the caller. NULL without memory. */
struct dli_waiter *dli_acquire_waiter(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner,
                                      int64_t wait, int64_t now);

#endif
