/*
 * store.h: the lock store: whatever keeps the locks, as a table of operations. watchdog/ asks, redis/ answers.
 *
 * A request is one thing asked. Its memory comes from the store; its owner fills it in and hands it over, by push (done
 * runs on the lane's thread) or by carry (the caller waits). In between it is the store's. Results are in the request.
 *
 * A lane is a store's part in one watchdog thread: the thread steps it, and sleeps until one of its descriptors is ready
 * or its alarm is due. Lane 0 also hears: hooks run on its thread.
 */
#ifndef DLI_STORE_STORE_H
#define DLI_STORE_STORE_H

#include "base/error.h"
#include "exchange.h"
#include "finding.h"
#include "base/id.h"
#include "base/kind.h"

struct dli_lane;       /* the store's */
struct dli_place;      /* where one lock is kept; the store's */
struct dli_quarantine; /* how it knows what the servers remember; the store's */
struct dli_store;
struct pollfd;

enum {
    DLI_RENEW_MAX = 64,
    DLI_MULTI_MAX = 16,
    DLI_VIEW_MAX = 512,
    DLI_LANE_FDS = 2048 /* descriptors that a lane may want to be watched */
};

/* ---- requests */

enum dli_verb {
    DLI_VERB_EXCHANGE,    /* acquire, release, or both */
    DLI_VERB_RENEW,       /* some holds */
    DLI_VERB_ACQUIRE_ALL, /* several free mutexes: all or none */
    DLI_VERB_FORCE,       /* release by force; DLOCK_NOT_HELD */
    DLI_VERB_INSPECT,     /* who has it */
    DLI_VERB_GATE,        /* close or open; DLOCK_UNCHANGED when there was nothing to open */
    DLI_VERB_GATE_LEFT,   /* for how long the gate is closed */
    DLI_VERB_CHANGE,      /* the number behind a semaphore or a latch; DLOCK_UNCHANGED */
    DLI_VERB_PING,
    DLI_VERB_CHECK,     /* what all servers should be looked at for; place is a mutex's that nobody uses */
    DLI_VERB_PROVISION, /* this store remembers every lock: no quarantine. DLOCK_UNSUPPORTED without quarantine_ms */
    DLI_VERB_FLOOR,     /* of a server that others vote with: what tokens stand */
    DLI_VERB_JOIN       /* of the same: who it is, and whom it votes with */
};

/* Times are microseconds unless a name ends in _ms. Owners are ids. */
struct dli_exchange {
    struct dli_wish wish;
    char want[DLI_OWNER_MAX], drop[DLI_OWNER_MAX];
    char under[DLI_OWNER_MAX]; /* READ: the write hold of the same owner, or "" */
    char back[DLI_OWNER_MAX];  /* with wish.first: whose the hold is then */
    int64_t keep_ms;           /* how long tokens are remembered */
    int64_t delay;             /* on top of the lease */
    int64_t lives;             /* for a hold without a lease: the holder is heard of again within; 0: it has one */
    struct dli_answer answer;  /* the result; also says what status and sent say */
};

struct dli_renewal {
    const struct dli_kind *kind; /* all of a request have the same renewal number and the same shard */
    const struct dli_place *place;
    char owner[DLI_OWNER_MAX];
    char heir[DLI_OWNER_MAX]; /* who has the hold from now on, of a request with one row; "": its owner */
    int64_t first;            /* heirs of this client from this number on are earlier tries, and one may have it */
    int64_t lease;            /* with its delay */
    int64_t permits;
    int64_t last; /* token reserved with the hold */
    int kept;     /* the result when the status is DLOCK_OK: 1 or 0; -1, of some of several: not known */
};

/* A mutex that is to be taken together with others. */
struct dli_multi_row {
    const struct dli_place *place;
    char owner[DLI_OWNER_MAX];
    int64_t lease, block;
    int64_t token, tokens; /* the result when all were taken: the first of those reserved, and how many */
};

enum dli_multi_result { DLI_MULTI_ALL, DLI_MULTI_IN_USE, DLI_MULTI_WRONG_KIND, DLI_MULTI_GATE, DLI_MULTI_QUARANTINE };

