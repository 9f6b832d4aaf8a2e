/*
 * sentinel.h: where the primary of a service is, by the word of sentinels. Every connection asks anew, so that nobody goes
 * on with an old answer; the sentinel that answered last is asked first.
 *
 * first and replicas are atomics; the rest of a finder is constant. A search belongs to its connection.
 */
#ifndef DLI_REDIS_LINK_SENTINEL_H
#define DLI_REDIS_LINK_SENTINEL_H

#include "conn.h"

struct dli_sentinels {
    char service[128];
    int count;
    uint32_t first;
    int replicas;                      /* the most that a sentinel knew of */
    int counts;                        /* constant: ask for them */
    struct dli_conn_config sentinel[]; /* count of them */
};

struct dli_sentinel_search {
    struct dli_conn *ask; /* to a sentinel; NULL: no search under way. Its descriptor is the connection's meanwhile */
    uint32_t at;          /* which one */
    int tried;
    int asked;
    int known;       /* it has said where */
    int64_t give_up; /* on this one */
    struct dli_target found;
};

/* NULL without memory. options and tls outlive it; with tls it speaks TLS to sentinels. */
struct dli_sentinels *dli_sentinels_new(const struct dlock_options *options, const struct dli_site *site,
                                        struct dli_tls *tls);
void dli_sentinels_free(struct dli_sentinels *sentinels);

struct dli_sentinel_search *dli_sentinel_search_new(void);

/* conn turns FINDING; or FAILED. */
void dli_sentinel_search_start(struct dli_conn *conn, int64_t now);

/* FINDING: go on. When the primary is known, conn->target says where and conn goes on to it. */
void dli_sentinel_search_step(struct dli_conn *conn, int64_t now);

/* End what is under way. */
void dli_sentinel_search_stop(struct dli_conn *conn);

#endif
