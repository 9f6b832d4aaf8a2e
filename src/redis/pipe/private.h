/*
 * private.h: up to 64 connections that callers use on their own threads while the process has few calls: no thread
 * switch, no mutex.
 *
 * A bit of the free mask stands for each connection. Whoever takes the bit owns the connection until the bit is put
 * back.
 */
#ifndef DLI_REDIS_PIPE_PRIVATE_H
#define DLI_REDIS_PIPE_PRIVATE_H

#include "call.h"
#include "redis/link/link.h"

enum { DLI_PRIVATE_MAX = 64, DLI_PRIVATE_TRIM = 30 * 1000 * 1000 };

struct dli_private {
    const struct dli_conn_config *config;
    struct dli_budget *budget;
    int count;
    uint64_t free;      /* atomic mask */
    int64_t slow_until; /* atomic: until then connecting is too slow; callers use the shared connection */
    int grown;          /* atomic: a connection was opened, so the loop will have to trim */
    int shut;           /* atomic: no call may use one any more */
    int64_t left_at; /* atomic: when a server was found not to be the primary; connections made before may lead to it */
    int64_t vain_at; /* atomic: when a new connection led to such a server, too */
    int wake_fd;     /* of the loop that trims, set by its owner; -1: none yet */
    struct dli_conn *conns[DLI_PRIVATE_MAX];
    int64_t used_at[DLI_PRIVATE_MAX];
};

void dli_private_init(struct dli_private *pool, const struct dli_conn_config *config, struct dli_budget *budget,
                      int count);
void dli_private_fini(struct dli_private *pool);

/*
 * Execute the call on a free connection, blocking until its deadline. 1: complete has run. 0: none is free and none may
 * be opened; complete has not run. shared: the shared connection works, so 0 also when none can be opened in half of the
 * call's time.
 */
int dli_private_call(struct dli_private *pool, struct dli_call *call, int shared);

/*
 * Any thread: a server is not the primary. 1: the caller drops its connection, and tries a new one once; the free ones
 * are closed. 0: a new one would lead to the same server; that was tried a moment ago.
 */
int dli_private_leave(struct dli_private *pool, int64_t now);
void dli_private_left_in_vain(struct dli_private *pool, int64_t now); /* the new one did */

/*
 * Take a free connection that works out of the pool; it belongs to the caller then. Only one whose last call began after
 * since. NULL: there is none.
 */
struct dli_conn *dli_private_yield(struct dli_private *pool, int64_t since);

/*
 * Close free connections that were not used since then. spared: all but one, because the shared connection does not
 * work, and held locks may need one.
 */
void dli_private_trim(struct dli_private *pool, int64_t since, int spared);

/* When to trim, if that was done at last: INT64_MAX when nothing would be closed. */
int64_t dli_private_alarm(const struct dli_private *pool, int64_t last);

/* Close all; a call under way closes its own when it is over. Calls fail from now on. Any thread, more than once. */
void dli_private_shut(struct dli_private *pool);

#endif
