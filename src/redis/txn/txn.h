/*
 * txn.h: optimistic transactions: WATCH, reads, then MULTI, the writes and EXEC, on their own connection.
 *
 * A round begins with the first WATCH and ends with commit, rollback or a failure of the connection. Writes are kept
 * here until the commit, so that the server sees none before. The commit waits for the reply to MULTI before it sends
 * them: a server that refuses MULTI would execute each write at once.
 *
 * A transaction is used by one thread at a time; it has no mutex. reason is never NULL and receives a sentence if the
 * status is not DLOCK_OK.
 */
#ifndef DLI_REDIS_TXN_TXN_H
#define DLI_REDIS_TXN_TXN_H

#include <pthread.h>

#include "base/list.h"
#include "redis/codec/codec.h"
#include "redis/link/link.h"
#include "store/store.h"

enum { DLI_TXN_SPARES = 8, DLI_TXN_LANES = 16 };

struct dli_redis_txn;

/* Finds the server of a round in a store on several servers. */
struct dli_redis_txn_guide {
    /*
     * A round begins with key. DLOCK_OK: config and budget are those of the key's server. DLOCK_WOULD_BLOCK: call again
     * at *at.
     */
    dlock_status (*lead)(struct dli_redis_txn *txn, const char *key, size_t size, int64_t *at, dlock_error *reason);
    int (*follow)(struct dli_redis_txn *txn,
                  const struct dli_redirect *redirect); /* 1: lead now gives another server */
    void (*lost)(struct dli_redis_txn *txn);            /* the server that lead gave is out of reach */
};

/* In a round, conn is READY and has watched keys. */
struct dli_redis_txn {
    struct dli_txn base; /* first */
    const struct dli_conn_config *config;
    struct dli_budget *budget;
    int64_t patience;         /* microseconds for one command */
    struct dli_conn *conn;    /* NULL or a connection; between rounds the user may take it or put another one here */
    struct dli_buffer writes; /* encoded commands */

    const struct dli_redis_txn_guide *guide; /* NULL: one server */
    void *guide_of;
    struct dli_redirect redirect; /* what the last reply said */
    int slot;                     /* of the round's keys */
    uint32_t version;             /* the guide's */
};

/* Free everything and close the connection, which ends all watches. Never blocks. */
void dli_redis_txn_fini(struct dli_redis_txn *txn);

/* The same in a forked child, which has a copy of the descriptor: the parent's connection stays open. */
void dli_redis_txn_fini_child(struct dli_redis_txn *txn);

/* A connection of a transaction: its answers are the user's values, so only their own limits count. NULL without memory. */
struct dli_conn *dli_redis_txn_new_conn(const struct dli_conn_config *config);

/* Close and free a connection outside a round, also where forked children have its descriptor. Never blocks. */
void dli_redis_txn_end_conn(struct dli_conn *conn);

/* End the round and close the connection. Never blocks. */
void dli_redis_txn_drop(struct dli_redis_txn *txn);

/* The same after a call that ended with status; a guide hears of a server that is out of reach. */
void dli_redis_txn_break(struct dli_redis_txn *txn, dlock_status status);

/* ---- steps, as blocking calls that dli_txn_may allows; what they end with is written in dlock.h */

dlock_status dli_redis_txn_watch(struct dli_redis_txn *txn, const char *key, size_t size, dlock_error *reason);

/* *ret_value is freed by the caller. */
dlock_status dli_redis_txn_get(struct dli_redis_txn *txn, const char *key, size_t size, char **ret_value,
                               size_t *ret_size, dlock_error *reason);
dlock_status dli_redis_txn_commit(struct dli_redis_txn *txn, dlock_error *reason);
void dli_redis_txn_rollback(struct dli_redis_txn *txn);

/* Those of the table in store/txn.h that need no lane. */
dlock_status dli_redis_txn_fits(const struct dli_txn *base, const char *key, size_t size, dlock_error *reason);
dlock_status dli_redis_txn_write(struct dli_txn *base, const struct dli_txn_write *write, dlock_error *reason);

/* A copy of a value; DLOCK_NOT_FOUND for a reply without one. */
dlock_status dli_redis_txn_value(const struct dli_reply *reply, char **ret_value, size_t *ret_size,
                                 dlock_error *reason);

/* The status for an error reply. On a cluster a slot that has moved is a temporary failure. */
dlock_status dli_redis_txn_refusal(const struct dli_redis_txn *txn, const struct dli_reply *reply);

/* The same with a sentence; DLOCK_OK for anything but an error reply. */
dlock_status dli_redis_txn_refused(const struct dli_redis_txn *txn, const struct dli_reply *reply, dlock_error *reason);

enum { DLI_TXN_REDIRECTS = 5 };

/* A WATCH failed. 1: it may succeed on another server. redirects counts. */
int dli_redis_txn_redirects(struct dli_redis_txn *txn, int *redirects);

