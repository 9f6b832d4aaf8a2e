/*
 * sentinel.h: finds the primary of a service through its sentinels. Every connection asks anew, so that no old answer
 * is used. The sentinel that answered last is asked first.
 *
 * first of dli_sentinels is an atomic; its other members are constant. A search belongs to its connection.
 */
#ifndef DLI_REDIS_LINK_SENTINEL_H
#define DLI_REDIS_LINK_SENTINEL_H

#include "net/net.h"

struct dli_reply;

struct dli_sentinels {
    char service[128];
    int count;
    uint32_t first;
    int counts;                        /* a sentinel must be able to say how many replicas there are */
    struct dli_conn_config sentinel[]; /* count of them */
};

struct dli_sentinel_search {
    struct dli_conn *sentinel; /* to a sentinel; NULL: no search. The connection uses its fd meanwhile */
    uint32_t at;               /* its index */
    int tried;
    int sent;
    int known;       /* it has named the primary */
    int64_t give_up; /* when to give up on this sentinel */
    struct dli_target found;
};

/*
 * NULL without memory. options, tls and replies outlive it. tls: NULL, or the sentinels are reached over TLS. replies: what the
 * client's answers may use.
 */
struct dli_sentinels *dli_sentinels_new(const struct dlock_options *options, const struct dli_site *site,
                                        struct dli_tls *tls, struct dli_reply_room *replies);
void dli_sentinels_free(struct dli_sentinels *sentinels);

struct dli_sentinel_search *dli_sentinel_search_new(void);

/* Begin: conn becomes SEARCHING, or FAILED. */
void dli_sentinel_search_start(struct dli_conn *conn, int64_t now);

/* SEARCHING: continue. When the primary is known, conn->target is set and conn goes on to connect to it. */
void dli_sentinel_search_step(struct dli_conn *conn, int64_t now);

/* End a search that is under way. */
void dli_sentinel_search_stop(struct dli_conn *conn);

/*
 * How many replicas a sentinel has seen, on a quiet connection to it. ask: 0, or -1 without memory. read: -1, the reply
 * is something else.
 */
int dli_sentinel_ask_replicas(struct dli_conn *sentinel, const char *service);
int dli_sentinel_read_replicas(const struct dli_reply *reply);

#endif