/* What an inspection says. */
struct dli_inspection {
    char holder[256];
    int64_t left_ms; /* -1 no expiry, -2 free */
    int64_t token;   /* the highest reserved; 0 unknown */
    int64_t now_us;  /* the server's clock */
    int64_t waiters;
};

struct dli_request {
    enum dli_verb verb;
    const struct dli_quarantine *quarantine; /* the store's */
    const struct dli_kind *kind;             /* NULL for RENEW, TAKE and PING */
    const struct dli_place *place;           /* the same */
    int64_t deadline;
    int64_t
        above; /* EXCHANGE: a grant with a lower token is an old one, or the server has forgotten; 0: any is taken */
    int repeatable; /* asking twice does no harm */
    int brisk;      /* RENEW: the asker would rather hear at once than wait for keys on their way */
    int direct;     /* push may wait a moment for the answer, and done may run in it: the asker has no mutex */
    void (*done)(struct dli_request *request); /* may be NULL when it is carried */
    void *asker;                               /* its owner's */
    dlock_error *reason;                       /* NULL, or gets a sentence when the status is a failure */

    dlock_status status; /* the results */
    int sent;            /* not DLOCK_OK: the server may have acted */
    int refused;         /* not DLOCK_OK: it said no, and did nothing */
    int repeated;        /* it was asked twice: the first may be under way still */
    int torn;            /* brisk: keys are on their way to another server; each lock alone may be renewed */

    union {
        struct dli_exchange exchange;
        struct {
            struct dli_renewal *row; /* the asker's */
            int count;
            int again; /* give the hold where nobody has the lock */
        } renew;
        struct {
            struct dli_multi_row *row; /* the asker's */
            int count;
            int64_t keep_ms;
            enum dli_multi_result result;
            int which;    /* the first that could not be taken; -1 unknown */
            int64_t left; /* QUIET */
        } multi;
        struct dli_inspection inspection;
        struct {
            struct dli_findings *found; /* the asker's, empty */
            int replicated;             /* replicas confirm grants */
            int keyless;                /* of a cluster: a replica, or one that has no key of ours */
        } check;
        int64_t gate_ms; /* GATE: close for so long, 0 open it. GATE_LEFT: the result, -1 it is open */
        struct {
            const char *what;       /* "set", "add", ... */
            int64_t number;         /* its argument */
            char id[DLI_OWNER_MAX]; /* the same id acts once */
            int64_t value;          /* the result */
        } change;
        struct {
            char owner[DLI_OWNER_MAX];
            int64_t seen; /* the last token reserved with its vote */
            int64_t last; /* to stand */
            int64_t keep_ms;
            int stands; /* the result: 0 when it is not owner's any more, or others have reserved since */
        } floor;
        struct {
            const char *view; /* the servers that vote, as this client has them */
            int64_t keep_ms;
            char run_id[48]; /* results */
            int sharded;
            char stands[DLI_VIEW_MAX]; /* the view that stands */
        } join;
    };
};

/*
 * Whether the server refused this very request: it may not touch a key, or a key is not what it should be. Of several locks in it one
 * may be to blame, and the others may be served without that one. Other failures are about the server, or the way there.
 */
static inline int dli_request_blamed(const struct dli_request *request)
{
    dlock_status status = request->status;

    return request->sent && (status == DLOCK_DENIED || status == DLOCK_WRONG_KIND || status == DLOCK_WRONG_SETUP ||
                             status == DLOCK_SERVER_ERROR);
}

/* ---- what a store hears */

/* Whom it is for: all holds of a name, or with a number the one with that grant number. */
struct dli_message_target {
    int32_t family;
    const char *name; /* not terminated */
    size_t size;
    int64_t number;
};

struct dli_store_hooks {
    void (*up)(void *owner);   /* grants will be heard */
    void (*down)(void *owner); /* they will not be; what was listened to must be listened to anew */
    void (*listens)(void *owner, const struct dli_message_target *heard);
    void (*deaf)(void *owner, const struct dli_message_target *heard); /* listening has ended */
    void (*hint)(void *owner, const struct dli_message_target *heard); /* the lock may have become free */
    /* The first of the tokens that are reserved with it, and how many they are. */
    void (*granted)(void *owner, const struct dli_message_target *heard, int64_t seq, int64_t token, int64_t tokens);
    void (*gate)(void *owner, const struct dli_message_target *heard, int64_t ms); /* closed for so long; 0: open */
    void (*log)(void *owner, dlock_status status, const char *text);               /* any lane's thread */
};

