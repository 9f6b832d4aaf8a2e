/*
 * inner.h: the store on a quorum of servers that know nothing of each other. It asks all of them and counts the votes
 * (engine/votes.h).
 *
 * Each server has a whole store of its own (redis/single/single.c). A lane holds one lane of each and steps them. A
 * request becomes a round, with one share for each server. A share has copies of its own, because a slow server may
 * outlive the answer. A round runs on its lane's thread only.
 *
 * No server may grant alone, so our waiters do not stand in line on the servers. A waiter subscribes to the lock's
 * channel on every server. It tries again at a hint, after a random delay, and probes now and then. It is not fair.
 *
 * An id is spent when a server may have granted it and it has not won. It is released everywhere and never used again,
 * so a late release takes nothing from a later attempt.
 */
#ifndef DLI_REDIS_QUORUM_INNER_H
#define DLI_REDIS_QUORUM_INNER_H

#include <pthread.h>

#include "base/list.h"
#include "base/options.h"
#include "store/store.h"
#include "base/url.h"
#include "engine/engine.h"
#include "redis/voter/voter.h"

struct dli_quorum;
struct dli_round;

/* One server. The quorum's mutex guards what it says of itself and bad; failures is an atomic. */
struct dli_server {
    struct dli_quorum *quorum;
    int index;
    struct dli_store *store;
    int64_t failures; /* how often it was unreachable */
    char run_id[48];  /* "" unknown */
    char before[48];  /* the run id that it had before, for this client; "" none */
    int64_t since;    /* when it got its run id, for this client */
    int64_t began;    /* when it was started, by dli_now, to a second */
    dlock_error bad;  /* why it may not vote with the others; code DLOCK_OK: no reason is known */
};

/* subscribed belongs to lane 0; bad_nodes, keep_ms and known are atomics. */
struct dli_quorum {
    struct dli_store store;
    pthread_mutex_t mutex; /* also guards the counts of listeners */
    int count, needed;
    int64_t patience; /* for one command, in microseconds */
    int64_t keep_ms;  /* how long servers keep the view of this quorum */
    int bad_nodes;
    int named;           /* the view has a name, and does not name the servers: they compare the members, too */
    uint32_t known;      /* counts the run ids that were learned; 0: the view names the servers */
    unsigned subscribed; /* bit i: node i is subscribed */
    const char *space;   /* the client's namespace, or "" */
    char view[DLI_VIEW_MAX], text[416];
    struct dli_server node[DLI_VOTERS_MAX];
};

/*
 * What is known of a lock, while a place or a round refers to it. refs is an atomic; splits and contended belong to the
 * lane.
 */
struct dli_shared_place {
    struct dli_store *store; /* of one node; its places suit all nodes */
    struct dli_place *place;
    uint32_t refs;
    int splits;    /* attempts in a row with split votes */
    int contended; /* the last attempt found it taken */
};

struct dli_place {
    struct dli_shared_place *shared; /* with a ref */
};

/* The caller's request. next belongs to the lane; done is an atomic, set last. */
struct dli_ballot {
    struct dli_request request; /* first */
    struct dli_ballot *next;
    uint32_t sleeps, slot, done;
};

/* What a lane knows of a node: whether it may vote. */
struct dli_membership {
    struct dli_lane *lane;
    struct dli_request *request; /* NULL: there is no such node */
    int index;
    int querying, answered; /* a query is under way; one has ended, well or not */
    int good;
    int timed;     /* its clock is known */
    int64_t ahead; /* of dli_now, in microseconds */
    int64_t asked_at;
    int64_t joined_at, failures; /* when it joined; node.failures at the last query, -1: query again */
    uint32_t told;               /* quorum.known at the last query */
    dlock_error reason;          /* of the last query */
    struct dli_join join;        /* what the query asks, and its answer */
};

enum { DLI_SLEEP_WORDS = 64 };

struct dli_lane {
    struct dli_quorum *quorum;
    int index, wake_fd;
    pthread_mutex_t mutex; /* guards inbox, inbox_end, sleeping and shut */
    struct dli_ballot *inbox, **inbox_end;
    int sleeping, shut;
    uint32_t words[DLI_SLEEP_WORDS], slots; /* atomics */
    uint64_t woken;
    struct dli_link rounds;
    int64_t wake_at;         /* the earliest of all rounds, or earlier */
    int undoing;             /* releases that will be tried again */
    int stirred;             /* something was pushed after a node's last step */
    unsigned failed_queries; /* bit i: the query to node i failed at once, and the rounds do not know yet */
    int64_t clock;           /* the quorum's time, the same for all votes of a step; 0: not yet */
    int met;                 /* all nodes have answered a query, or their time is over */
    int told;                /* they had also been told of each other once */
    uint64_t noise;
    struct dli_membership membership[DLI_VOTERS_MAX];
    struct dli_lane *lane[DLI_VOTERS_MAX];
};

