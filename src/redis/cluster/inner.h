/*
 * inner.h: what the files of the store on a cluster share.
 *
 *   cluster.c        the operations: lanes and their thread
 *   node.c   one server: its connections
 *   route.c   a request on its way from server to server
 *   refresh.c   who owns which slot: asked in the background, on lane 0, one look at a time
 *   subscriptions.c    what is heard, on every primary
 *   check.c  looks at every server, for what it is fit
 *   provision.c  says of every slot that its server remembers all
 *
 * mutex guards lane, channels, surveys and why, and is taken last but for the mutexes inside a subscriber or a gate. owner, nodes,
 * version, known, form, probed and the counters are atomics. Nodes are made on lane 0's thread, are never changed
 * and stay until the store goes. What belongs to lane 0's thread is marked so; pipes belong to their lane's.
 */
#ifndef DLI_REDIS_CLUSTER_INNER_H
#define DLI_REDIS_CLUSTER_INNER_H

#include <pthread.h>

#include "redis/codec/codec.h"
#include "redis/pubsub/pubsub.h"
#include "redis/pipe/pipe.h"
#include "redis/replicas/replicas.h"
#include "redis/scripts/scripts.h"
#include "base/options.h"
#include "base/url.h"
#include "store/store.h"
#include "redis/txn/txn.h"

enum {
    DLI_CLUSTER_LANES = 16,
    DLI_CLUSTER_EVER = 250, /* servers that were primaries in the life of a client */
    DLI_CHANNEL_ROWS = 256
};

struct dli_cluster;
struct pollfd;

/* A lane's connection to a server. */
struct dli_node_pipe {
    struct dli_pipe pipe;
    struct dli_replicas replicas;
    struct dli_failure_log failure;
};

/* A server that is or was a primary. */
struct dli_node {
    struct dli_cluster *cluster;
    int index;
    struct dli_conn_config config;
    struct dli_budget budget;
    struct dli_private pool;
    struct dli_node_pipe *pipe[DLI_CLUSTER_LANES]; /* NULL for a lane that there is not */
    int listed;                                    /* atomic: it is in the map */
    int replicas;                                  /* atomic: how many it has */
    int owed;                                      /* lane 0's: it had so many, and is to have them again */
    struct dli_subscriber subscriber;              /* lane 0's */
    enum {
        DLI_SUBSCRIPTION_OFF,
        DLI_SUBSCRIPTION_COMING,
        DLI_SUBSCRIPTION_UP,
        DLI_SUBSCRIPTION_DOWN
    } subscription; /* written by lane 0 under mutex */
};

/* A channel of a lock that is listened to. */
struct dli_channel {
    struct dli_channel *next;
    int node; /* where it is listened to; DLI_NOBODY */
    int slot;
    int plain; /* whatever the cluster's form is */
    int fresh;
    size_t size;
    char name[];
};

/* A look at the map; lane 0's, but for wanted. */
struct dli_refresh {
    uint32_t wanted; /* atomic */
    struct dli_conn *conn;
    struct dli_conn_config config; /* of the one who is asked */
    struct dli_budget budget;
    int at, tried; /* candidates: the nodes of the map, then those of the URL */
    enum { DLI_REFRESH_NONE, DLI_REFRESH_CONNECT, DLI_REFRESH_PROBE, DLI_REFRESH_SHARDS, DLI_REFRESH_SLOTS } stage;
    int64_t not_before, give_up;
    int failing; /* the last one failed, which is in the log */
    int hasty;   /* no candidate gets the whole connect time */
    int known;   /* looks in a row that told nothing new */
    struct dli_cluster_map map;
};

struct dli_cluster {
    struct dli_store store;
    struct dli_conn_config config; /* of all, but for the target */
    int connects_per_second, private_connections;
    struct dli_quarantine quarantine; /* constant; longest_ms 0: off */
    int confirm;                      /* constant, see dli_options_replicas */
    int pubsub;                       /* constant, DLI_PUBSUB_... */
    int64_t patience;                 /* for one command */
    int seeds;
    struct dli_target seed[DLI_NODES_MAX];

    pthread_mutex_t mutex;
    struct dli_lane *lane[DLI_CLUSTER_LANES];
    struct dli_channel *channels[DLI_CHANNEL_ROWS];
    dlock_error reason; /* of the last look that failed */

    struct dli_node *node[DLI_CLUSTER_EVER];
    int nodes;
    uint8_t owner[DLI_SLOTS];
    uint32_t version; /* futex: looks that have ended */
    uint32_t failed;  /* the version at which one failed last */
    int known;        /* there is a map */
    int form, probed; /* DLI_FORM_..., as servers and pubsub allow; that is known */
    int64_t commands, reloads;

    struct dli_refresh refresh;
    int replicas; /* lane 0's, as the next; what is in of is the index of a node */
    struct dli_map_replica replica[DLI_CLUSTER_REPLICAS];
    struct dli_survey *surveys;
    int surveys_shut;
    char channel[DLI_OWN_CHANNEL_MAX];
    int wanted;                                    /* atomic: grants are to be heard */
    enum { LINE_UNTOLD, LINE_UP, LINE_DOWN } line; /* lane 0's: what the hooks were told */
};

struct dli_survey;

