/*
 * core.h: the core of a client: its connections, its watchdog threads, and the entries of its locks.
 *
 * Who guards what, and in which order the mutexes are taken:
 *   client.mutex   the table of entries, the life of the client (started, closed), spare connections of transactions
 *   entry.mutex    the machine of one lock name and its waiters; taken under client.mutex or alone; those of the members
 *                  of a multi-lock together, in the order of their names
 *   loop.mutex     the timers of one watchdog thread; taken under entry.mutex or alone
 *   events.mutex, and those of the store: taken last
 * No mutex is held over I/O. Counters, refs and line are atomics.
 *
 * Lives: the client core lives while its handle, a lock handle or a watchdog thread refers to it. An entry lives while a
 * handle, a timer, a call or a renewal refers to it. A waiter lives while the machine, a sleeping caller or the event
 * queue refers to it.
 */
#ifndef DLI_CLIENT_CORE_H
#define DLI_CLIENT_CORE_H

#include <pthread.h>

#include "base/error.h"
#include "base/list.h"
#include "base/name.h"
#include "base/options.h"
#include "store/store.h"
#include "base/url.h"
#include "engine/engine.h"
#include "events.h"
#include "sys/sys.h"
#include "watchdog/watchdog.h"

enum { DLI_LOOPS_MAX = 16, DLI_SPARES = 8 };

#define DLI_LEFT "%.150s did not confirm every release in time; what is left expires by its lease"

struct dli_client;
struct dli_conn;
struct dli_entry;
struct dli_waiter;
struct dli_run; /* multi.h */

struct dli_client {
    pthread_mutex_t mutex;
    int64_t refs;
    uint64_t generation; /* of fork, when it was started */
    struct dli_fork_guard guard;
    int started, closed; /* atomics, set under mutex */
    struct dlock_options options;
    struct dli_store *store;
    char uuid[DLI_UUID_SIZE + 1];
    int64_t numbers; /* grant numbers given out */
    int64_t ids;     /* atomic: lock ids given out */
    void *table;     /* entries by name, a tsearch tree */
    struct dli_link entries;
    int64_t entry_count;
    uint32_t progress;  /* futex: bumped while closing when an entry may have become idle */
    int64_t leave_at;   /* atomic: closing, and nobody waits for it: loop 0 ends everything by then; 0: no */
    int threads;        /* running watchdog threads, under mutex */
    int line;           /* enum dli_line, atomic */
    int64_t line_ups;   /* atomic: how often it came up */
    int64_t gate_until; /* loop 0: what the message that is being told says */
    int64_t begun;      /* atomic: begun calls that memory did not answer */
    struct dli_events events;
    struct dli_findings found;          /* by the last look at the servers, under mutex */
    struct dli_conn *spare[DLI_SPARES]; /* connections for rounds of transactions, under mutex */
    int spares;                         /* how many */
    struct dli_watchdog watchdog;       /* constant: what the loops share */
    struct dli_loop *loops[DLI_LOOPS_MAX];
    int loop_count;
    int64_t stats[DLOCK_STAT_COUNT]; /* atomics */
};

/*
 * One lock name; or one hold of a kind where every owner's hold has a machine and an id of its own. Then parent is the
 * entry of the name, whose own machine stays idle, and name and place belong to that.
 */
struct dli_entry {
    pthread_mutex_t mutex;
    int64_t refs;
    int64_t id; /* of the name */
    struct dli_client *client;
    struct dli_loop *loop; /* set when the client starts */
    struct dli_link link;  /* in client.entries */
    const struct dli_kind *kind;
    struct dli_name name;
    struct dli_place *place;  /* in the store */
    struct dli_entry *parent; /* with a ref */
    struct dli_entry *before; /* with a ref: the same owner's slot - 1 */
    struct dli_link children; /* of this parent, by sibling; under client.mutex */
    struct dli_link sibling;
    int64_t owner, slot; /* of the hold */
    int64_t wanted;      /* atomic: the machine's grant number, for who looks for the hold of a message */
    int64_t under;       /* READ: the number of the owner's write hold when it asked; 0: none */
    int reserved;        /* chosen for an acquisition that has not begun */
    int64_t followed;    /* the grant number whose own channel is listened to */
    int64_t listeners;   /* holds that listen to the name's channel; the store's */
    int64_t heard_at;    /* atomic: the channel is heard since; 0: not */
    int64_t gate_asked;  /* client.line_ups when the server was asked for the gate; 0: never */
    int64_t highest;     /* atomic: of the tokens of the holds of this parent */
    struct dli_mutex_rules rules;
    struct dli_mutex m;
    struct dli_timer timer;          /* under the loop's mutex */
    struct dli_request *request;     /* the exchange in flight */
    dlock_error *reason;             /* the words of the last one, if it failed; or NULL */
    struct dli_gate_query *question; /* for the gate, under way; line.c */
    int64_t timer_at;                /* what the timer is set to; DLI_NEVER: not set */
    int64_t handles;                 /* atomic: lock handles of the name */
    int apart;                       /* its last renewal was refused: the next one shares no request */
    int surplus;                     /* refs to drop when the mutex is released */
    uint32_t *woken;                 /* the futex of a caller that is woken when the mutex is released */
    struct dli_run *cut_off;   /* multi-locks that end when the mutex is released: no thread takes their next step */
    char giver[DLI_OWNER_MAX]; /* the id of the grant that is adopted, or whose adoption is undone */
    int64_t heir;              /* the number it has here */
};

