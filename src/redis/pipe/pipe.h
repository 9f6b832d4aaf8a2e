/*
 * pipe.h: one shared connection for everybody, driven by an event loop.
 *
 * Callers push from any thread without a lock. The loop collects what was pushed, encodes it behind what is urgent,
 * sends it in one go, and completes calls as replies arrive. Sleeping callers of one collection share a futex word, so
 * that one system call wakes them all. Who pushes a direct call while the loop sleeps and nobody else uses the connection does the
 * loop's work by itself for a moment: four wake-ups less.
 *
 * pushed, open_slot, pushes, words, sleeping and load are atomics. mutex guards everything else: the loop's thread has it while it is
 * awake, before any other, and who pushes a direct call, holding none, takes it only where nobody waits. Where no call is direct it is
 * not used.
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

enum { DLI_PIPE_WORDS = 64, DLI_PIPE_GROUP = 16 };

/* A call that was sent. */
struct dli_flight {
    struct dli_call *call; /* NULL: nobody waits for it any more */
    int more;              /* so many behind it share its reply */
};

struct dli_pipe {
    struct dli_call *pushed; /* newest first */
    uint32_t open_slot;
    uint32_t pushes; /* counts: a group is full after DLI_PIPE_GROUP of them */
    uint32_t words[DLI_PIPE_WORDS];
    uint32_t sleeping; /* the loop is about to sleep: a push must wake it */
    int64_t load;      /* calls pushed and not completed, urgent ones apart */
    int wake_fd;       /* the loop's, borrowed */
    pthread_mutex_t mutex;

    struct dli_conn *conn;
    struct dli_busy busy, nap; /* of direct calls: asking for an answer, and sleeping for it */
    struct dli_budget *budget;
    struct dli_call *again, **again_end;   /* to be sent once more, in the order in which they were sent first */
    struct dli_call *urgent, **urgent_end; /* to be sent behind those, in order */
    struct dli_call *waiting, **waiting_end;
    struct dli_flight *flying; /* a ring */
    size_t flying_first, flying_count, flying_room;
    int64_t deadline;    /* the earliest of all calls here, or earlier */
    int64_t heard_at;    /* bytes came, or the first call went out */
    int64_t silence;     /* microseconds without bytes after which the connection is given up */
    int64_t try_at;      /* connect not before */
    uint64_t woken;      /* words to wake at the end of this round */
    int64_t failures;    /* how often a connection was lost or could not be made */
    dlock_error failure; /* the last one */
    int crowds_known;    /* bits: the server has the script of that crowd */
    int crowdless;       /* the server, or a proxy, wants the keys of one slot in a script */
    int64_t *reloads;    /* atomic counter of NOSCRIPT answers */
};

/* 0, or -1 without memory. */
int dli_pipe_init(struct dli_pipe *pipe, const struct dli_conn_config *config, struct dli_budget *budget, int wake_fd,
                  int64_t silence, int64_t *reloads);
void dli_pipe_fini(struct dli_pipe *pipe);

/*
 * Any thread: hand the call over; with call->sleeps the caller then calls dli_pipe_wait. -1 when the pipe was shut: the
 * call stays the caller's and complete does not run. With call->direct it may take as long as config->busy_poll, and complete
 * calls, its own and others, in the meantime.
 */
int dli_pipe_push(struct dli_pipe *pipe, struct dli_call *call);

/* The caller of a pushed call with sleeps set: return once complete has run. */
void dli_pipe_wait(struct dli_pipe *pipe, struct dli_call *call);

/* ---- the loop's thread */

/* Put a call before all others. */
void dli_pipe_push_urgent(struct dli_pipe *pipe, struct dli_call *call);

/* Collect, connect, send, receive, complete, give up: whatever can be done now without blocking. */
void dli_pipe_step(struct dli_pipe *pipe, int64_t now);

/* Complete everything with DLOCK_CLOSED and take no more. */
void dli_pipe_shut(struct dli_pipe *pipe);

/* When dli_pipe_step wants to run without any news. */
int64_t dli_pipe_alarm(const struct dli_pipe *pipe);

/* Where calls may be direct: the loop is awake, from its first step on; it is about to sleep, or has shut the pipe. */
void dli_pipe_enter(struct dli_pipe *pipe);
void dli_pipe_leave(struct dli_pipe *pipe);

/* What to poll before the loop sleeps. */
struct pollfd dli_pipe_poll(const struct dli_pipe *pipe);

#endif
