/*
 * multi.h: several locks as one: all or none. Members are acquired in the order of their names, the same for
 * everybody, so that two multi-locks never wait for each other. When one member cannot be had, those acquired before
 * it are given back.
 */
#ifndef DLI_CLIENT_MULTI_H
#define DLI_CLIENT_MULTI_H

#include "acquire.h"

struct dli_member {
    struct dli_entry *entry; /* of the name; with a ref and a handle */
    const struct dli_kind *kind;
    struct dli_terms terms;
};

/* An interrupted call of owner that may go on: it has the members before at, and waits for member at. */
struct dli_pause {
    struct dli_pause *next;
    int64_t owner;
    size_t at;
};

/* A blocking acquisition under way, on the stack of its caller. */
struct dli_call {
    struct dli_call *next;
    int64_t owner;
    uint32_t cancelled; /* atomic: set before the mutexes of the members are taken for the cancel */
};

struct dli_multi {
    int64_t refs; /* atomic */
    int64_t id;
    struct dli_client *client;
    struct dli_pause *paused; /* under client.mutex */
    struct dli_call *calls;   /* under client.mutex: blocking acquisitions that have not ended */
    struct dli_run *runs;     /* under client.mutex: submitted ones */
    uint32_t apart;           /* atomic: the server refused the single request: one by one until that succeeds */
    size_t count;
    struct dli_member member[]; /* in the order of their names */
};

/*
 * Make a multi-lock with one ref from copies of the members. DLOCK_DUPLICATE_NAME (*which is the duplicate),
 * DLOCK_OUT_OF_MEMORY.
 */
dlock_status dli_multi_new(const struct dli_member *members, size_t count, struct dli_multi **ret, size_t *which);
void dli_multi_ref(struct dli_multi *multi);
void dli_multi_unref(struct dli_multi *multi);

/*
 * Blocking. *token is the largest token. When the answer is not DLOCK_OK, *blocked is the member that stood in the
 * way. After DLOCK_INTERRUPTED the next call of owner goes on with the acquisition, or dli_multi_cancel ends it.
 */
dlock_status dli_multi_acquire(struct dli_multi *multi, int64_t owner, int64_t wait, int64_t *token, size_t *blocked,
                               dlock_error *reason);

/* End owner's acquisition: it gets DLOCK_CANCELLED, unless it fails otherwise. DLOCK_NOT_HELD when none is under way. */
dlock_status dli_multi_cancel(struct dli_multi *multi, int64_t owner);

/* End owner's wait for one member. DLOCK_NOT_HELD when owner does not wait there. */
dlock_status dli_multi_cancel_one(const struct dli_member *member, int64_t owner);

/*
 * Go on with an interrupted call of owner: returns how many members owner has; the next one is to be acquired. 0 when
 * there is no such call, or when owner has lost one of these members. Then the wait ends, and the other members are
 * given back in the background.
 */
size_t dli_multi_resume(struct dli_multi *multi, int64_t owner);

/*
 * How many of the first count members owner holds now, up to the first that it does not hold. *token is the largest
 * token of these.
 */
size_t dli_multi_held(struct dli_multi *multi, int64_t owner, size_t count, int64_t *token);

/* Release in the background what owner holds of the first count members. */
void dli_multi_give_up(struct dli_multi *multi, int64_t owner, size_t count);

/* Whether status replaces before as the answer for all: the first failure wins, but DLOCK_LOST wins over others. */
int dli_multi_is_worse(dlock_status before, dlock_status status);

/*
 * Release every member, whatever the others answer. Returns the answer that wins by dli_multi_is_worse, *blocked its
 * member.
 */
dlock_status dli_multi_release(struct dli_multi *multi, int64_t owner, size_t *blocked, dlock_error *reason);

/*
 * multi_once.c: acquire all members by one script. DLOCK_WOULD_BLOCK: they are to be acquired one by one, because one
 * of them is in use here or is not a mutex, because one script cannot have them all, or because the server refused the
 * request without naming a member. Other failures come with *blocked.
 */
dlock_status dli_multi_at_once(struct dli_multi *multi, int64_t owner, int64_t *token, size_t *blocked,
                               dlock_error *reason);

/* All members were acquired one by one. The next acquisition may try one request again. */
static inline void dli_multi_together(struct dli_multi *multi)
{
    if (__atomic_load_n(&multi->apart, __ATOMIC_RELAXED))
        __atomic_store_n(&multi->apart, 0, __ATOMIC_RELAXED);
}

/* ---- multi_submit.c: the same without a waiting thread; one event has the result */

struct dli_run;

/*
 * multi_once.c: acquire all members by one script, for the run. DLOCK_OK: the run is not the caller's any more, and
 * dli_run_taken gets the result. DLOCK_WOULD_BLOCK, DLOCK_OUT_OF_MEMORY: it still is.
 */
dlock_status dli_multi_submit_at_once(struct dli_multi *multi, int64_t owner, struct dli_run *run);

/*
 * No mutex held: the result of dli_multi_submit_at_once, and the member that stood in the way. The members are
 * acquired one by one after DLOCK_WOULD_BLOCK, and when the run may wait.
 */
void dli_run_taken(struct dli_run *run, dlock_status status, size_t blocked);

dlock_status dli_run_acquire(struct dli_multi *multi, int64_t owner, int64_t wait, int64_t tag);
dlock_status dli_run_release(struct dli_multi *multi, int64_t owner, int64_t tag);

/* Cancel owner's acquisition: it ends with DLOCK_CANCELLED, unless it fails otherwise. 0 when there is none. */
int dli_run_cancel(struct dli_multi *multi, int64_t owner);

/* entry.mutex of the member held: the acquire or release that was submitted for the run has ended. */
void dli_run_member_ended(struct dli_run *run, struct dli_entry *entry, dlock_status result, int64_t now);

/* The timer of a run fired: its next step. */
void dli_run_go_on(struct dli_timer *timer, int64_t now);

/* No mutex held: end the runs in this list. No thread takes their next step. */
void dli_run_end(struct dli_run *cut_off);

#endif
