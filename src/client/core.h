/*
 * core.h: the core of a client: its connections, its watchdog threads, and the entries of its locks.
 *
 * Who guards what, and in which order the mutexes are taken:
 *   client.mutex   the table of entries, the life of the client (started, closed)
 *   entry.mutex    the machine of one lock name and its waiters. Taken under client.mutex or alone. The mutexes of the
 *                  members of a multi-lock are taken together, in the order of their names
 *   waitlist.mutex    which waiters of a name ask the server, and which hear of its subscription: waitlist.c,
 *                  subscription.c. Taken under client.mutex, under entry.mutex or alone
 *   loop.mutex     the timers of one watchdog thread. Taken under entry.mutex or alone
 *   events.mutex, and those of the store: taken last
 * No mutex is held over I/O. Counters, refs and line are atomics.
 *
 * Lifetimes: the client core lives while its handle, a lock handle or a watchdog thread refers to it. An entry lives
 * while a handle, a timer, a call or a renewal refers to it. A waiter lives while the machine, a sleeping caller or
 * the event queue refers to it.
 */
#ifndef DLI_CLIENT_CORE_H
#define DLI_CLIENT_CORE_H

#include <pthread.h>

#include "base/error.h"
#include "base/options.h"
#include "base/share.h"
#include "base/table.h"
#include "store/store.h"
#include "base/url.h"
#include "metrics/metrics.h"
#include "entry.h"
#include "events.h"
#include "watchdog/watchdog.h"

enum { DLI_LOOPS_MAX = 16 };

#define DLI_LEFT "%.150s did not confirm every release in time; what is left expires by its lease"

struct dli_client;

/* What is called for some entries, with entry.mutex held. */
typedef void dli_visit_fn(struct dli_entry *entry, int64_t now);

/* How far a close is with ending the machines. */
enum dli_ending { DLI_ENDING_PAUSED, DLI_ENDING_SOME, DLI_ENDING_DONE };

struct dli_client {
    pthread_mutex_t mutex;
    int64_t refs;
    uint64_t generation; /* the fork generation of the process it belongs to */
    struct dli_fork_guard guard;
    int started, closed; /* atomics, set under mutex */
    struct dlock_options options;
    struct dli_store *store;
    char uuid[DLI_UUID_SIZE + 1];
    struct dli_secret secret; /* made with it; constant then */
    int64_t numbers;          /* atomic: the last grant number given out */
    int64_t ids;              /* atomic: the last lock id given out */
    struct dli_table table;   /* the entries, under mutex */
    struct dli_link entries;
    struct dli_link rules, terms; /* of entries and handles, see base/share.h; under mutex */
    int64_t entry_count;          /* atomic, set under mutex */
    size_t most_entries;          /* that there were at a time, holds as well */
    uint32_t progress;            /* futex: bumped while closing when the last busy entry may have become idle */
    int64_t busy;            /* atomic: machines that the close has found busy, and that have not become idle since */
    int64_t leave_at;        /* atomic: a submitted close: loop 0 ends everything by then; 0: none */
    int64_t hurry_at;        /* loop 0, in a submitted close: it does not wait longer for machines to become idle */
    int ending;              /* enum dli_ending, atomic, set under mutex */
    struct dli_entry *ended; /* the last one that the close has ended, with a ref; under mutex */
    int threads;             /* running watchdog threads, under mutex */
    int line;                /* enum dli_line, atomic: the state of the subscription */
    uint32_t line_ups;       /* atomic: how often the subscription came up */
    int64_t gate_until;      /* loop 0: what the gate message being delivered says */
    const char *heard;       /* loop 0: the namespace in which grants arrive from now on */
    size_t heard_size;       /* loop 0: of it, with its colon */
    int64_t lapsed[2];       /* loop 0: above and up to which lease holds are to be renewed now */
    int64_t begun;           /* atomic: begun calls that did not succeed in memory */
    struct dli_run *cut_off; /* multi-locks to end, under mutex: multi_submit.c */
    int cutting;             /* a thread ends them, under mutex */
    struct dli_events events;
    struct dli_findings found;    /* of the last check, under mutex */
    struct dli_watchdog watchdog; /* constant: what the loops share */
    struct dli_loop *loops[DLI_LOOPS_MAX];
    int loop_count;
    int64_t stats[DLOCK_STAT_COUNT]; /* atomics */
    struct dli_metrics metrics;      /* atomics */
};

/* ---- client.c */

/* Whether the quarantine, if there is one, is long enough for a lease of lease_ms, lock delay included. */
int dli_client_may_lease(const struct dli_client *client, int64_t lease_ms);

