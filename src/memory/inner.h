/*
 * inner.h: the store in the memory of this process, shared by its files.
 *
 * A world is what a server is elsewhere: it keeps the locks of all clients with the same URL memory://name. A client with
 * the URL memory: has a world of its own. A world ends when its last client is closed. Each lock is a cell of the world: who holds it,
 * and who stands in line. Nothing happens by itself: each request first removes what has ended in its cell, and every
 * waiter asks again when a hold that it was told of ends, or when it is told to.
 *
 * A request acts at once, on the thread of its caller or of its lane, unless a fault holds it up. A request that has failed
 * never acts later.
 *
 * world.mutex guards the world and all that belongs to it: cells, stores, their faults and messages, the requests that wait
 * in lanes. Nothing else is locked under it, and no hook or done runs under it. The list of named worlds has a mutex of its
 * own, under which world.mutex may be taken. A child of a fork touches no world of its parent: any thread may have been in
 * it.
 */
#ifndef DLI_MEMORY_INNER_H
#define DLI_MEMORY_INNER_H

#include <pthread.h>

#include "base/list.h"
#include "base/table.h"
#include "base/url.h"
#include "store/store.h"
#include "sys/sys.h"

enum { DLI_MEMORY_LANES = 16, DLI_MEMORY_MS = 1000 };

/* Where one lock is kept: its name. */
struct dli_place {
    const struct dli_kind *kind;
    size_t size;
    char name[];
};

/* A hold is offered to whoever has the proof. */
struct dli_memory_offer {
    char owner[DLI_OWNER_MAX];
    char proof[DLI_PROOF_MAX];
    int64_t attempt, token, lease;
};

/* One grant. Ends are times of the world; INT64_MAX: it has none. */
struct dli_memory_hold {
    struct dli_link link;
    const struct dli_kind *kind;
    int64_t ends;
    int64_t silent; /* of a kind without leases: its client is known to live until then */
    int64_t token;  /* the last of those reserved with it */
    int64_t permits;
    int resting; /* released, and kept for the rest of its shortest time */
    char owner[DLI_OWNER_MAX];
    struct dli_memory_offer *offer; /* NULL: there was none */
};

/* A place in line. Of a kind that keeps no order, it is who is told of a change. */
struct dli_memory_waiter {
    struct dli_link link;
    const struct dli_kind *kind;
    int64_t until; /* without another request it is gone then, by dli_now */
    char owner[DLI_OWNER_MAX];
};

struct dli_memory_cell {
    struct dli_memory_cell *next; /* in its bucket */
    uint32_t hash;
    int32_t shape;               /* of what is in it, see dli_memory_shape; 0: nothing */
    struct dli_link holds, line; /* oldest first */
    int64_t gate;                /* closed until then */
    int64_t count;               /* of a semaphore or a latch: what is left */
    int there;                   /* there is a count */
    int64_t token;               /* the last that was reserved; 0: forgotten */
    int64_t token_until;         /* it is remembered until then */
    size_t size;
    char name[];
};

/* A value that transactions read and write. */
struct dli_memory_key {
    struct dli_slot slot; /* in world.keys */
    struct dli_link link; /* in world.each_key */
    uint32_t hash;
    int watchers; /* rounds that watch it; it stays as long */
    char *value;  /* NULL: there is none */
    size_t value_size;
    int64_t ends;                     /* the value expires then, by the world's clock; INT64_MAX: never */
    int64_t changed;                  /* the number of its last change; 0: none yet */
    struct dli_memory_effect *effect; /* of the commit under way; round.c */
    const char *name;
    size_t size;
    char room[]; /* for the name */
};

struct dli_world {
    pthread_mutex_t mutex;
    uint64_t generation;                              /* of the process that it belongs to */
    struct dli_link link;                             /* in the list of named worlds */
    char name[sizeof((struct dli_site *)0)->service]; /* "": it is private */
    int64_t refs;                                     /* stores that have not ended; under the mutex of the list, too */
    struct dli_link stores;                           /* of clients that are open */
    struct dli_memory_cell **bucket;                  /* by the highest bits of the hash */
    int bits;
    size_t cells;
    size_t swept;             /* the bucket that is swept next */
    struct dli_table keys;    /* of transactions */
    struct dli_link each_key; /* those that were looked at last are last */
    int64_t changes;          /* of keys */
    int64_t offset;           /* of its clock, in microseconds */
    int64_t paused;           /* until this time of dli_now it answers nothing */
    uint32_t changed;         /* futex: faults have changed, or a store is shut; callers of execute sleep on it */
};

enum dli_memory_what { DLI_MEMORY_HINT, DLI_MEMORY_GATE, DLI_MEMORY_LAPSED };

/* For the hooks of one store, in order. */
struct dli_memory_message {
    struct dli_link link;
    enum dli_memory_what what;
    int64_t ms; /* of GATE */
    struct dli_message_target target;
    char name[];
};

struct dli_lane {
    struct dli_memory *memory;
    int index, wake_fd;
    int sleeping;
    int fresh; /* jobs, messages or faults have changed since it was stepped */
    int shut;
    struct dli_link jobs; /* in order of their arrival */
    struct dli_link over; /* its thread's: those whose done is to run */
};

