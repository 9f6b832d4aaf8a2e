/*
 * store.h: the lock store, which keeps the locks, as a table of operations. client/ and watchdog/ call it, an engine such
 * as redis/ implements it. What an engine cannot do, it says in its traits.
 *
 * A request is one operation. The store allocates it. Its owner fills it in and hands it over with push (done runs on
 * the lane's thread, or inside push when direct is set) or with execute (the caller waits). Until done runs or execute
 * returns, the request belongs to the store. Results are in the request.
 *
 * A lane is a store's part in one watchdog thread: the thread steps it, and sleeps until one of its descriptors is
 * ready or its alarm is due. Lane 0 also receives messages: all hooks but log run on its thread. While that sleeps, a caller
 * that waits in execute or listen, with no mutex held, may do the lane's work: hooks and done then run on its thread. Hooks
 * run one at a time.
 */
#ifndef DLI_STORE_STORE_H
#define DLI_STORE_STORE_H

#include "base/error.h"
#include "change.h"
#include "exchange.h"
#include "finding.h"
#include "base/id.h"
#include "base/kind.h"
#include "base/proof.h"
#include "txn.h"

struct dli_lane;       /* the store's */
struct dli_place;      /* where one lock is kept: its keys and channels; the store's */
struct dli_quarantine; /* how a store knows whether servers remember their locks; the store's */
struct dli_store;
struct pollfd;

enum {
    DLI_RENEW_MAX = 64,
    DLI_MULTI_MAX = 16,
    DLI_GATE_REST = 96,
    DLI_LANE_FDS = 2048 /* most descriptors that a lane may ask to watch */
};

/* ---- requests */

enum dli_verb {
    DLI_VERB_EXCHANGE,    /* acquire, release, or both */
    DLI_VERB_RENEW,       /* renew some holds */
    DLI_VERB_ACQUIRE_ALL, /* several free mutexes: all or none */
    DLI_VERB_FORCE,       /* release by force; DLOCK_NOT_HELD */
    DLI_VERB_INSPECT,     /* who holds the lock */
    DLI_VERB_GATE,        /* close or open; DLOCK_UNCHANGED when there was nothing to open */
    DLI_VERB_GATE_LEFT,   /* for how long the gate is closed */
    DLI_VERB_CHANGE,      /* read or change the number of a semaphore or a latch; DLOCK_UNCHANGED */
    DLI_VERB_PING,
    DLI_VERB_CHECK,     /* are all servers fit to keep locks; place is that of a mutex that nobody uses */
    DLI_VERB_PROVISION, /* end a quarantine: the servers remember every lock. DLOCK_UNSUPPORTED without quarantine_ms */
    DLI_VERB_LIST,      /* some of the names that a server knows */
    DLI_VERBS           /* from here on: the store's own, between its parts */
};

/* Times are microseconds unless a name ends in _ms. Owners are ids. */
struct dli_exchange {
    struct dli_wish wish;
    char want[DLI_OWNER_MAX], drop[DLI_OWNER_MAX];
    char under[DLI_OWNER_MAX]; /* READ: the write hold of the same owner, or "" */
    char back[DLI_OWNER_MAX];  /* with wish.first: the owner that gets the hold back */
    uint64_t proof;            /* of the place in line: a message that grants it repeats this; see base/proof.h */
    int64_t keep_ms;           /* how long the store remembers tokens of an idle name */
    int64_t clock;             /* the time that tokens count from, in microseconds since 1970; 0: the server's own */
    int64_t delay;             /* added to the lease */
    int64_t lives;             /* a hold without a lease: the next renewal comes within this time; 0: it has a lease */
    struct dli_answer answer;  /* the result; repeats status and sent */
    struct dli_next served;    /* FAIR: those that had the lock under drop; they leave the line */
    int stays;                 /* drop leaves, and others of this process go on waiting in its place in line */
    struct dli_next next; /* FAIR, a result: those that may have the lock under want. A token is reserved for each */
};

/* A grant that was pushed, and is proven. seq: the probe that the server knew. token: the first of those reserved. next: as above. */
struct dli_pushed {
    int64_t seq, token, tokens;
    struct dli_next next;
};

enum { DLI_PROOF_MAX = 160, DLI_LEASE_LEAST_MS = 100, DLI_LEASE_MOST_MS = 86400000 };

/*
 * A hold moves to another process: its owner offers it to whoever has the proof, and an heir takes it. With that, the server
 * tells the heir what the owner has said of the hold.
 */
struct dli_transfer {
    char heir[DLI_OWNER_MAX];  /* who gets the hold; "": its owner offers it */
    char proof[DLI_PROOF_MAX]; /* terminated */
    int64_t first;        /* this client's heirs from this number on are earlier tries; one of them may have the hold */
    int64_t attempt;      /* an offer: each later one has a higher number */
    int64_t token, lease; /* an offer: of the hold, the lease without its delay. Of an heir the result when kept is 1 */
    int forged;           /* the result when kept is 0: another proof is needed, or a later attempt stands */
};

