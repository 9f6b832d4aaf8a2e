/*
 * inner.h: what the files of single/ share: the store and its lanes.
 *
 * commands and reloads are atomics. first is set before a second thread uses the store. failure and trimmed of a lane
 * belong to its thread. The other members guard themselves, see their headers.
 */
#ifndef DLI_REDIS_SINGLE_INNER_H
#define DLI_REDIS_SINGLE_INNER_H

#include "single.h"

#include "redis/codec/codec.h"
#include "redis/link/link.h"
#include "redis/pipe/pipe.h"
#include "redis/pubsub/pubsub.h"
#include "redis/replicas/replicas.h"
#include "redis/txn/txn.h"

struct single {
    struct dli_store store;
    struct dli_conn_config config;
    struct dli_reply_room replies;
    struct dli_budget budget;
    struct dli_private pool;
    struct dli_redis_txns txns;
    int64_t patience; /* for one command, in microseconds */
    int64_t commands, reloads;
    int replicas;                     /* constant, see dli_options_replicas */
    struct dli_quarantine quarantine; /* constant; off when longest_ms is 0 */
    struct dli_ears ears;             /* while there is a lane 0 */
    struct dli_lane *first;
};

struct dli_lane {
    struct single *single;
    int index;
    struct dli_pipe pipe;
    struct dli_subscriber subscriber; /* only on lane 0, and so is the listener */
    struct dli_listener listener;
    struct dli_redis_txn_lane txns;
    struct dli_replicas replicas;
    struct dli_failure_log failure;
    int64_t trimmed;
};

static inline struct single *dli_single_of(struct dli_store *store)
{
    return DLI_OBJECT(store, struct single, store);
}

/* ---- messages.c: operations of the store, see store.h */

extern const struct dli_subscriber_hooks dli_single_subscriber_hooks; /* their owner is the store */

void dli_single_want(struct dli_store *store, const struct dli_place *place);
void dli_single_subscribe(struct dli_store *store, const struct dli_kind *kind, const struct dli_place *place,
                          const char *owner, int on, int64_t *listeners);
void dli_single_forget(struct dli_store *store, int64_t *listeners);
int dli_single_may_listen(struct dli_store *store);
int dli_single_listen(struct dli_store *store, int64_t deadline);
void dli_single_ring(struct dli_store *store);

#endif