dlock_status dli_client_new(const struct dlock_options *options, const struct dli_site *site, struct dli_client **ret,
                            dlock_error *box);
void dli_client_ref(struct dli_client *client);
void dli_client_unref(struct dli_client *client);

/* Start the threads of the client at its first use. DLOCK_OK when this process may use the client. */
dlock_status dli_client_start(struct dli_client *client, dlock_error *box);

/* DLOCK_FORKED in a child of the process that started it, DLOCK_CLOSED, or DLOCK_OK. */
dlock_status dli_client_usable(const struct dli_client *client, dlock_error *box);

/* In a child after a fork: a client that nobody had used before the fork becomes the child's own. 0 or -1 (errno). */
int dli_client_part(struct dli_client *client);

void dli_client_count(struct dli_client *client, int stat, int64_t by);

/*
 * Call visit for some entries behind *last (NULL: from the start) with entry.mutex held, and pump each. *last becomes the last
 * one, with a ref that the next call drops. 0: there are no more, and *last is NULL. The caller holds no mutex.
 */
int dli_client_some(struct dli_client *client, struct dli_entry **last, dli_visit_fn *visit);

/* The same for every entry. */
void dli_client_each(struct dli_client *client, dli_visit_fn *visit);

/* ---- close.c */

/*
 * End everything. With release, blocks until the server knows of all releases or deadline. DLOCK_OK or
 * DLOCK_TIMED_OUT.
 */
dlock_status dli_client_shut(struct dli_client *client, int release, int64_t deadline);

/* The same with release, by the threads of the client. Does not block. */
void dli_client_leave(struct dli_client *client, int64_t deadline);

/* Loop 0: end everything when a submitted close is due. Returns the latest time at which it is due, or DLI_NEVER. */
int64_t dli_client_leaving(struct dli_client *client, int64_t now);

/* entry.mutex held: the client is closed, and this machine is idle: that may be what the close waits for. */
void dli_client_progress(struct dli_entry *entry);

/* A thread of the client ends. The last one ends the event queue. */
void dli_client_thread_ended(struct dli_client *client);

/* ---- entry.c */

/* The entry of a name, made when there is none, with a ref, and counted as a handle. NULL without memory. */
struct dli_entry *dli_entry_get(struct dli_client *client, const struct dli_kind *kind, const struct dli_name *name,
                                const struct dli_mutex_rules *rules);

/* The entry of a name, with a ref. NULL when there is none. */
struct dli_entry *dli_entry_find(struct dli_client *client, int32_t family, const char *name, size_t size);

/*
 * The entry of one hold of parent's name, made when there is none, with a ref. before as in struct dli_entry. NULL
 * without memory.
 */
struct dli_entry *dli_entry_child(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner, int64_t slot,
                                  struct dli_entry *before);

/* The same, or NULL when there is none. */
struct dli_entry *dli_entry_find_child(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner,
                                       int64_t slot);
void dli_entry_ref(struct dli_entry *entry);
void dli_entry_unref(struct dli_entry *entry);

/*
 * Take and release entry.mutex. Release then wakes the caller in woken, ends the multi-locks in cut_off, visits the waiters of
 * the name that are to ask now, and drops the surplus refs, so the entry may be gone afterwards.
 */
void dli_entry_lock(struct dli_entry *entry);
void dli_entry_unlock(struct dli_entry *entry);

/*
 * The same without these visits. 1: they are due, and the caller, who has a ref of the parent, calls dli_waitlist_visit. Whoever
 * visits waiters unlocks them so: a visit may make the next one due, and would be called from within it.
 */
int dli_entry_unlock_only(struct dli_entry *entry);

/* Count a lock handle: by is 1 or -1. */
void dli_entry_handle(struct dli_entry *entry, int by);

/* The id that stands for a grant number on the server. */
void dli_entry_owner(const struct dli_entry *entry, int64_t number, char out[DLI_OWNER_MAX]);

/* entry.mutex held: whether any lock handle of the name is left. */
int dli_entry_handled(const struct dli_entry *entry);

/* An empty table of entries, by name, kind, owner and slot. */
void dli_entry_table(struct dli_table *table);

/* entry.mutex held: stop the timer, and drop its ref. */
void dli_entry_stop_timer(struct dli_entry *entry);

/* entry.mutex held: no handle is left, the machine is idle. The timer goes, with its ref. Losses are settled. */
void dli_entry_retire(struct dli_entry *entry);

/*
 * entry.mutex held: do what the machine wants now: notify claims, post events, send in the background, set the timer.
 * Once the threads are told to stop, only an exchange on its way is left behind.
 */