/* A request on its way, see route.c. */
struct dli_route {
    struct dli_job job; /* first */
    struct dli_lane *lane;
    struct dli_node *node;      /* where it is, or was last */
    struct dli_node *ask;       /* where it goes this once, by ASK */
    struct dli_redirect turned; /* carried: what came back */
    int carried, redirects, rests;
    int over;   /* its end is being told */
    int firm;   /* it rests until at, whatever the map says meanwhile */
    int64_t at; /* parked: not before; a new version of the map ends it earlier */
    uint32_t version;
    struct dli_route *next;
};

struct dli_lane {
    struct dli_cluster *cluster;
    int index, wake_fd;
    struct dli_txn_lane txns;
    pthread_mutex_t mutex;                  /* guards parked and shut */
    struct dli_route *parked, **parked_end; /* in the order in which they came */
    int shut;
    int64_t parked_at; /* the thread's: when one of them is due */
    uint32_t version;  /* the thread's: of the cluster, when it looked at them last */
    int64_t trimmed;
};

static inline struct dli_cluster *dli_cluster_of(struct dli_store *store)
{
    return DLI_OBJECT(store, struct dli_cluster, store);
}

/* The index of the node that has a slot, or DLI_NOBODY. */
static inline int dli_cluster_owner(const struct dli_cluster *cluster, int slot)
{
    return __atomic_load_n(&cluster->owner[slot], __ATOMIC_ACQUIRE);
}

/* How the channel of a lock is spoken to; plain: it is not in the lock's slot. */
static inline int dli_cluster_form(const struct dli_cluster *cluster, int plain)
{
    return plain ? DLI_FORM_PLAIN : __atomic_load_n(&cluster->form, __ATOMIC_ACQUIRE);
}

/* ---- node.c */

int dli_cluster_count(const struct dli_cluster *cluster); /* of nodes */

/* Lane 0: the node at target, made when there is none; NULL without memory or room. */
struct dli_node *dli_node_get(struct dli_cluster *cluster, const struct dli_target *target);
void dli_node_free(struct dli_node *node); /* its pipes and its ear are gone */

/* The node of the map with this place; NULL: it is not in the map. */
struct dli_node *dli_node_listed(const struct dli_cluster *cluster, const char *host, int port);

/* The owner of a slot, of any when slot < 0; NULL: nobody. */
struct dli_node *dli_node_owner(const struct dli_cluster *cluster, int slot);

/* Connections of a new lane to all nodes there are; mutex held. 0 or -1. And the end of a lane's. */
int dli_node_open_lane(struct dli_node *node, const struct dli_lane *lane);
void dli_node_close_lane(struct dli_node *node, int index);

/* An errand over the lane's pipe, or with replicas that confirm. 0, or -1 when the lane was shut. */
int dli_node_push(struct dli_node *node, int index, struct dli_job *job, int urgent);

/* The lane's thread: a step, and log lines about trouble and its end. */
void dli_node_step(struct dli_node *node, int index, int64_t now);

/* ---- route.c */

struct dli_request *dli_route_new(void);
dlock_status dli_route_push(struct dli_lane *lane, struct dli_request *request, int urgent);
void dli_route_execute(struct dli_lane *lane, struct dli_request *request);

/* The lane's thread: send those whose time has come. */
void dli_route_step(struct dli_lane *lane, int64_t now);
void dli_route_shut(struct dli_lane *lane);

/* ---- refresh.c */

/* Any thread: have a look at who owns what. */
void dli_refresh_want(struct dli_cluster *cluster);

/* Any thread: a node says that a slot is another one's. Who that is; NULL when the map does not have it, and a look is wanted. */
struct dli_node *dli_refresh_moved(struct dli_cluster *cluster, const struct dli_node *from,
                                   const struct dli_redirect *redirect);

/* Lane 0's thread. */
void dli_refresh_step(struct dli_cluster *cluster, int64_t now);
int64_t dli_refresh_alarm(const struct dli_cluster *cluster);
void dli_refresh_end(struct dli_cluster *cluster);

/* ---- provision.c: any thread: DLI_VERB_PROVISION, as the operations of a lane. */
dlock_status dli_provision_push(struct dli_lane *lane, struct dli_request *request);
void dli_provision_execute(struct dli_lane *lane, struct dli_request *request);

/* ---- check.c */

/* Any thread: DLI_VERB_CHECK, as the operations of a lane. */
dlock_status dli_survey_push(struct dli_cluster *cluster, struct dli_request *request);
void dli_survey_execute(struct dli_cluster *cluster, struct dli_request *request);

/* Lane 0's thread. */
void dli_survey_step(struct dli_cluster *cluster, int64_t now);
int64_t dli_survey_alarm(struct dli_cluster *cluster);
int dli_survey_fds(struct dli_cluster *cluster, struct pollfd *fds, int room);
void dli_survey_shut(struct dli_cluster *cluster);

/* ---- subscriptions.c */

void dli_subscriptions_want(struct dli_store *store);
void dli_subscriptions_listen(struct dli_store *store, const struct dli_kind *kind, const struct dli_place *place,
                              const char *owner, int on, int64_t *listeners);
void dli_subscriptions_forget(struct dli_store *store, int64_t *listeners);

/* Lane 0's thread: make the ear of a node; a step of all; after a change of the map; at the end. */
int dli_subscriptions_init(struct dli_node *node, int wake_fd);
void dli_subscriptions_step(struct dli_cluster *cluster, int64_t now);
void dli_subscriptions_remap(struct dli_cluster *cluster);
void dli_subscriptions_end(struct dli_cluster *cluster);

#endif
