/*
 * multi.h: several locks as one: all or none. Members are taken in the order of their names, the same for everybody, so
 * that two of them never wait for each other; what was taken is given back when one cannot be had.
 */
#ifndef DLI_CLIENT_MULTI_H
#define DLI_CLIENT_MULTI_H

#include "acquire.h"

struct dli_member {
    struct dli_entry *entry; /* of the name; with a ref and a handle */
    const struct dli_kind *kind;
    struct dli_terms terms;
};

/* An interrupted call of owner that may go on: it has the members before at, and waits for that one. */
struct dli_pause {
    struct dli_pause *next;
    int64_t owner;
    size_t at;
};

struct dli_multi {
    int64_t refs; /* atomic */
    int64_t id;
    struct dli_client *client;
    struct dli_pause *paused; /* under client.mutex */
    struct dli_run *runs;     /* under client.mutex: acquisitions that have not ended */
    uint32_t apart;           /* atomic: the server refused all at once; one by one until that succeeds */
    size_t count;
    struct dli_member member[]; /* in the order of their names */
};

/*
 * A new one with one ref, of copies of count members. DLOCK_DUPLICATE_NAME (*which: the second), DLOCK_OUT_OF_MEMORY.
 */
dlock_status dli_multi_new(const struct dli_member *members, size_t count, struct dli_multi **ret, size_t *which);
void dli_multi_ref(struct dli_multi *multi);
void dli_multi_unref(struct dli_multi *multi);

/*
 * Blocking. *blocked is the member that stood in the way when the answer is not DLOCK_OK. *token: the largest. After
 * DLOCK_INTERRUPTED the owner's next call goes on; or dli_multi_cancel.
 */
dlock_status dli_multi_acquire(struct dli_multi *multi, int64_t owner, int64_t wait, int64_t *token, size_t *blocked,
                               dlock_error *reason);

/* End the acquisition of owner. DLOCK_NOT_HELD when it is not under way, or a blocking one is between two members. */
dlock_status dli_multi_cancel(struct dli_multi *multi, int64_t owner);

/* End owner's wait for one member. DLOCK_NOT_HELD when it does not wait there. */
dlock_status dli_multi_cancel_one(const struct dli_member *member, int64_t owner);

/* How many members owner has of a call that was interrupted, which goes on with the next one: all up to that, or none. */
size_t dli_multi_resume(struct dli_multi *multi, int64_t owner);

/*
 * How many of the first count members owner has, up to the first that it has not, by the clock at this instant; and the
 * largest token of these.
 */
size_t dli_multi_held(struct dli_multi *multi, int64_t owner, size_t count, int64_t *token);

/* What owner has of the first count members goes back in the background. */
void dli_multi_give_up(struct dli_multi *multi, int64_t owner, size_t count);

/* Whether a member's answer says more than what the others have answered: the first that is not DLOCK_OK, LOST above all. */
int dli_multi_tells(dlock_status before, dlock_status status);

/* Every member is released whatever the others answer; the answer that tells most. */
dlock_status dli_multi_release(struct dli_multi *multi, int64_t owner, size_t *blocked, dlock_error *reason);

/*
 * All members, mutexes that nobody here uses, by one script. DLOCK_OK, DLOCK_WOULD_BLOCK (one of them is in use here or
 * not a mutex, or the server refused them all without saying which: one by one tells), or why not, with *blocked. multi_once.c.
 */
dlock_status dli_multi_at_once(struct dli_multi *multi, int64_t owner, int64_t *token, size_t *blocked,
                               dlock_error *reason);

/* All members were taken one by one: they may be taken at once again. */
static inline void dli_multi_together(struct dli_multi *multi)
{
    if (__atomic_load_n(&multi->apart, __ATOMIC_RELAXED))
        __atomic_store_n(&multi->apart, 0, __ATOMIC_RELAXED);
}

/* ---- multi_submit.c: the same without a waiting thread; one event tells the end */

struct dli_run;

/* multi_once.c: all members for the run, which is told: it is not the caller's any more. Or DLOCK_WOULD_BLOCK, DLOCK_OUT_OF_MEMORY. */
dlock_status dli_multi_submit_at_once(struct dli_multi *multi, int64_t owner, struct dli_run *run);

/* No mutex held: what came of it, and the member that stood in the way. After DLOCK_WOULD_BLOCK they are taken one by one. */
void dli_run_taken(struct dli_run *run, dlock_status status, size_t blocked);

dlock_status dli_run_acquire(struct dli_multi *multi, int64_t owner, int64_t wait, int64_t tag);
dlock_status dli_run_release(struct dli_multi *multi, int64_t owner, int64_t tag);

/* Whether owner has an acquisition under way; then that will end with DLOCK_CANCELLED, unless it fails otherwise. */
int dli_run_cancel(struct dli_multi *multi, int64_t owner);

/* entry.mutex of the member held: what was submitted for the run has ended. */
void dli_run_told(struct dli_run *run, struct dli_entry *entry, dlock_status result, int64_t now);

/* No mutex held: the end of runs whose next step no thread takes. */
void dli_run_end(struct dli_run *cut_off);

#endif