/* Forget the writes and end the round, after the server forgot the watched keys. */
void dli_redis_txn_end_round(struct dli_redis_txn *txn);

/* ---- exec.c: MULTI was answered: send the writes and EXEC, and interpret the replies. conn stays, even if FAILED. */

struct dli_exec {
    struct dli_redis_txn *txn;
    int taken;           /* replies to writes so far */
    int done;            /* it is over: status and reason are final */
    int sent;            /* all bytes were given to the kernel */
    dlock_status status; /* before done: of the first write that the server refused */
    dlock_error *reason;
};

/* DLOCK_OK. DLOCK_OUT_OF_MEMORY: nothing was begun. */
dlock_status dli_redis_txn_exec_begin(struct dli_exec *exec, struct dli_redis_txn *txn, dlock_error *reason);

/* Do what can be done without blocking. late: the time is over. 1: so is the commit; status and reason have the result. */
int dli_redis_txn_exec_step(struct dli_exec *exec, int late);

/* ---- step.c: steps without a waiting caller. A step belongs to its owner before the push and in done. Nobody else
 * uses the transaction in between. done runs on the lane's thread. */

struct dli_redis_txn_step {
    struct dli_redis_txn *txn;
    enum dli_txn_verb verb;
    const char *key; /* of WATCH and GET */
    size_t key_size;
    void (*done)(struct dli_redis_txn_step *step);

    dlock_status status; /* the results */
    dlock_error reason;  /* a sentence if status is not DLOCK_OK */
    char *value;         /* GET: the owner frees it */
    size_t size;

    struct dli_redis_txn_step *next; /* the rest is the lane's */
    enum { DLI_TXN_BEGIN, DLI_TXN_LEAD, DLI_TXN_REDIRECT, DLI_TXN_CONNECT, DLI_TXN_ANSWER, DLI_TXN_EXEC } phase;
    int64_t deadline, alarm;
    int redirects;  /* how often it was redirected */
    int may_repeat; /* it may be sent again on a new connection if this one is dead */
    struct dli_exec exec;
};

/* ---- step.c: the steps of a lane, which drives their connections. mutex guards pushed and shut; the rest belongs to
 * the lane's thread. */

struct pollfd;

enum { DLI_TXN_LANE_FDS = 56 };

struct dli_redis_txn_lane {
    pthread_mutex_t mutex;
    struct dli_redis_txn_step *pushed, **pushed_end;
    int shut;
    struct dli_redis_txns *txns;
    int wake_fd;                                       /* the loop's, borrowed */
    struct dli_redis_txn_step *waiting, **waiting_end; /* until fewer than DLI_TXN_LANE_FDS are active */
    struct dli_redis_txn_step *active;
    int count;
};

struct dli_redis_txns;

/* index: of the lane, below DLI_TXN_LANES. */
void dli_redis_txn_lane_init(struct dli_redis_txn_lane *lane, struct dli_redis_txns *txns, int index, int wake_fd);
void dli_redis_txn_lane_fini(struct dli_redis_txn_lane *lane);

/* Any thread. 0, or -1: the lane is shut; the step stays the caller's and done does not run. */
int dli_redis_txn_lane_push(struct dli_redis_txn_lane *lane, struct dli_redis_txn_step *step);

/* ---- the lane's thread: as the operations of a lane in store/store.h */
void dli_redis_txn_lane_step(struct dli_redis_txn_lane *lane, int64_t now);
int64_t dli_redis_txn_lane_alarm(const struct dli_redis_txn_lane *lane);

/* How many descriptors to watch; at most DLI_TXN_LANE_FDS. */
int dli_redis_txn_lane_fds(const struct dli_redis_txn_lane *lane, struct pollfd *fds);
void dli_redis_txn_lane_shut(struct dli_redis_txn_lane *lane);

/* ---- handle.c: the transactions of a store, by the table of store/txn.h */

/* Connections between rounds. mutex guards them. */
struct dli_redis_txns {
    pthread_mutex_t mutex;
    struct dli_conn *spare[DLI_TXN_SPARES];
    int spares, shut;
    uint32_t lefts; /* dli_budget_lefts of these connections; not in a store on several servers */
    struct dli_redis_txn_lane *lane[DLI_TXN_LANES]; /* constant once there are transactions */
};

void dli_redis_txns_init(struct dli_redis_txns *txns);
void dli_redis_txns_fini(struct dli_redis_txns *txns);

/* The client is closed: close the connections that are in no round. Never blocks. */
void dli_redis_txns_end(struct dli_redis_txns *txns);

/* A struct dli_redis_txn. NULL without memory. */
struct dli_txn *dli_redis_txn_new(struct dli_redis_txns *txns, const struct dli_conn_config *config,
                                  struct dli_budget *budget, int64_t patience);

#endif
