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

enum { DLI_PRIVATE_MAX = 64 };

struct dli_private {
    const struct dli_conn_config *config;
    struct dli_budget *budget;
    uint64_t free;      /* atomic mask */
    int64_t slow_until; /* atomic: until then connecting is too slow; callers use the shared connection */
    struct dli_conn *conns[DLI_PRIVATE_MAX];
    int64_t used_at[DLI_PRIVATE_MAX];
};

void dli_private_init(struct dli_private *pool, const struct dli_conn_config *config, struct dli_budget *budget,
                      int count);
void dli_private_fini(struct dli_private *pool);

/*
 * Execute the call on a free connection, blocking until its deadline. 1: complete has run. 0: none is free and none may
 * be opened; complete has not run.
 */
int dli_private_call(struct dli_private *pool, struct dli_call *call);

/* Close free connections that were not used since then. */
void dli_private_trim(struct dli_private *pool, int64_t since);

#endif