enum dli_memory_word { DLI_MEMORY_CUT, DLI_MEMORY_DENY, DLI_MEMORY_DELAY, DLI_MEMORY_RENEWALS };

/* A fault that lasts. It is over at a time of dli_now, and stays in its list. */
struct dli_memory_fault {
    struct dli_link link;
    enum dli_memory_word word;
    int64_t until;
    int64_t value; /* of DELAY: microseconds */
    size_t size;   /* of the name that it is about; 0: all */
    char name[];
};

/* The store of one client. */
struct dli_memory {
    struct dli_store store; /* first */
    char name[sizeof((struct dli_site *)0)->service];
    char text[sizeof((struct dli_site *)0)->service + 16];
    int64_t commands; /* atomic */
    int64_t patience; /* of a transaction's step */
    struct dli_world *world;
    struct dli_link link;                    /* in world.stores */
    struct dli_lane *lane[DLI_MEMORY_LANES]; /* without the first, the client has no id yet */
    struct dli_link messages;                /* for lane 0 */
    int missed; /* a message was lost in a cut, or for want of memory: everybody asks again */
    struct dli_link faults;
    int down; /* lane 0: its hooks know that it is cut */
};

/* One request on its way. */
struct dli_memory_job {
    struct dli_request request; /* first */
    struct dli_link link;       /* in lane.jobs */
    int64_t arrived;
};

static inline struct dli_memory *dli_memory_of(struct dli_store *store)
{
    return DLI_OBJECT(store, struct dli_memory, store);
}

static inline struct dli_memory_job *dli_memory_job_of(struct dli_request *request)
{
    return DLI_OBJECT(request, struct dli_memory_job, request);
}

static inline struct dli_memory_hold *dli_memory_hold_at(struct dli_link *link)
{
    return DLI_OBJECT(link, struct dli_memory_hold, link);
}

static inline struct dli_memory_waiter *dli_memory_waiter_at(struct dli_link *link)
{
    return DLI_OBJECT(link, struct dli_memory_waiter, link);
}

/* ---- world.c */

/*
 * Begin to use the world of the store's URL, if it does not yet. In a child of a fork it is another one. 0, or -1 without
 * memory.
 */
int dli_memory_enter(struct dli_memory *memory);

/* The client is closed: all lanes are shut. What it held stays until it ends, or the last client of the world is closed. */
void dli_memory_quit(struct dli_memory *memory);

/* The end of the store. In a child of a fork everything is left as it is. */
void dli_memory_leave(struct dli_memory *memory);

/* world.mutex held, here and below. The world's clock, in microseconds: it never jumps by itself. */
int64_t dli_memory_now(const struct dli_world *world);

/* The store that this owner belongs to, or NULL. */
struct dli_memory *dli_memory_store_of(const struct dli_world *world, const char *owner);

/* A message to the client of an owner: about this hold alone, or with number 0 about all of its holds of the name. */
void dli_memory_tell(struct dli_world *world, const struct dli_memory_cell *cell, const struct dli_kind *kind,
                     const char *owner, int64_t number);

/* To each client: any of its holds may have ended. */
void dli_memory_tell_lapsed(struct dli_world *world);

/* To each client that holds or waits: the gate is closed for so long; 0: it is open. */
void dli_memory_tell_gate(struct dli_world *world, const struct dli_memory_cell *cell, const struct dli_kind *kind,
                          int64_t ms);

/* There is work for a lane. */
void dli_memory_wake_lane(struct dli_lane *lane);

/* Wake all lanes of the world, and the callers that wait in it. */
void dli_memory_stir(struct dli_world *world);

/* ---- cells.c */

/*
 * The cell of a name, without what has ended. Who waits for that is told. NULL: there is none, or without memory with
 * make.
 */
struct dli_memory_cell *dli_memory_cell(struct dli_world *world, const char *name, size_t size, int make);

/* Remove what has ended everywhere. */
void dli_memory_settle_all(struct dli_world *world);

/* Free a cell in which nothing is left. It may be NULL. */
void dli_memory_done(struct dli_world *world, struct dli_memory_cell *cell);
void dli_memory_free_cells(struct dli_world *world);

/* Which kinds may share a name: those with the same shape. */
int32_t dli_memory_shape(const struct dli_kind *kind);

/* Whether a lock of this kind may be in the cell, now that nothing has ended in it. NULL fits. */
int dli_memory_fits(const struct dli_memory_cell *cell, const struct dli_kind *kind);

int dli_memory_gate_closed(const struct dli_world *world, const struct dli_memory_cell *cell);

/*
 * Reserve up to block tokens for keep_ms, all higher than any before. *first is the lowest of them. Returns how many they
 * are.
 */
int64_t dli_memory_tokens(struct dli_world *world, struct dli_memory_cell *cell, int64_t block, int64_t keep_ms,
                          int64_t *first);

/* What an owner holds, or NULL. */
struct dli_memory_hold *dli_memory_held(const struct dli_memory_cell *cell, const char *owner);