/* ---- the table */

struct dli_store_ops {
    void (*free)(struct dli_store *store); /* when it has no lane any more */

    /* Any thread: add what the store counts itself to all[DLOCK_STAT_*]. */
    void (*stats)(struct dli_store *store, int64_t *all);

    /* NULL without memory. */
    struct dli_place *(*place_new)(struct dli_store *store, const struct dli_kind *kind, const char *name, size_t size);
    void (*place_free)(struct dli_place *place);
    struct dli_request *(*request_new)(struct dli_store *store);
    void (*request_free)(struct dli_request *request);

    /*
     * Which server has a lock now, as a number. Renewals of different servers do not wait for one another; of one, so many
     * requests are under way as store->renewals says.
     */
    uint32_t (*server)(const struct dli_store *store, const struct dli_place *place);

    /* One request can be about several locks with the same shard. */
    uint32_t (*shard)(const struct dli_store *store, const struct dli_place *place);

    /* Index counts from 0; a lane sets wake_fd when it has something for its thread. NULL without memory or descriptors. */
    struct dli_lane *(*lane_new)(struct dli_store *store, int index, int wake_fd);
    void (*lane_free)(struct dli_lane *lane);

    /* Any thread. push: DLOCK_OK, or DLOCK_CLOSED or DLOCK_OUT_OF_MEMORY and done does not run. carry: done has run. */
    dlock_status (*push)(struct dli_lane *lane, struct dli_request *request);
    void (*execute)(struct dli_lane *lane, struct dli_request *request);

    /* Any thread: hear what is for this client from now on. */
    void (*want)(struct dli_store *store);

    /*
     * Any thread: listen for a lock (for its waiter owner where the kind has own_channel) or stop to. The hook listens or
     * deaf answers, or down. *listeners counts who listens together and is guarded by the store. forget: one listener
     * less after down or deaf.
     */
    void (*listen)(struct dli_store *store, const struct dli_kind *kind, const struct dli_place *place,
                   const char *owner, int on, int64_t *listeners);
    void (*forget)(struct dli_store *store, int64_t *listeners);

    /* ---- the lane's thread */

    /* push that goes before all others. */
    dlock_status (*push_urgent)(struct dli_lane *lane, struct dli_request *request);

    /* Whatever can be done now without blocking; and when it wants to run without any news. */
    void (*step)(struct dli_lane *lane, int64_t now);
    int64_t (*alarm)(const struct dli_lane *lane);

    /*
     * Before the thread sleeps: the descriptors to watch, at most DLI_LANE_FDS; -1: it must not sleep, there is news. Behind
     * it, pushes set wake_fd until awake, which goes before the first step, too.
     */
    int (*sleep)(struct dli_lane *lane, struct pollfd *fds);
    void (*awake)(struct dli_lane *lane);

    /* Answer everything with DLOCK_CLOSED and take no more. */
    void (*shut)(struct dli_lane *lane);
};

/* What every store begins with. hooks, owner and uuid are set before the first lane is made. */
struct dli_store {
    const struct dli_store_ops *ops;
    const struct dli_store_hooks *hooks;
    void *owner;
    const char *uuid;       /* of the client */
    const char *text;       /* the servers, for messages; no credentials */
    int64_t connect_time;   /* microseconds that connecting may take */
    int64_t provision_time; /* what PROVISION may take longer than a command */
    int votes;    /* servers vote: mutexes alone, nobody stands in line, a release goes alone, no transactions */
    int renewals; /* at once, to one server; 1 where most locks fit into one request */
};

/* ---- open.c */

struct dlock_options;
struct dli_site;

/* The store that a URL's scheme means. options outlives it. The statuses are those of the engine. */
dlock_status dli_store_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                            dlock_error *box);

/* ---- checks.c */

/*
 * Add what came of the look at one server, with its name, to what was asked: found, or that it does not answer. DLOCK_OK; else
 * the whole look fails for this status, and says why.
 */
dlock_status dli_check_sum(struct dli_request *asked, const struct dli_request *of, const struct dli_findings *found,
                           const dlock_error *reason, const char *where);

#endif