enum dli_stage { DLI_STAGE_REQUEST, DLI_STAGE_FLOOR, DLI_STAGE_AGAIN, DLI_STAGE_UNDO };

/* One server's share of a round. */
struct dli_share {
    struct dli_round *round;
    struct dli_request *request;
    int node;
    enum dli_stage stage;
    int unjudged;     /* a vote, while a query still has to show whether its server may vote */
    int over;         /* answered; the result is in request and reason */
    int64_t again_at; /* UNDO: when to try again; 0: never */
    dlock_error reason;
    struct dli_renewal *row;   /* RENEW: its own rows */
    struct dli_findings found; /* CHECK: its own findings */
    struct dli_floor floor;    /* FLOOR: what its request asks */
};

/* One lock of a renewal. */
struct dli_kept {
    struct dli_shared_place *shared; /* with a ref */
    char id[DLI_OWNER_MAX];
    struct dli_tally tally;
    int speaker; /* of a hold that moves: a server that says what most say */
    int dropped; /* it is being released: it is restored on no server */
};

/* What a kind of round does. */
struct dli_round_ops {
    void (*begin)(struct dli_round *round, int64_t now);
    void (*answered)(struct dli_round *round, struct dli_share *share, int64_t now);

    /* While it is unanswered: answer it if it is decided, or if it must be (nothing is under way, or time is over). */
    void (*decide)(struct dli_round *round, int must, int64_t now);
    void (*ended)(struct dli_round *round); /* before it is freed; may be NULL */
};

struct dli_round {
    struct dli_link link; /* in the lane's */
    const struct dli_round_ops *ops;
    struct dli_lane *lane;
    struct dli_ballot *ballot;       /* NULL: answered */
    struct dli_request said;         /* a copy of the request; the rows of a renewal are in the shares */
    struct dli_shared_place *shared; /* with a ref; or NULL */
    int waits;                       /* for all members, before it requests votes */
    int begun, busy, again;          /* shares under way; shares to be tried again */
    int64_t since, wake_at;          /* when it began; when to wake it */
    int64_t decided_at;              /* when it could first have been answered, see dli_round_grace; 0: not yet */
    int64_t until;                   /* UNDO: from then on no server knows the id */
    struct dli_election election;
    struct dli_tally tally; /* of the answers about one lock */
    int won;                /* of an answered round */
    struct dli_kept *kept;  /* of renewals, one for each row */
    struct dli_share share[];
};

/* ---- round.c: the lane's thread */

/*
 * Make a round of the ballot. It begins now, or after a pause. Without memory the ballot is answered
 * DLOCK_OUT_OF_MEMORY.
 */
void dli_round_start(struct dli_lane *lane, struct dli_ballot *ballot, int64_t now);

/* Call this after every event of a round. It answers a decided round, and frees a finished one. */
void dli_round_settle(struct dli_round *round, int64_t now);

/* A share has its result, from its server or without it. */
void dli_share_over(struct dli_share *share);

/* Send share.request to the share's server. urgent: before others that wait. */
void dli_share_send(struct dli_share *share, int urgent);

/* Make share.request a copy of the round's request, for the share's server. */
void dli_share_copy(struct dli_share *share, enum dli_stage stage);

/* Answer with status; the rest of the answer is in ballot.request already. */
void dli_round_answer(struct dli_round *round, dlock_status status);

/* Answer that too few servers agree, and name what each says. what completes "servers ...": "grant it", "answer". */
void dli_round_fail(struct dli_round *round, const char *what, int agree);

/* Wake the round at that time at the latest. */
void dli_round_wake(struct dli_round *round, int64_t at);

/*
 * Stragglers get as long again as the deciding answers took, and 1 ms. 1 when that is over; else the round is woken
 * then.
 */
int dli_round_grace(struct dli_round *round, int64_t now);

/* Wake the rounds that are due. all: wake all rounds; they wait for nothing any more. */
void dli_round_wake_all(struct dli_lane *lane, int64_t now, int all);

int64_t dli_lane_noise(struct dli_lane *lane, int64_t range);

/* Answer the ballot. */
void dli_ballot_answer(struct dli_lane *lane, struct dli_ballot *ballot, dlock_status status);

/* Wake the callers whose ballots were answered. */
void dli_lane_wake_sleepers(struct dli_lane *lane);

