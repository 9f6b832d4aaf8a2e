/*
 * inner.h: the store on servers that know nothing of each other. It asks all of them and counts (engine/votes.h).
 *
 * Every server has a whole store of its own (single.c). A lane holds one lane of each and steps them. What is asked becomes a
 * round: one share for each server, with copies of its own, so that a server that is slow outlives the answer. All of a round
 * happens on its lane's thread.
 *
 * No server may grant alone, so nobody of ours stands in line there: who waits listens to the channel of the lock on
 * every server, tries again at a hint, after a while of random length, and looks for itself now and then. It is not fair.
 *
 * An id that a server may have granted and that did not win is spent: it is released everywhere and never used again. So
 * a release that comes late takes nothing from a later attempt.
 */
#ifndef DLI_REDIS_QUORUM_INNER_H
#define DLI_REDIS_QUORUM_INNER_H

#include <pthread.h>

#include "base/list.h"
#include "base/options.h"
#include "store/store.h"
#include "base/url.h"
#include "engine/engine.h"

struct dli_quorum;
struct dli_round;

/* One server. mutex of the quorum guards run_id and bad; troubles is an atomic. */
struct dli_server {
    struct dli_quorum *quorum;
    int index;
    struct dli_store *store;
    int64_t failures; /* how often it was out of reach */
    char run_id[48];  /* "" unknown */
    dlock_error bad;  /* why it cannot vote with the others; code DLOCK_OK: it can, as far as is known */
};

/* ears belongs to lane 0; bad_nodes and keep_ms are atomics. */
struct dli_quorum {
    struct dli_store store;
    pthread_mutex_t mutex; /* also guards who listens */
    int count, needed;
    int64_t patience; /* for one command */
    int64_t keep_ms;  /* how long what servers know of this quorum lasts */
    int bad_nodes;
    unsigned subscribed; /* a bit for each node that hears */
    char view[DLI_VIEW_MAX], text[416];
    struct dli_server node[DLI_VOTERS_MAX];
};

/* What is known of a lock, for as long as a round is about it. refs is an atomic; splits and contended belong to the lane. */
struct dli_shared_place {
    struct dli_store *store; /* of one node: what it calls a place knows no server */
    struct dli_place *place;
    uint32_t refs;
    int splits;    /* attempts in a row with split votes */
    int contended; /* somebody else had it the last time */
};

struct dli_place {
    struct dli_shared_place *spot; /* with a ref */
};

/* The asker's request. next belongs to the lane; done is an atomic, set last. */
struct dli_ballot {
    struct dli_request request; /* first */
    struct dli_ballot *next;
    uint32_t sleeps, slot, done;
};

/* A lane's knowledge of a node. */
struct dli_membership {
    struct dli_lane *lane;
    struct dli_request *request; /* NULL: it is not this lane's to know */
    int index;
    int asking, heard; /* a question is under way; one was answered, well or not */
    int good;
    int64_t joined_at, failures; /* when it joined; what node.troubles was, -1: it is to be asked again */
    dlock_error reason;          /* of the last question */
};

enum { DLI_SLEEP_WORDS = 64 };

struct dli_lane {
    struct dli_quorum *quorum;
    int index, wake_fd;
    pthread_mutex_t mutex; /* guards the next three */
    struct dli_ballot *inbox, **inbox_end;
    int sleeping, shut;
    uint32_t words[DLI_SLEEP_WORDS], slots; /* atomics */
    uint64_t woken;
    struct dli_link rounds;
    int64_t wake_at;  /* the earliest of all rounds, or earlier */
    int undoing;      /* releases that are to be tried again */
    int stirred;      /* something was pushed behind the last step of a node */
    unsigned unheard; /* bit i: node i could not be asked, and the rounds do not know yet */
    int met;          /* all nodes were heard once, or waited for once */
    uint64_t noise;
    struct dli_membership seat[DLI_VOTERS_MAX];
    struct dli_lane *lane[DLI_VOTERS_MAX];
};

enum dli_stage { DLI_STAGE_ASK, DLI_STAGE_FLOOR, DLI_STAGE_AGAIN, DLI_STAGE_UNDO };

/* One server's share of a round. */
struct dli_share {
    struct dli_round *round;
    struct dli_request *request;
    int node;
    enum dli_stage stage;
    int unjudged;     /* a vote, until it is known whether its server can vote */
    int over;         /* it has been answered, and what for is in request and why */
    int64_t again_at; /* UNDO: try again then; 0 not */
    dlock_error reason;
    struct dli_renewal *row;   /* RENEW: its own */
    struct dli_findings found; /* CHECK: the same */
};

/* One lock of a renewal. */
struct dli_kept {
    struct dli_shared_place *spot; /* with a ref */
    char id[DLI_OWNER_MAX];
    struct dli_tally tally;
    int dropped; /* it is being released: no server gets it again */
};

/* What is done with a round. */
struct dli_round_ops {
    void (*begin)(struct dli_round *round, int64_t now);
    void (*heard)(struct dli_round *round, struct dli_share *share, int64_t now);

    /* Not answered yet: answer if it is decided, or if it must be (nothing is under way, or its time is over). */
    void (*decide)(struct dli_round *round, int must, int64_t now);
    void (*ended)(struct dli_round *round); /* before it is freed; may be NULL */
};

