/*
 * replicas.h: requests whose effect replicas have to confirm (option replicas), on connections of their own; of a cluster, one for each server.
 *
 * WAIT answers when the replicas have all that the server had written when the last command that wrote, of the same connection,
 * had run (Redis up to 7: any command); on a fresh connection it confirms nothing. So every script that answers "granted",
 * "renewed" or "taken" writes, also when it finds things as they should be already. A grant or a renewal and its WAIT go
 * over one connection, one behind the other, with no reconnecting in between, and nothing else is sent behind a WAIT,
 * which blocks its connection.
 *
 * What is confirmed: a grant and every renewal, by as many replicas as the option says. With all of them, whichever is promoted
 * knows each claim that was counted on. A grant that another process's release made for a waiter is not believed when it
 * is heard: the waiter asks for it again by the same id, and that request is confirmed. A release is not confirmed: a replica
 * that still knows the grant keeps the lock taken until the lease ends. What is handed over inside a process changes nothing
 * on the server.
 *
 * A short answer: the caller hears DLOCK_NOT_REPLICATED and the engine takes the grant back by its id. A short renewal does
 * not count; the holder is AT_RISK and then LOST unless a later one is confirmed.
 *
 * mutex guards pushed and shut; the rest belongs to the lane's thread.
 */
#ifndef DLI_REDIS_REPLICAS_REPLICAS_H
#define DLI_REDIS_REPLICAS_REPLICAS_H

#include <pthread.h>

#include "redis/link/link.h"
#include "redis/pipe/pipe.h"

struct pollfd;

enum { DLI_REPLICAS_CONNS = 4 };

/* One connection and what it carries. */
struct dli_replicas_carrier {
    struct dli_conn *conn;
    struct dli_job *job; /* NULL: idle */
    int connecting;      /* for this errand or, when that is over, the next one */
    int said, waits;     /* where it is */
    int skip;            /* replies that nobody waits for: to ASKING */
    int fresh;           /* the connection was made for this errand */
    int64_t alarm;
};

/* Calls in their order. */
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
    int needed;                       /* how many replicas; < 0: all, *known or one */
    const int *known;                 /* an atomic; the finder's, or the cluster's for this server */
    struct dli_call_queue waiting[2]; /* for a connection; [1]: urgent ones, which go first */
    struct dli_replicas_carrier carrier[DLI_REPLICAS_CONNS];
};

void dli_replicas_init(struct dli_replicas *replicas, const struct dli_conn_config *config, struct dli_budget *budget,
                       int wake_fd, int needed, int64_t *reloads);
void dli_replicas_fini(struct dli_replicas *replicas);

/* Whether the request is one that has to be confirmed. */
int dli_replicas_want(const struct dli_replicas *replicas, const struct dli_request *request);

/*
 * Any thread: an errand that has begun. 0, or -1 when the lane was shut. urgent: it goes before all that wait for a connection,
 * behind others that are urgent. carry: blocks until it was answered.
 */
int dli_replicas_push(struct dli_replicas *replicas, struct dli_job *job, int urgent);
void dli_replicas_execute(struct dli_replicas *replicas, struct dli_job *job);

/* ---- replicas.c, the lane's thread */

/* Go on with the turn's errand as far as possible without blocking. */
void dli_replicas_drive(struct dli_replicas *replicas, struct dli_replicas_carrier *carrier, int64_t now);

/* Go on with connecting, with an errand or without. */
void dli_replicas_settle(struct dli_replicas *replicas, struct dli_replicas_carrier *carrier, int64_t now);

/* End one that has not been sent: DLOCK_UNREACHABLE, it is late, or DLOCK_CLOSED; and one that has been, by closing. */
void dli_replicas_end(struct dli_replicas *replicas, struct dli_job *job, dlock_status status);
void dli_replicas_cut(struct dli_replicas_carrier *carrier);

/* ---- the lane's thread: as the operations of a lane in store/store.h */
void dli_replicas_step(struct dli_replicas *replicas, int64_t now);
int64_t dli_replicas_alarm(const struct dli_replicas *replicas);
int dli_replicas_fds(const struct dli_replicas *replicas, struct pollfd *fds);
void dli_replicas_shut(struct dli_replicas *replicas);

#endif
