/*
 * pipe.h: one shared connection for all callers, driven by an event loop.
 *
 * Callers push from any thread without a lock. The loop collects what was pushed, encodes it behind urgent calls, sends
 * it in one go, and completes calls as replies arrive. Sleeping callers of one collection share a futex word, so one
 * system call wakes them all.
 *
 * A direct call that is pushed while the loop sleeps and nobody else uses the connection does the loop's work on the
 * caller's thread for a moment. That saves four wake-ups.
 *
 * pushed, open_slot, pushes, words, sleeping, load and ready are atomics; config is constant. mutex guards everything
 * else. The loop's thread holds it while it is awake and takes it before any other mutex. A thread that pushes a direct
 * call holds no mutex and takes this one only if it is free. mutex is not used where no call is direct.
 */
#ifndef DLI_REDIS_PIPE_PIPE_H
#define DLI_REDIS_PIPE_PIPE_H

#include <pthread.h>

#include "batch.h"
#include "call.h"
#include "failure.h"
#include "private.h"
#include "redis/link/link.h"
#include "request.h"
#include "unknown.h"

/*
 * No more calls than DLI_PIPE_FLYING are in flight, without urgent ones: if all that are waiting were sent to a slow
 * server, each would be sent again before its answer came.
 */
enum { DLI_PIPE_WORDS = 64, DLI_PIPE_GROUP = 16, DLI_PIPE_FLYING = 1024 };

/* A call that was sent. */
struct dli_flight {
    struct dli_call *call; /* NULL: nobody waits for it any more */
    int more;              /* number of flights behind it that share its reply */
};

struct dli_pipe {
    struct dli_call *pushed; /* newest first */
    uint32_t open_slot;
    uint32_t pushes; /* counts: a group is full after DLI_PIPE_GROUP of them */
    uint32_t words[DLI_PIPE_WORDS];
    uint32_t sleeping; /* the loop is about to sleep: a push must wake it */
    int64_t load;      /* calls pushed and not completed, without urgent ones */
    int wake_fd;       /* the loop's, borrowed */
    const struct dli_conn_config *config;
    pthread_mutex_t mutex;

    struct dli_conn *conn;     /* the loop may put another one in its place */
    struct dli_private *spare; /* NULL, or whose connections may take the place of conn */
    struct dli_busy busy, nap; /* of direct calls: busy polling, and sleeping for the answer */
    struct dli_budget *budget;
    struct dli_call *again, **again_end;   /* to be sent again, in the order of the first sending */
    struct dli_call *urgent, **urgent_end; /* to be sent after those, in order */
    struct dli_call *waiting, **waiting_end;
    struct dli_flight *flying; /* a ring */
    size_t flying_first, flying_count, flying_room;
    int64_t deadline;    /* the earliest of all calls here, or earlier */
    int64_t received_at; /* when bytes came last, or the first call in flight was sent */
    int64_t silence;     /* microseconds without bytes after which the connection is dropped */
    int64_t try_at;      /* do not connect before */
    int64_t lost_at;     /* when conn was lost last */
    int leaving;         /* conn leads to a server that is not the primary: nothing more is sent there */
    int barren;          /* the last attempt to connect failed */
    int ready;           /* atomic: conn works, as far as the loop knows */
    uint64_t woken;      /* bits of the words to wake at the end of this step */
    int64_t failures;    /* how often a connection was lost or could not be made */
    dlock_error failure; /* the last one */
    int scripts_known;   /* bits: the server has the script of that batch */
    int batchless;       /* no batches: the server, or a proxy, wants the keys of a script in one slot */
    int64_t *reloads;    /* atomic counter of NOSCRIPT answers */
    struct dli_unknown unknown;
};

/* 0, or -1 without memory. */
int dli_pipe_init(struct dli_pipe *pipe, const struct dli_conn_config *config, struct dli_budget *budget, int wake_fd,
                  int64_t silence, int64_t *reloads);
void dli_pipe_fini(struct dli_pipe *pipe);

/*
 * Any thread: hand the call over. With call->sleeps the caller then calls dli_pipe_wait. -1: the pipe is shut; the call
 * stays the caller's and complete does not run.
 *
 * With call->direct the push may take up to twice config->busy_poll, and may run complete for this call and others.
 */
int dli_pipe_push(struct dli_pipe *pipe, struct dli_call *call);

/* Any thread: whether the shared connection works, as far as the loop knows. */
static inline int dli_pipe_ready(const struct dli_pipe *pipe)
{
    return __atomic_load_n(&pipe->ready, __ATOMIC_RELAXED);
}

/* For the caller of a pushed call with sleeps set: returns once complete has run. */
void dli_pipe_wait(struct dli_pipe *pipe, struct dli_call *call);

/* ---- the loop's thread */

/* Put a call before all pushed ones. */
void dli_pipe_push_urgent(struct dli_pipe *pipe, struct dli_call *call);

/* Collect, connect, send, receive, complete, expire: whatever can be done now without blocking. */
void dli_pipe_step(struct dli_pipe *pipe, int64_t now);

/* Complete all calls with DLOCK_CLOSED and accept no more. */
void dli_pipe_shut(struct dli_pipe *pipe);

/* When dli_pipe_step wants to run without any event. */
int64_t dli_pipe_alarm(const struct dli_pipe *pipe);

/*
 * Where calls may be direct, the loop holds mutex while it is awake: enter before its first step and after each sleep,
 * leave before it sleeps and after it shut the pipe.
 */
void dli_pipe_enter(struct dli_pipe *pipe);
void dli_pipe_leave(struct dli_pipe *pipe);

/* What to poll before the loop sleeps. */
struct pollfd dli_pipe_poll(const struct dli_pipe *pipe);

#endif