void dli_entry_pump(struct dli_entry *entry, int64_t now);

/* The watchdog thread of the entry; NULL until the client starts. */
static inline struct dli_loop *dli_entry_loop(const struct dli_entry *entry)
{
    return entry->loop < 0 ? NULL : entry->client->loops[entry->loop];
}

/* entry.mutex held: what is aside; made, when there is nothing. NULL without memory. */
struct dli_aside *dli_entry_aside(struct dli_entry *entry);

/* entry.mutex held: forget the failure of the last exchange. */
void dli_entry_forget_reason(struct dli_entry *entry);

/* entry.mutex held, or the entry has no other user: free what is aside and over; with all, also what is not over. */
void dli_entry_trim_aside(struct dli_entry *entry, int all);

/*
 * entry.mutex held: the gate is closed until then, or open (0). Without memory to note that, the gate is asked for again when
 * it matters.
 */
void dli_entry_gate(struct dli_entry *entry, int64_t until, int64_t now);

/* A hold's rules follow it. */
static inline struct dli_mutex_rules *dli_entry_own_rules(struct dli_entry *hold)
{
    return (struct dli_mutex_rules *)(hold + 1);
}

/* ---- hold.c: the holds of one name, for the kinds that have one per owner */

void dli_hold_rules(struct dli_mutex_rules *own, struct dli_entry *parent, const struct dli_kind *kind);

/*
 * The entry in which owner acquires, with a ref: parent itself, or a hold of owner. permits is what the acquisition
 * takes of a semaphore. DLOCK_UPGRADE_REFUSED, DLOCK_OUT_OF_MEMORY.
 */
dlock_status dli_hold_to_acquire(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner, int64_t permits,
                                 struct dli_entry **ret);

/* The acquisition for which dli_hold_to_acquire found the entry does not begin: another one may use its slot. */
void dli_hold_refused(struct dli_entry *entry);

/*
 * The entry of owner's hold, with a ref: the hold granted last, else one that waits or was lost. NULL: there is none.
 * Always parent where owners have no entries of their own.
 */
struct dli_entry *dli_hold_find(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner);

/*
 * Behind a call about *hold, which has ended with this status: 1 when it is to be made again, because meanwhile another thread of owner
 * has released that hold, and owner has more, held or lost. *hold is another one then, with the ref.
 */
int dli_hold_again(struct dli_entry **hold, int64_t owner, dlock_status status);

/*
 * Another thread of owner has released hold, of a semaphore, before the caller that acquired it could take it: DLOCK_OK when owner
 * has another one, which that thread left in its place; else DLOCK_LOST.
 */
dlock_status dli_hold_swapped(struct dli_entry *hold, int64_t owner);

/* What owner has (DLOCK_STATE_*) of parent's name. The caller has no mutex. */
int32_t dli_hold_state(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner);

/* entry.mutex held: an acquisition begins in this entry. */
static inline void dli_hold_begins(struct dli_entry *entry)
{
    if (entry->kind->slots)
        __atomic_add_fetch(&entry->parent->begun, 1, __ATOMIC_SEQ_CST);
}

/* The number of slots in which owner holds something. */
int64_t dli_hold_slots(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner);

/*
 * The entry in which owner waits or was interrupted, with a ref. NULL: none. Always parent where owners have no
 * entries of their own.
 */
struct dli_entry *dli_hold_waiting(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner);

/*
 * Call visit for every hold of the name with entry.mutex held, then pump it. The caller holds no mutex. A visit that ends waits
 * makes nobody ask before all holds were visited. only: as in dli_entry_unlock_only.
 */
void dli_hold_each(struct dli_entry *parent, dli_visit_fn *visit);
int dli_hold_each_only(struct dli_entry *parent, dli_visit_fn *visit);

/*
 * The hold that waits in line with this grant number, with a ref, or NULL. And: whatever it does. The second one may look through
 * all holds of the name, so it is not for numbers that anybody may have sent.
 */
struct dli_entry *dli_hold_in_line(struct dli_entry *parent, int64_t number);
struct dli_entry *dli_hold_of_number(struct dli_entry *parent, int64_t number);

/* ---- exchange.c */

/* entry.mutex held: hand the exchange to the loop. */
void dli_exchange_submit(struct dli_entry *entry, const struct dli_wish *wish, int64_t now);

/*
 * entry.mutex held, released meanwhile: hand over the exchange that the machine wishes now, if any. This thread may do
 * the loop's work for as long as busy polling lasts.
 */
