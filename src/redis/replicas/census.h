/*
 * census.h: how many replicas are all of them (replicas=all). No number is taken once and for all.
 *
 * A replica counts while the sentinels or the cluster list it, and from the moment on at which the primary has it: the
 * primary is asked with every WAIT. Sentinels learn of a replica from the primary, within ten seconds. They are asked
 * in the background, all of them, every two seconds while requests come: one that lists more than the others may
 * promote it. The first request, and the first one after a pause, waits until each has answered or failed. A sentinel
 * that does not answer keeps what it said last.
 *
 * A census belongs to its lane's thread. The members of dli_listed are atomics.
 */
#ifndef DLI_REDIS_REPLICAS_CENSUS_H
#define DLI_REDIS_REPLICAS_CENSUS_H

#include "redis/link/link.h"

/* What sentinels or the cluster list. */
struct dli_listed {
    int count;
    int64_t at; /* when they were asked */
};

struct dli_census {
    const struct dli_sentinels *sentinels; /* NULL: nobody is asked */
    struct dli_listed listed;
    int64_t wanted; /* the last time when there was a request; 0: never */
    int64_t begun;  /* the last round; 0: there was none since the last pause */
    int settled;    /* in a round since then each has answered or failed */
    struct dli_census_member {
        struct dli_conn *conn;
        int asked; /* its answer is outstanding */
        int heard; /* it has answered or failed in this round */
        int count; /* what it said last */
    } member[DLI_NODES_MAX];
};

void dli_census_init(struct dli_census *census, const struct dli_sentinels *sentinels);
void dli_census_fini(struct dli_census *census);

/* Go on as far as possible without blocking. busy: there is a request. */
void dli_census_step(struct dli_census *census, int busy, int64_t now);

/* Whether requests may go on. */
int dli_census_ready(const struct dli_census *census);

/* As the operations of a lane in store/store.h. */
int64_t dli_census_alarm(const struct dli_census *census);
int dli_census_fds(const struct dli_census *census, struct pollfd *fds);

/* The number of replicas in INFO replication, whatever their state; one that has two links counts once. */
int dli_linked_replicas(const char *text, size_t size);

#endif