struct dli_renewal {
    const struct dli_kind *kind; /* all rows of a request have the same renewal number and the same shard */
    const struct dli_place *place;
    char owner[DLI_OWNER_MAX];
    struct dli_transfer *transfer; /* in a request with one row: the owner's, like the row; NULL: the hold stays */
    int64_t lease;                 /* includes the delay */
    int64_t delay;
    int64_t permits;
    int64_t last;  /* the last token reserved with the hold */
    int changed;   /* the lease may be another one than before */
    int kept;      /* the result when the status is DLOCK_OK: 1 held, 0 not held, -1 unknown for this row */
    int64_t since; /* held: it counts from then, if that is before the request; 0: from the request */
};

/* Who has the hold when the request has succeeded. */
static inline const char *dli_renewal_id(const struct dli_renewal *row)
{
    return row->transfer && row->transfer->heir[0] ? row->transfer->heir : row->owner;
}

/* One mutex of several that are acquired together. */
struct dli_multi_row {
    const struct dli_place *place;
    char owner[DLI_OWNER_MAX];
    int64_t lease, block;
    int64_t token, tokens; /* the result of DLI_MULTI_ALL: the first token reserved, and how many */
    int64_t since;         /* as in struct dli_answer */
    int64_t bound;         /* the store's: what the request bound it to */
};

enum dli_multi_result { DLI_MULTI_ALL, DLI_MULTI_IN_USE, DLI_MULTI_WRONG_KIND, DLI_MULTI_GATE, DLI_MULTI_QUARANTINE };

/* The result of an inspection. */
struct dli_inspection {
    char holder[256];
    int64_t left_ms; /* -1 no expiry, -2 free */
    int64_t token;   /* the highest reserved; 0 unknown */
    int64_t now_us;  /* the server's clock, of which its tokens are times; 0: they are not */
    int64_t waiters;
};

struct dli_request {
    int verb;                                /* enum dli_verb */
    const struct dli_quarantine *quarantine; /* the store's */
    const struct dli_kind *kind;             /* NULL for RENEW, ACQUIRE_ALL and PING */
    const struct dli_place *place;           /* the same */
    int64_t deadline;
    int64_t above;  /* EXCHANGE: a grant with a lower token fails with DLOCK_SERVER_FORGOT; 0: any token is good */
    int repeatable; /* sending it twice does no harm */
    int brisk;      /* RENEW: fail at once, with torn, while keys move to another server; do not wait for them */
    int direct;     /* push may wait a moment for the answer and run done: the caller of push holds no mutex */
    void (*done)(struct dli_request *request); /* may be NULL for execute */
    void *context;                             /* its owner's */
    dlock_error *reason;                       /* NULL, or gets a sentence when the status is a failure */

    dlock_status status; /* the results */
    int sent;            /* not DLOCK_OK: the server may have acted */
    int refused;         /* not DLOCK_OK: the server refused, and did nothing */
    int repeated;        /* it was sent twice: the first one may still be under way */
    int torn;            /* brisk: keys are moving to another server; each lock alone may still be renewed */

    union {
        struct dli_exchange exchange;
        struct {
            struct dli_renewal *row; /* the owner's */
            int count;
            int again; /* write the hold where the lock is free: other servers have renewed it */
        } renew;
        struct {
            struct dli_multi_row *row; /* the owner's */
            int count;
            int64_t keep_ms;
            enum dli_multi_result result;
            int which;    /* the first row that was not acquired; -1 unknown */
            int64_t left; /* QUARANTINE: how long it lasts */
        } multi;
        struct dli_inspection inspection;
        struct {
            struct dli_findings *found; /* the owner's, empty */
            int replicated;             /* replicas confirm grants */
            int keyless;                /* a server without keys of ours: keys go as arguments */
        } check;
        struct {
            int server;  /* of next_server */
            uint64_t at; /* where the server goes on, 0: it begins; the result: the same, 0: that was all */
            char *names; /* the result: names, each with a terminator; the owner frees them */
            size_t size;
        } list;
        struct {
            int64_t gate_ms; /* GATE: close it for this time; 0: open it. GATE_LEFT: the result; -1: it is open */
            char gate_rest[DLI_GATE_REST]; /* GATE: in the result: not "": send the request again with it. Else "" */
        };
        struct dli_change change;
        void *own; /* of a verb of the store's own */
    };
};

/*
 * Whether the server refused this request for what is in it: no right to a key, or a key of another type. When it names
 * several locks, one of them may be the cause, and the others may succeed without it. Other failures are those of the
 * server or the connection.
 */