/* ---- the kinds of rounds */
extern const struct dli_round_ops dli_election_round_ops; /* election.c */
extern const struct dli_round_ops dli_poll_ops;           /* poll.c */
extern const struct dli_round_ops dli_check_ops;          /* check.c */
extern const struct dli_round_ops dli_list_ops;           /* list.c */
extern const struct dli_store_traits dli_quorum_traits;   /* check.c */
extern const struct dli_round_ops dli_release_round_ops;  /* release.c */
extern const struct dli_round_ops dli_renewal_round_ops;  /* renewal.c */

/* The server to list after this one, see store/store.h. */
int dli_list_next(struct dli_store *store, int server);

/* The query to a node has ended: count the votes that came before, and begin rounds that waited for all members. */
void dli_election_round_judge(struct dli_lane *lane, int node);

/* An id is being released: a late grant of it is released too. */
void dli_election_round_dropped(struct dli_lane *lane, const struct dli_shared_place *shared, const char *id);

/* Begin a round that waits for all members, if all have answered or their time is over. */
void dli_election_round_go(struct dli_round *round, int64_t now);

/* The places of the rows, and memory for the shares' rows. 0, or -1 without memory. */
int dli_renewal_round_init(struct dli_round *round);

/* An id is being released: renewals under way restore it on no server. */
void dli_renewal_round_dropped(struct dli_lane *lane, const char *id);

/* Release what the share's server granted or may have granted, until it answers or must have forgotten it. */
void dli_release_round_undo(struct dli_share *share, int64_t now);

/* That release was not answered: try again later. */
void dli_release_round_later(struct dli_share *share, int64_t now);

/* ---- membership.c: whether servers may vote together; the lane's thread */

/* 0, or -1 without memory. */
int dli_membership_init(struct dli_lane *lane);
void dli_membership_fini(struct dli_lane *lane);

/* Servers are to keep the view of this quorum for two leases at least. */
void dli_membership_last(struct dli_quorum *quorum, int64_t lease);

/*
 * Query the nodes that are not members, have failed since, joined more than a third of keep_ms ago, or have not been told
 * of all members of a quorum with a name.
 */
void dli_membership_query(struct dli_lane *lane, int64_t now);

/* Tell the rounds of nodes that could not be queried. */
void dli_membership_judge(struct dli_lane *lane);

/* Whether the server may vote, by its last answer, was not unreachable since, and has been told of all members. */
int dli_membership_votes(const struct dli_membership *membership);

/*
 * 1 once all nodes have answered, and those of a quorum with a name know each other, and the clocks of so many as must
 * agree are known; or half of the time from since to deadline has passed. *at: when that is.
 */
int dli_membership_met(struct dli_lane *lane, int64_t since, int64_t deadline, int64_t now, int64_t *at);

/*
 * The quorum's time, for tokens: the median of the clocks of its servers, so that it is right while most of them are. In
 * microseconds since 1970; 0: too few clocks are known. A server's own time would do until it is fast: then its counter
 * is ahead of what a server that has forgotten its own begins with.
 */
int64_t dli_membership_clock(struct dli_lane *lane);

/* DLOCK_INVALID_QUORUM, with the reason in box, when a node may not vote with the others. */
dlock_status dli_quorum_fits(struct dli_quorum *quorum, dlock_error *box);

/* Write the view of the quorum that its servers keep. called: its name; "": its servers' addresses stand for it. */
void dli_quorum_view(struct dli_quorum *quorum, int db, const char *called);

/* ---- subscriptions.c: the messages of the nodes' stores */
extern const struct dli_store_hooks dli_server_hooks;
void dli_quorum_want(struct dli_store *store, const struct dli_place *place);
void dli_quorum_subscribe(struct dli_store *store, const struct dli_kind *kind, const struct dli_place *place,
                          const char *owner, int on, int64_t *listeners);
void dli_quorum_forget(struct dli_store *store, int64_t *listeners);

/* ---- quorum.c */
/* ---- place.c */
struct dli_shared_place *dli_shared_place_ref(struct dli_shared_place *shared);
void dli_shared_place_unref(struct dli_shared_place *shared);
struct dli_place *dli_quorum_place_new(struct dli_store *store, const struct dli_kind *kind, const char *name,
                                       size_t size);
void dli_quorum_place_free(struct dli_place *place);
void dli_quorum_place_in(struct dli_place *place, size_t space);
const char *dli_quorum_place_name(const struct dli_place *place);

static inline struct dli_quorum *dli_quorum_of(struct dli_store *store)
{
    return DLI_OBJECT(store, struct dli_quorum, store);
}

static inline struct dli_ballot *dli_ballot_of(struct dli_request *request)
{
    return DLI_OBJECT(request, struct dli_ballot, request);
}

#endif