enum { DLI_SETTLED_ENDED = 1, DLI_SETTLED_GRANTED };

/* One claim with what its caller needs. */
struct dli_waiter {
    struct dli_claim claim;
    struct dli_entry *entry; /* with a ref */
    int64_t refs;
    uint32_t settled;   /* futex, DLI_SETTLED_* when the machine has answered */
    int64_t sure_until; /* SETTLED_GRANTED: the lock is the caller's until then, whatever the machine learns by time */
    enum { DLI_TELL_NOBODY, DLI_TELL_CALLER, DLI_TELL_QUEUE, DLI_TELL_RUN } tell; /* who waits for the answer */
    int sleeping;                                                                 /* the caller sleeps on settled */
    int interrupted; /* its caller went away by a signal and may come back */
    int64_t tag;
    dlock_error *reason;    /* TELL_QUEUE: the words for how it ended; or NULL */
    struct dli_run *run;    /* TELL_RUN: what it is a step of */
    struct dli_timer timer; /* ends the wait of a submitted claim; under the loop's mutex */
    struct dli_node acquired, released, lost, risk;
};

/* ---- client.c */

/* Whether a lease of so many ms, with its delay, is none that a quarantine would be too short for. */
int dli_client_may_lease(const struct dli_client *client, int64_t lease_ms);

dlock_status dli_client_new(const struct dlock_options *options, const struct dli_site *site, struct dli_client **ret,
                            dlock_error *box);
void dli_client_ref(struct dli_client *client);
void dli_client_unref(struct dli_client *client);

/* DLOCK_OK when the client may be used by this process; starts its threads the first time. */
dlock_status dli_client_start(struct dli_client *client, dlock_error *box);

/* DLOCK_FORKED in a child of the process that started it, DLOCK_CLOSED, or DLOCK_OK. */
dlock_status dli_client_usable(const struct dli_client *client, dlock_error *box);

/* In a child that has a client nobody had used before the fork: make it the child's own. 0 or -1 (errno). */
int dli_client_part(struct dli_client *client);

void dli_client_count(struct dli_client *client, int stat, int64_t by);

/* Call visit for every entry with entry.mutex held, then pump it. No mutex is held by the caller. */
void dli_client_each(struct dli_client *client, void (*visit)(struct dli_entry *entry, int64_t now));

/* ---- close.c */

/* End everything; with release the server is told what was held, until deadline. DLOCK_OK or DLOCK_TIMED_OUT. */
dlock_status dli_client_shut(struct dli_client *client, int release, int64_t deadline);

/* The same by the threads of the client. */
void dli_client_leave(struct dli_client *client, int64_t deadline);

/* Loop 0: end everything, if that is asked for and due. When it will be due whatever happens. */
int64_t dli_client_leaving(struct dli_client *client, int64_t now);

/* Something that a close waits for may be done. */
void dli_client_progress(struct dli_client *client);

/* A thread of the client ends. The last one ends the event queue. */
void dli_client_thread_ended(struct dli_client *client);

/* ---- entry.c */

/* The entry of a name, made when there is none, with a ref and a handle. NULL without memory. */
struct dli_entry *dli_entry_get(struct dli_client *client, const struct dli_kind *kind, const char *name, size_t size,
                                const struct dli_mutex_rules *rules);

/* The entry of a name if there is one, with a ref. */
struct dli_entry *dli_entry_find(struct dli_client *client, int32_t family, const char *name, size_t size);

