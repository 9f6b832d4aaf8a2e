/*
 * replicas.h: requests whose effect replicas must confirm (option replicas). They go over connections of their own; in
 * a cluster each server has its own set.
 *
 * WAIT refers to the last command that wrote on its own connection (Redis up to 7: to the last command of any kind). It
 * confirms all that the server had written when that command had run. On a fresh connection it confirms nothing. So
 * every script that answers "granted", "renewed" or "taken" writes, even if nothing has to change. A grant or a renewal
 * and its WAIT go over one connection, one directly after the other, without a reconnect in between. Nothing else is
 * sent after a WAIT, because it blocks its connection.
 *
 * A grant and every renewal are confirmed, by as many replicas as the option says. When all have to confirm, any
 * replica that is promoted knows every claim that clients rely on. A waiter does not rely on the message of a grant
 * that another process's release made: it asks for the grant again with the same id, and that request is confirmed. A
 * release is not confirmed: a replica that still knows the grant keeps the lock taken until the lease ends. A hand-over
 * inside a process changes nothing on the server.
 *
 * When all must confirm, INFO replication goes before WAIT in the same message: it says how many replicas the primary
 * has now. If these are more than WAIT was told, WAIT is sent again. See census.h.
 *
 * With too few confirmations a grant fails with DLOCK_NOT_REPLICATED, and the engine takes it back by its id. Such a
 * renewal does not count: the holder is AT_RISK and then LOST, unless a later renewal is confirmed.
 *
 * mutex guards pushed and shut; the rest belongs to the lane's thread.
 */
#ifndef DLI_REDIS_REPLICAS_REPLICAS_H
#define DLI_REDIS_REPLICAS_REPLICAS_H

#include <pthread.h>

#include "census.h"
#include "redis/link/link.h"
#include "redis/pipe/pipe.h"

struct pollfd;

enum { DLI_REPLICAS_CONNS = 4 };

/* One connection and its job. */
struct dli_replicas_carrier {
    struct dli_conn *conn;
    struct dli_job *job; /* NULL: idle */
    int connecting;      /* for this job or, once that is over, for the next one */
    int said, waits;     /* the command was sent; WAIT was sent */
    int asks;            /* INFO was sent before WAIT, and has no answer yet */
    int told;            /* the number that WAIT got */
    int skip;            /* a reply to skip: that to ASKING */
    int fresh;           /* the connection was made for this job */
    int64_t alarm;
};

/* Calls in order of arrival. */
struct dli_call_queue {
    struct dli_call *first, **end;
};

struct dli_replicas {
    pthread_mutex_t mutex;
    struct dli_call_queue pushed[2]; /* [1]: urgent ones */
    int shut;
    int wake_fd; /* the loop's, borrowed */
    const struct dli_conn_config *config;
    struct dli_budget *budget;
    int64_t *reloads;
    int needed; /* how many replicas must confirm; < 0: all, at least one */
    struct dli_census census;
    const struct dli_listed *listed;  /* the census', or the cluster's for this server */
    int linked;                       /* how many the primary has or had; counts until those who list know as much */
    int64_t linked_at;                /* when it had so many */
    int missed;                       /* a confirmation failed: the one who reads it clears it */
    struct dli_call_queue waiting[2]; /* for a connection; [1]: urgent ones, which go first */
    struct dli_replicas_carrier carrier[DLI_REPLICAS_CONNS];
};

void dli_replicas_init(struct dli_replicas *replicas, const struct dli_conn_config *config, struct dli_budget *budget,
                       int wake_fd, int needed, int64_t *reloads);
void dli_replicas_fini(struct dli_replicas *replicas);

/* Whether replicas must confirm the request. */
int dli_replicas_want(const struct dli_replicas *replicas, const struct dli_request *request);

/*
 * Any thread, with a job that has begun. push: 0, or -1 when the lane is shut. urgent: the job goes before all that
 * wait for a connection, behind earlier urgent ones. execute: blocks until the job is answered.
 */
int dli_replicas_push(struct dli_replicas *replicas, struct dli_job *job, int urgent);
void dli_replicas_execute(struct dli_replicas *replicas, struct dli_job *job);

/* ---- replicas.c, the lane's thread */

/* Go on with the carrier's job as far as possible without blocking. */
void dli_replicas_drive(struct dli_replicas *replicas, struct dli_replicas_carrier *carrier, int64_t now);

/* Go on with connecting, with or without a job. */
void dli_replicas_settle(struct dli_replicas *replicas, struct dli_replicas_carrier *carrier, int64_t now);

/* End a job that was not sent: DLOCK_UNREACHABLE (it is late) or DLOCK_CLOSED. Cut one that was sent: DLOCK_CLOSED. */
void dli_replicas_end(struct dli_replicas *replicas, struct dli_job *job, dlock_status status);
void dli_replicas_cut(struct dli_replicas_carrier *carrier);

/* ---- the lane's thread: as the operations of a lane in store/store.h */
void dli_replicas_step(struct dli_replicas *replicas, int64_t now);
int64_t dli_replicas_alarm(const struct dli_replicas *replicas);
int dli_replicas_fds(const struct dli_replicas *replicas, struct pollfd *fds);
void dli_replicas_shut(struct dli_replicas *replicas);

#endif