void dli_exchange_direct(struct dli_entry *entry, int64_t now);

/*
 * entry.mutex held, released meanwhile: send from this thread what the machine wants, until claim is settled or the
 * machine wants nothing. Returns the time.
 */
int64_t dli_exchange_drive(struct dli_entry *entry, struct dli_claim *claim, int64_t now, dlock_error *reason);

/* ---- waiter.c */

/* With one ref for the machine and one for the caller. NULL without memory. */
struct dli_waiter *dli_waiter_new(struct dli_entry *entry);
void dli_waiter_unref(struct dli_waiter *waiter);

/* The same under entry.mutex: the entry's ref is dropped when the mutex is released. */
void dli_waiter_unref_locked(struct dli_waiter *waiter);

/* The event of a call that will be submitted, and waits so long. NULL without memory. Free: no waiter has it; or NULL. */
struct dli_notice *dli_notice_new(int64_t wait);
void dli_notice_free(struct dli_notice *notice);

/* Whether the node, which is in the queue, tells of a loss. */
int dli_waiter_is_loss(const struct dli_node *node);

/* entry.mutex held: the status of a claim whose time is over. */
dlock_status dli_waiter_overdue(const struct dli_waiter *waiter);

/* entry.mutex held: post what the machine reports, and notify the callers of settled claims. */
void dli_waiter_deliver(struct dli_entry *entry, int64_t now);

/* ---- submit.c */

/* entry.mutex held: a timer ends the wait of a submitted claim, if it has a limit. And: its wait has ended. */
void dli_waiter_limit(struct dli_waiter *waiter, int64_t now);
void dli_waiter_unlimit(struct dli_waiter *waiter);

/* That timer fired. */
void dli_waiter_overtime(struct dli_timer *timer, int64_t now);

/*
 * entry.mutex held: a signal interrupted the caller of this claim, which goes on without it for as long as the caller would have
 * waited. What it is granted goes back then, unless its owner has called again.
 * resume: 1: it was interrupted, and is not any more: its owner has called again, or it is over.
 */
void dli_waiter_interrupt(struct dli_waiter *waiter, int64_t now);
int dli_waiter_resume(struct dli_waiter *waiter);

/* The same of a waiter without refs: nobody knows it, and no timer has it. */
void dli_waiter_uncount(struct dli_waiter *waiter);

/* ---- renewal.c */

/* What the watchdog needs of the client: the rows of renewals, their results, and the end of a thread. */
extern const struct dli_watchdog_hooks dli_client_watchdog_hooks;

/* The loop's thread, entry.mutex held: queue a renewal that is due. */
void dli_renewal_queue(struct dli_entry *entry);

/* ---- line.c: messages from the store */

extern const struct dli_store_hooks dli_line_hooks;

/* entry.mutex held: subscribe or unsubscribe, and query the gate, as the machine wants. */
void dli_line_follow(struct dli_entry *entry);

/* Call visit, if it is not NULL, with entry.mutex held, then pump the entry. Drops a ref. The caller holds no mutex. */
void dli_entry_visit(struct dli_entry *entry, dli_visit_fn *visit);

/* The same, but release the mutex by dli_entry_unlock_only, and return its answer. */
int dli_entry_visit_only(struct dli_entry *entry, dli_visit_fn *visit);

/* ---- gate.c; entry.mutex held */

/* Query the gate if there is a reason. */
void dli_gate_follow(struct dli_entry *entry);

/* The gate is closed until then, or open (0): the server says so. */
void dli_gate_note(struct dli_entry *entry, int64_t until, int64_t now);

/* A visit: a message says that the gate has changed. */
void dli_gate_doubt(struct dli_entry *entry, int64_t now);

/* When dli_gate_follow wants to be called because of such a message; and whether aside is to be kept for that. */
int64_t dli_gate_alarm(const struct dli_entry *entry);
int dli_gate_rests(const struct dli_aside *aside, int64_t now);

/* ---- subscription.c */

/* entry.mutex held: subscribe or unsubscribe, as the machine wants. */
void dli_subscription_follow(struct dli_entry *entry);

/* Visit the entry of a name, then all whom a message about its subscription concerns. Drops a ref of the entry. */
void dli_subscription_visit(struct dli_entry *entry, dli_visit_fn *visit);

/* Visits, of an entry whose subscription has begun, or has ended although nothing here ended it. */
void dli_subscription_begun(struct dli_entry *entry, int64_t now);
void dli_subscription_ended(struct dli_entry *entry, int64_t now);

/* The entry has no ref any more: no message finds it. */
void dli_subscription_leave(struct dli_entry *entry);

#endif