struct dli_round {
    struct dli_link link; /* in the lane's */
    const struct dli_round_ops *ops;
    struct dli_lane *lane;
    struct dli_ballot *asked;      /* NULL: answered */
    struct dli_request said;       /* what was asked; rows of several locks are in the shares */
    struct dli_shared_place *spot; /* with a ref; or NULL */
    int waits;                     /* for all seats, before it asks for votes */
    int begun, busy, again;        /* shares under way, and to be tried again */
    int64_t since, wake_at;        /* when it began; call again then */
    int64_t decided_at;            /* when it could have been answered, but is better answered a little later; 0 not */
    int64_t until;                 /* UNDO: nobody knows of it any more then */
    struct dli_election election;
    struct dli_tally tally; /* of questions about one lock */
    int released, won;      /* of an answered one */
    struct dli_kept *kept;  /* of renewals, one for each row */
    struct dli_share share[];
};

/* ---- round.c: lane's thread */

/* The round of what was asked: begins now or, with pause, later. Without memory the asker is answered so. */
void dli_round_start(struct dli_lane *lane, struct dli_ballot *ballot, int64_t now);

/* Behind everything that happens to a round: it may be over. */
void dli_round_settle(struct dli_round *round, int64_t now);

/* What a share stood for is over without its server. */
void dli_share_over(struct dli_share *share);

/* Ask a server what is in share.request. */
void dli_share_send(struct dli_share *share, int urgent);

/* share.request becomes what was said, for that server. */
void dli_share_copy(struct dli_share *share, enum dli_stage stage);

/* Answer: status, and what is in asked.request already. */
void dli_round_answer(struct dli_round *round, dlock_status status);

/* Answer that too few servers agree, naming what each says; what: "granted", "answered". */
void dli_round_fail(struct dli_round *round, const char *what, int agree);

/* Have the round called again at that time at the latest. */
void dli_round_wake(struct dli_round *round, int64_t at);

/* 1 when stragglers have had as long again as those who decided; else the round is woken then. */
int dli_round_grace(struct dli_round *round, int64_t now);

/* Rounds whose time has come. all: whatever they wait for, it is over. */
void dli_round_wake_all(struct dli_lane *lane, int64_t now, int all);

int64_t dli_lane_noise(struct dli_lane *lane, int64_t range);

/* Tell the asker that it is over. */
void dli_ballot_answer(struct dli_lane *lane, struct dli_ballot *ballot, dlock_status status);

/* Those whose ballots were answered. */
void dli_lane_wake_sleepers(struct dli_lane *lane);

/* ---- what is done with rounds */
extern const struct dli_round_ops dli_election_round_ops; /* election.c */
extern const struct dli_round_ops dli_poll_ops;           /* poll.c */
extern const struct dli_round_ops dli_check_ops;          /* check.c */
extern const struct dli_round_ops dli_release_round_ops;  /* release.c */
extern const struct dli_round_ops dli_renewal_round_ops;  /* renewal.c */

/* The seat of a node was heard: votes that came before count now, and who waits for all seats may begin. */
void dli_election_round_judge(struct dli_lane *lane, int node);

/* What is granted late for an id that is being released is released too. */
void dli_election_round_dropped(struct dli_lane *lane, const struct dli_shared_place *spot, const char *id);

/* A round that waits for all seats begins if they are there, or have had their time. */
void dli_election_round_go(struct dli_round *round, int64_t now);

/* Places of the rows and memory for the shares' rows. 0, or -1 without memory. */
int dli_renewal_round_init(struct dli_round *round);

/* An id is being released: renewals under way give it to no server again. */
void dli_renewal_round_dropped(struct dli_lane *lane, const char *id);

/* Release what the share's server granted or may have, again and again until it answers or has forgotten it. */
void dli_release_round_undo(struct dli_share *share, int64_t now);

/* That release was not answered: later once more. */
void dli_release_round_later(struct dli_share *share, int64_t now);

/* ---- membership.c: whether servers can vote together; lane's thread */

/* 0, or -1 without memory. */
int dli_membership_init(struct dli_lane *lane);
void dli_membership_fini(struct dli_lane *lane);

/* What servers know of this quorum is to outlive a lease. */
void dli_membership_last(struct dli_quorum *quorum, int64_t lease);

/* Ask those that are not known, or not for a while. */
void dli_membership_ask(struct dli_lane *lane, int64_t now);

/* The rounds hear of nodes that could not be asked. */
void dli_membership_judge(struct dli_lane *lane);

/* All have been heard, or have had their time: until since + half of the time there is. *at: ask again then. */
int dli_membership_met(struct dli_lane *lane, int64_t since, int64_t deadline, int64_t now, int64_t *at);

/* DLOCK_INVALID_QUORUM with a sentence when some cannot vote together. */
dlock_status dli_quorum_fits(struct dli_quorum *quorum, dlock_error *box);

/* How the quorum is written on its servers; called: by its name, or "". */
void dli_quorum_view(struct dli_quorum *quorum, int db, const char *called);

/* ---- subscriptions.c: what the nodes' stores hear */
extern const struct dli_store_hooks dli_server_hooks;
void dli_quorum_want(struct dli_store *store);
void dli_quorum_listen(struct dli_store *store, const struct dli_kind *kind, const struct dli_place *place,
                       const char *owner, int on, int64_t *listeners);
void dli_quorum_forget(struct dli_store *store, int64_t *listeners);

/* ---- quorum.c */
struct dli_shared_place *dli_shared_place_ref(struct dli_shared_place *spot);
void dli_shared_place_unref(struct dli_shared_place *spot);

static inline struct dli_quorum *dli_quorum_of(struct dli_store *store)
{
    return DLI_OBJECT(store, struct dli_quorum, store);
}

static inline struct dli_ballot *dli_ballot_of(struct dli_request *request)
{
    return DLI_OBJECT(request, struct dli_ballot, request);
}

#endif