static inline int dli_request_blamed(const struct dli_request *request)
{
    dlock_status status = request->status;

    return request->sent && (status == DLOCK_DENIED || status == DLOCK_WRONG_KIND || status == DLOCK_WRONG_SETUP ||
                             status == DLOCK_SERVER_ERROR);
}

/* ---- messages */

/* Whom a message is for: all holds of a name, or the one with this grant number when number is set. */
struct dli_message_target {
    int32_t family;
    const char *name; /* not terminated */
    size_t size;
    int64_t number;
};

struct dli_store_hooks {
    void (*up)(void *owner);   /* subscribed: grants will be pushed */
    void (*down)(void *owner); /* not subscribed: no grants will be pushed, and every subscription must be repeated */
    void (*heard)(void *owner, const char *space, size_t size); /* while it is up: grants of one more namespace, too */
    void (*subscribed)(void *owner, const struct dli_message_target *target);
    void (*unsubscribed)(void *owner, const struct dli_message_target *target); /* the subscription has ended */
    void (*hint)(void *owner,
                 const struct dli_message_target *target); /* the lock may have become free, or the hold lost */
    void (*rumour)(void *owner, const struct dli_message_target *target); /* the same for a waiter, from anybody */
    void (*granted)(void *owner, const struct dli_message_target *target, const struct dli_pushed *grant);
    /* Closed for this time; 0: open; -1: somebody says that it has changed. */
    void (*gate)(void *owner, const struct dli_message_target *target, int64_t ms);
    /* Holds whose lease with its delay is above least and up to most may be lost: renew them now. */
    void (*lapsed)(void *owner, int64_t least, int64_t most);
    void (*log)(void *owner, dlock_status status, const char *text); /* any thread that does a lane's work */
};

/* ---- faults on demand */

struct dli_fault {
    const char *what; /* a word */
    const char *name; /* of a lock, not terminated */
    size_t size;      /* 0: no lock was named */
    int64_t value;
};

/* ---- the table */

struct dli_store_ops {
    void (*free)(struct dli_store *store); /* after its last lane */

    /* The client was closed before its first use: the store never gets a lane. May be called again. NULL: no matter. */
    void (*unused)(struct dli_store *store);

    /* Any thread: add the store's own counters to all[DLOCK_STAT_*]. */
    void (*stats)(struct dli_store *store, int64_t *all);

    /* Any thread, once the store has a lane: what the test of a program asks for. NULL: the servers are real. */
    dlock_status (*fault)(struct dli_store *store, const struct dli_fault *fault, dlock_error *box);

    /* NULL without memory. */
    struct dli_place *(*place_new)(struct dli_store *store, const struct dli_kind *kind, const char *name, size_t size);
    void (*place_in)(struct dli_place *place, size_t space); /* so much of the name is its namespace; NULL: no matter */
    void (*place_free)(struct dli_place *place);
    const char *(*place_name)(const struct dli_place *place); /* not terminated */
    struct dli_request *(*request_new)(struct dli_store *store);
    void (*request_free)(struct dli_request *request);

    /*
     * Which server has a lock now, as a number. Renewals at different servers do not wait for one another; at one
     * server at most store->renewals requests are under way.
     */
    uint32_t (*server)(const struct dli_store *store, const struct dli_place *place);

    /* Only locks with the same shard may share a request. */
    uint32_t (*shard)(const struct dli_store *store, const struct dli_place *place);

    /* The server to list after this one, the first after -1; -1: there is no other. NULL: the store cannot list. */
    int (*next_server)(struct dli_store *store, int server);

    /* A transaction, see txn.h; nothing is sent. NULL without memory. Only with DLI_CAN_TRANSACTIONS. */
    struct dli_txn *(*txn_new)(struct dli_store *store);

    /* index counts from 0; the lane sets wake_fd when its thread has work. NULL without memory or descriptors. */
    struct dli_lane *(*lane_new)(struct dli_store *store, int index, int wake_fd);
    void (*lane_free)(struct dli_lane *lane);

    /*
     * Any thread. push: DLOCK_OK; on DLOCK_CLOSED and DLOCK_OUT_OF_MEMORY done does not run. execute: returns after the
     * answer.
     */
    dlock_status (*push)(struct dli_lane *lane, struct dli_request *request);
    void (*execute)(struct dli_lane *lane, struct dli_request *request);

    /* Any thread: subscribe to this client's own channel for locks in this one's namespace, from now on. */
    void (*want)(struct dli_store *store, const struct dli_place *place);