/* Add a hold. NULL without memory. */
struct dli_memory_hold *dli_memory_take(struct dli_memory_cell *cell, const struct dli_kind *kind, const char *owner);

/* Free a hold. */
void dli_memory_hold_free(struct dli_memory_hold *hold);

/* Remove a hold; permits come back. */
void dli_memory_let_go(struct dli_memory_cell *cell, struct dli_memory_hold *hold);

struct dli_memory_waiter *dli_memory_waiting(const struct dli_memory_cell *cell, const char *owner);

/* Stand in line, or keep the place there, until a time. 0, or -1 without memory. */
int dli_memory_stand(struct dli_memory_cell *cell, const struct dli_kind *kind, const char *owner, int64_t until);
void dli_memory_unstand(struct dli_memory_waiter *waiter);

/* The grant number in an owner's id. */
int64_t dli_memory_number(const char *owner);

/* Of a name. */
uint32_t dli_memory_hash(const char *name, size_t size);

/* ---- keys.c */
void dli_memory_begin_keys(struct dli_world *world);

/* The key of a name, without a value that has expired; made if there is none. NULL without memory. */
struct dli_memory_key *dli_memory_key(struct dli_world *world, const char *name, size_t size);

/* Remove its value if that has expired. */
void dli_memory_key_settle(struct dli_world *world, struct dli_memory_key *key);

/* It changes: value, which it owns from now on, is NULL or ends at this time. */
void dli_memory_key_set(struct dli_world *world, struct dli_memory_key *key, char *value, size_t size, int64_t ends);

/* Free a key that has no value and that nobody watches; and remove all values. */
void dli_memory_key_done(struct dli_world *world, struct dli_memory_key *key);
void dli_memory_free_keys(struct dli_world *world);

/* ---- line.c */

/* Tell all who wait, or those who may get the lock now. */
void dli_memory_tell_all(struct dli_world *world, struct dli_memory_cell *cell);
void dli_memory_wake(struct dli_world *world, struct dli_memory_cell *cell);

/* Whether an owner of this kind may get the lock: the holds allow it, and nobody stands before it who must get it first. */
int dli_memory_free_for(const struct dli_memory_cell *cell, const struct dli_kind *kind, const char *owner,
                        const char *under);

/* ---- exchange.c, counters.c, renew.c, admin.c: the verbs. The results are in the request. */
void dli_memory_exchange(struct dli_memory *memory, struct dli_request *request);
void dli_memory_change(struct dli_memory *memory, struct dli_request *request);
void dli_memory_renew(struct dli_memory *memory, struct dli_request *request);
void dli_memory_acquire_all(struct dli_memory *memory, struct dli_request *request);
void dli_memory_force(struct dli_memory *memory, struct dli_request *request);
void dli_memory_inspect(struct dli_memory *memory, struct dli_request *request);
void dli_memory_gate(struct dli_memory *memory, struct dli_request *request);
void dli_memory_gate_left(struct dli_memory *memory, struct dli_request *request);
void dli_memory_list(struct dli_memory *memory, struct dli_request *request);

/* ---- round.c: transactions. The store's own verb, and the operation of store/store.h, which needs no mutex. */
void dli_memory_round(struct dli_memory *memory, struct dli_request *request);
struct dli_txn *dli_memory_txn_new(struct dli_store *store);

/* An exchange of a semaphore, a permit semaphore or a latch that wants something. */
void dli_memory_count_in(struct dli_world *world, struct dli_memory_cell *cell, struct dli_request *request);

/* Grant to want, with tokens, in a cell that has no hold of it. 0, or -1 without memory. */
int dli_memory_grant(struct dli_world *world, struct dli_memory_cell *cell, struct dli_request *request);

/* The request has failed. */
void dli_memory_fail(struct dli_request *request, dlock_status status, const char *sentence);

/* ---- fault.c */

/* The fault that this request meets now, or NULL. */
const struct dli_memory_fault *dli_memory_fault(const struct dli_memory *memory, enum dli_memory_word word,
                                                const struct dli_place *place);

/* When a request may act that has arrived at this time. */
int64_t dli_memory_due(const struct dli_memory *memory, int64_t arrived);

/* When the cut that lasts now ends; 0: there is none. */
int64_t dli_memory_cut_until(const struct dli_memory *memory);
void dli_memory_free_faults(struct dli_memory *memory);

/* The operation of store/store.h. No mutex held. */
dlock_status dli_memory_do_fault(struct dli_store *store, const struct dli_fault *fault, dlock_error *box);

/* ---- lane.c: the lanes of store/store.h */
struct dli_lane *dli_memory_lane_new(struct dli_store *store, int index, int wake_fd);
void dli_memory_lane_free(struct dli_lane *lane);
dlock_status dli_memory_push(struct dli_lane *lane, struct dli_request *request);
void dli_memory_execute(struct dli_lane *lane, struct dli_request *request);
void dli_memory_step(struct dli_lane *lane, int64_t now);
int64_t dli_memory_alarm(const struct dli_lane *lane);
int dli_memory_sleep(struct dli_lane *lane, struct pollfd *fds);
void dli_memory_awake(struct dli_lane *lane);
void dli_memory_shut(struct dli_lane *lane);

#endif