/* The entry of one hold of the name parent stands for, with a ref; made when there is none. before as in struct dli_entry. */
struct dli_entry *dli_entry_child(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner, int64_t slot,
                                  struct dli_entry *before);

/* The same if there is one. */
struct dli_entry *dli_entry_find_child(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner,
                                       int64_t slot);
void dli_entry_ref(struct dli_entry *entry);
void dli_entry_unref(struct dli_entry *entry);

/*
 * Take and release entry.mutex; releasing wakes who is to be woken, ends multi-locks that are cut off and drops the refs that
 * became surplus, so entry may be gone afterwards.
 */
void dli_entry_lock(struct dli_entry *entry);
void dli_entry_unlock(struct dli_entry *entry);

/* A lock handle comes or goes. */
void dli_entry_handle(struct dli_entry *entry, int by);

/* The id of a grant number. */
void dli_entry_owner(const struct dli_entry *entry, int64_t number, char out[DLI_OWNER_MAX]);

/* entry.mutex held: whether any lock handle of the name is left. */
int dli_entry_handled(const struct dli_entry *entry);

/* entry.mutex held: nobody will ask any more and nothing is left to do: the timer goes, and with it its ref. */
void dli_entry_retire(struct dli_entry *entry);

/*
 * entry.mutex held: carry out what the machine wants now: send in the background, tell claims, post events, set the timer. Once
 * the threads are told to stop, nothing is left behind but an exchange on its way.
 */
void dli_entry_pump(struct dli_entry *entry, int64_t now);

/* The timer fired. */
void dli_entry_tick(struct dli_timer *timer, int64_t now);

/* ---- hold.c: the holds of one name, for the kinds that have one per owner */

/*
 * The entry in which owner acquires, with a ref: parent itself, or its own one. DLOCK_UPGRADE_REFUSED, DLOCK_OUT_OF_MEMORY.
 * permits: what the acquisition takes of a semaphore.
 */
dlock_status dli_hold_to_acquire(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner, int64_t permits,
                                 struct dli_entry **ret);

/* The entry with what owner has, with a ref: what it got last, then what waits or was lost. NULL: it has nothing. */
struct dli_entry *dli_hold_find(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner);

/* In how many slots owner holds something. */
int64_t dli_hold_slots(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner);

/* The entry in which owner waits or was interrupted, with a ref. NULL: none. */
struct dli_entry *dli_hold_waiting(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner);

/* Call visit for every hold of the name with entry.mutex held, then pump it. No mutex is held by the caller. */
void dli_hold_each(struct dli_entry *parent, void (*visit)(struct dli_entry *entry, int64_t now));

/* The hold with this grant number, with a ref, or NULL. */
struct dli_entry *dli_hold_of_number(struct dli_entry *parent, int64_t number);

/* ---- exchange.c */

/* entry.mutex held: hand the exchange to the loop. */
void dli_exchange_submit(struct dli_entry *entry, const struct dli_wish *wish, int64_t now);

/*
 * The same of what the machine wishes now, if anything; this thread may do the loop's work for as long as busy polling lasts. The
 * mutex is released in between.
 */
void dli_exchange_direct(struct dli_entry *entry, int64_t now);

/*
 * entry.mutex held, released meanwhile: send what the machine wants from this thread as long as claim is not settled. Returns
 * the time.
 */
int64_t dli_exchange_drive(struct dli_entry *entry, struct dli_claim *claim, int64_t now, dlock_error *reason);

/* ---- waiter.c */

struct dli_waiter *dli_waiter_new(struct dli_entry *entry);
void dli_waiter_unref(struct dli_waiter *waiter);

/* entry.mutex held: what to say when the claim's time is over. */
dlock_status dli_waiter_overdue(const struct dli_waiter *waiter);

/* entry.mutex held: claims that are settled, and reports. */
void dli_waiter_deliver(struct dli_entry *entry, int64_t now);

/* ---- renewal.c */

/* What the watchdog needs of the client: the rows of renewals, what came of them, and the end of a thread. */
extern const struct dli_watchdog_hooks dli_client_watchdog_hooks;

/* The loop's thread, entry.mutex held: queue a renewal that is due. */
void dli_renewal_queue(struct dli_entry *entry);

/* ---- line.c: what the store hears */

extern const struct dli_store_hooks dli_line_hooks;

/* entry.mutex held: hear and listen as the machine wants. */
void dli_line_follow(struct dli_entry *entry);

#endif