    /*
     * Any thread: subscribe to a lock's channel (that of its waiter owner where the kind has own_channel), or end that.
     * The hook subscribed, unsubscribed or down answers. *listeners counts those that share the subscription; the store guards
     * it. forget: one less, after down or unsubscribed.
     */
    void (*subscribe)(struct dli_store *store, const struct dli_kind *kind, const struct dli_place *place,
                      const char *owner, int on, int64_t *listeners);
    void (*forget)(struct dli_store *store, int64_t *listeners);

    /*
     * NULL, all three: nobody can listen. A caller that sleeps can receive lane 0's messages meanwhile: hooks then run on
     * its thread. may_listen: 1: this thread is the listener now, and must call listen next. listen, with no mutex held:
     * sleep until somebody calls ring, or until deadline (-1: none); DLI_WAIT_*. ring: any thread.
     */
    int (*may_listen)(struct dli_store *store);
    int (*listen)(struct dli_store *store, int64_t deadline);
    void (*ring)(struct dli_store *store);

    /* ---- the lane's thread */

    /* As push, ahead of all that waits to be sent. */
    dlock_status (*push_urgent)(struct dli_lane *lane, struct dli_request *request);

    /* step: do all that is possible now without blocking. alarm: when to step again if nothing happens. */
    void (*step)(struct dli_lane *lane, int64_t now);
    int64_t (*alarm)(const struct dli_lane *lane);

    /*
     * Before the thread sleeps: the number of descriptors to watch, at most DLI_LANE_FDS; -1: it must not sleep, there
     * is work. After sleep, pushes set wake_fd until awake is called. awake is also called before the first step.
     */
    int (*sleep)(struct dli_lane *lane, struct pollfd *fds);
    void (*awake)(struct dli_lane *lane);

    /* Answer everything with DLOCK_CLOSED and accept no more. */
    void (*shut)(struct dli_lane *lane);
};

/* What a store can do besides acquire, release, renew and inspect. */
enum dli_ability {
    DLI_CAN_LINE = 1,          /* waiters stand in line */
    DLI_CAN_PASS = 2,          /* one exchange releases one grant number and acquires another */
    DLI_CAN_ACQUIRE_ALL = 4,   /* DLI_VERB_ACQUIRE_ALL */
    DLI_CAN_GATE = 8,          /* DLI_VERB_GATE and DLI_VERB_GATE_LEFT */
    DLI_CAN_ADOPT = 16,        /* a hold moves to another owner: a renewal with a transfer */
    DLI_CAN_TRANSACTIONS = 32, /* txn_new */
    DLI_CAN_WAKE = 64,         /* waiters are woken without a subscription: want and subscribe do nothing */
    DLI_CAN_KEEP = 128,        /* what a client has lasts as long as its session: a lease that is over frees nothing */
    DLI_CAN_MISS = 256         /* permits with a lease may be missing from their count, and are reclaimed */
};

/* What a store is and what it has. Constant. Refusals are answered from it, so its texts are part of sentences. */
struct dli_store_traits {
    const char *where;      /* "on a quorum of servers" */
    const char *kinds_text; /* which kinds of locks there are: "mutexes" */
    uint32_t kinds;         /* bit n: kind n, DLOCK_KIND_* */
    uint32_t can;           /* bits of enum dli_ability */
};

/* What every store begins with. hooks, owner, uuid and secret are set before the first lane is made. */
struct dli_store {
    const struct dli_store_ops *ops;
    const struct dli_store_traits *traits;
    uint64_t refused; /* bit n: option n means nothing here; of the site */
    const struct dli_store_hooks *hooks;
    void *owner;
    const char *uuid;                /* of the client */
    const struct dli_secret *secret; /* the same: what proofs are made of */
    const char *text;                /* the servers, for messages; no credentials */
    int64_t connect_time;            /* microseconds that connecting may take */
    int64_t provision_time;          /* microseconds that PROVISION may take longer than a command */
    int renewals;                    /* requests under way at one server; 1 where most locks fit into one */
};

static inline int dli_store_can(const struct dli_store *store, enum dli_ability ability)
{
    return (store->traits->can & (uint32_t)ability) != 0;
}

static inline int dli_store_has(const struct dli_store *store, const struct dli_kind *kind)
{
    return (int)(store->traits->kinds >> kind->id & 1);
}

/* ---- open.c */

struct dlock_options;
struct dli_site;

/*
 * Open the store for a URL's scheme. options outlives it. DLOCK_UNSUPPORTED: this build of the library has no such engine.
 * Other statuses are those of the engine's open function.
 */
dlock_status dli_store_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                            dlock_error *box);

/* ---- checks.c */

/*
 * Add the check of one server, called where, to the original request: its findings, or that it does not answer. DLOCK_OK;
 * any other status ends the whole check, and original->reason has a sentence.
 */
dlock_status dli_check_sum(struct dli_request *original, const struct dli_request *of, const struct dli_findings *found,
                           const dlock_error *reason, const char *where);

#endif
