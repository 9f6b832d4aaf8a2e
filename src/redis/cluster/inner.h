/*
 * inner.h: what the files of the store on a cluster share.
 *
 *   cluster.c        the table of operations, and the lanes
 *   node.c           one server: its connections
 *   route.c          the route of a request from server to server
 *   move.c           the keys of a lock whose slot moves
 *   refresh.c        which server owns which slot: queried in the background on lane 0, one refresh at a time
 *   subscriptions.c  the subscriptions, on every primary
 *   check.c          checks every server: is it fit to keep locks?
 *   provision.c      marks every slot: its server remembers all locks
 *   txn.c            transactions
 *
 * mutex guards lane, channels, surveys, surveys_shut and reason. While it is held, no mutex is taken but those inside a
 * subscriber or a connect budget. owner, nodes, version, failed, known, form and the counters are atomics. Nodes are
 * made on lane 0's thread, never change their address, and stay until the store is freed. Members that belong to lane
 * 0's thread are marked so; a pipe belongs to its lane's thread.
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
    DLI_CLUSTER_EVER = 250, /* limit: servers that were primaries during a client's life */
    DLI_CHANNEL_ROWS = 256
};

struct dli_cluster;
struct pollfd;

/* A lane's connections to a server. */
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
    struct dli_node_pipe *pipe[DLI_CLUSTER_LANES]; /* NULL where there is no such lane */
    int listed;                                    /* atomic: the map lists it */
    struct dli_listed replicas;                    /* atomics: its replicas, at least owed */
    int owed;                                      /* lane 0's: replicas it had, and is expected to have again */
    int64_t still_until;                           /* atomic: until then it is not asked to move keys, see move.c */
    const char *still;                             /* atomic: why not */
    int guarded;                                   /* atomic: who moves keys to it has to log in */
    struct dli_node *former;                       /* lane 0's: the primary that it followed, or NULL */
    struct dli_subscriber subscriber;              /* lane 0's */
    enum {
        DLI_SUBSCRIPTION_OFF,
        DLI_SUBSCRIPTION_COMING,
        DLI_SUBSCRIPTION_UP,
        DLI_SUBSCRIPTION_DOWN
    } subscription; /* written by lane 0 under mutex */
};

/* A subscribed channel of a lock. */
struct dli_channel {
    struct dli_channel *next;
    int node; /* the node it is subscribed on, or DLI_NOBODY */
    int slot;
    int plain; /* never sharded, whatever the cluster's form is */
    int fresh;
    size_t size;
    char name[];
};

/* A refresh of the map. Lane 0's, except wanted. */
struct dli_refresh {
    uint32_t wanted; /* atomic */
    struct dli_conn *conn;
    struct dli_conn_config config; /* of the queried server */
    struct dli_budget budget;
    int at, tried; /* the current candidate, and how many were tried: nodes of the map, then those of the URL */
    enum { DLI_REFRESH_NONE, DLI_REFRESH_CONNECT, DLI_REFRESH_PROBE, DLI_REFRESH_SHARDS, DLI_REFRESH_SLOTS } stage;
    int64_t not_before, give_up;
    int64_t begun, ended; /* of the last query, and of the last refresh */
    int failing;          /* the last refresh failed, and the log says so */
    int hasty;            /* a candidate gets only a part of the connect timeout */
    int known;            /* refreshes in a row that changed no owner */
    struct dli_cluster_map map;
};

struct dli_cluster {
    struct dli_store store;
    struct dli_conn_config config; /* for all servers, except the target */
    struct dli_reply_room replies;
    int connects_per_second, private_connections;
    struct dli_quarantine quarantine; /* constant; off when longest_ms is 0 */
    int confirm;                      /* constant, see dli_options_replicas */
    int pubsub;                       /* constant, DLI_PUBSUB_... */
    int64_t patience;                 /* for one command, in microseconds */
    struct dli_redis_txns txns;
    int seeds;
    struct dli_target seed[DLI_NODES_MAX];

    pthread_mutex_t mutex;
    struct dli_lane *lane[DLI_CLUSTER_LANES];
    struct dli_channel *channels[DLI_CHANNEL_ROWS];
    dlock_error reason; /* of the last refresh that failed */

    struct dli_node *node[DLI_CLUSTER_EVER];
    int nodes;
    uint8_t owner[DLI_SLOTS];
    uint32_t version; /* futex: number of refreshes that have ended */
    uint32_t failed;  /* the version of the last refresh that failed */
    int known;        /* there is a map */
    int form, probed; /* DLI_FORM_..., what servers and pubsub allow; lane 0's: form is known */
    int64_t commands, reloads;

    struct dli_refresh refresh;
    int replicas; /* lane 0's, like replica; replica[i].of is the index of a node or DLI_NOBODY */
    struct dli_map_replica replica[DLI_CLUSTER_REPLICAS];
    struct dli_survey *surveys;
    int surveys_shut;
    struct dli_ears ears;                           /* while there is a lane 0 */
    int wanted;                                     /* atomic: somebody wants the messages of grants */
    enum { LINE_UNKNOWN, LINE_UP, LINE_DOWN } line; /* lane 0's: what the hooks last reported */
};

struct dli_survey;

/* A request on its route, see route.c. */
struct dli_route {
    struct dli_job job; /* first */
    struct dli_lane *lane;
    struct dli_node *node;      /* the server it is at, or was at last */
    struct dli_node *ask_node;  /* ASK: the server for the next attempt only; while keys move, where they go */
    struct dli_redirect turned; /* carried: the redirect that came back */
    int carried, redirects, rests;
    int over;                /* its end is being reported: redirects count no more */
    int firm;                /* it rests until at, even if the map changes */
    int later;               /* the server it was at last asks to try again, and why: see route.c */
    int move;                /* DLI_MOVE_...: the step of moving its keys that is under way, see move.c */
    int moves;               /* how often that began */
    int repeated;            /* the call's, while keys move */
    struct dli_node *source; /* keys move: from where */
    const char *why;         /* NULL, or why its keys stay: the end of a sentence about the new server */
    int all;                 /* a fair lock: it declares its tombstones, too, since the first ASK */
    int64_t at;              /* parked until then; unless firm, a new version of the map ends it earlier */
    uint32_t version;
    struct dli_route *next;
};

struct dli_lane {
    struct dli_cluster *cluster;
    int index, wake_fd;
    struct dli_redis_txn_lane txns;
    pthread_mutex_t mutex;                  /* guards parked and shut */
    struct dli_route *parked, **parked_end; /* in order of arrival */
    int shut;
    int64_t parked_at; /* the thread's: when the first of them is due */
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

/* The form of a lock's channel. plain: the channel is not in the lock's slot, so it is never sharded. */
static inline int dli_cluster_form(const struct dli_cluster *cluster, int plain)
{
    return plain ? DLI_FORM_PLAIN : __atomic_load_n(&cluster->form, __ATOMIC_ACQUIRE);
}

/* ---- node.c */

int dli_cluster_count(const struct dli_cluster *cluster); /* number of nodes */

/* Take the password out of the text of an address that a server has named, unless the URL names that host. */
void dli_target_hide(const struct dli_cluster *cluster, struct dli_target *target);

/* Lane 0's thread: the node at target, made when there is none. NULL without memory, or at DLI_CLUSTER_EVER nodes. */
struct dli_node *dli_node_get(struct dli_cluster *cluster, const struct dli_target *target);
void dli_node_free(struct dli_node *node); /* and its pipes and its subscriber */

/* The node with this address, or NULL when the map does not list it. */
struct dli_node *dli_node_listed(const struct dli_cluster *cluster, const char *host, int port);

/* The owner of a slot, or of any slot when slot < 0. NULL: unknown. */
struct dli_node *dli_node_owner(const struct dli_cluster *cluster, int slot);

/*
 * Make the connections of a lane to a node: 0, or -1 without memory. And free them. mutex is held while others use the
 * node.
 */
int dli_node_open_lane(struct dli_node *node, const struct dli_lane *lane);
void dli_node_close_lane(struct dli_node *node, int index);

/* Any thread: push a job into the lane's pipe, or to the connections with WAIT. 0, or -1 when the lane is shut. */
int dli_node_push(struct dli_node *node, int index, struct dli_job *job, int urgent);

/* The lane's thread: a step, and log lines about a failure and its end. */
void dli_node_step(struct dli_node *node, int index, int64_t now);

/* ---- route.c */

struct dli_request *dli_route_new(void);
dlock_status dli_route_push(struct dli_lane *lane, struct dli_request *request, int urgent);
void dli_route_execute(struct dli_lane *lane, struct dli_request *request);

/* The lane's thread: send the parked requests that are due. */
void dli_route_step(struct dli_lane *lane, int64_t now);
void dli_route_shut(struct dli_lane *lane);

/* ---- move.c, for the one who has the route */

enum {
    DLI_MOVE_NONE,
    DLI_MOVE_PROBE,
    DLI_MOVE_SECURE,
    DLI_MOVE_KNOCK,
    DLI_MOVE_LOOK,
    DLI_MOVE_MIGRATE,
    DLI_MOVE_DONE, /* the keys have moved: send the request again */
    DLI_MOVE_STUCK /* they stay */
};

/* The route's server refused it because its slot moves. 1: the call has the first command that moves its keys. 0: they stay. */
int dli_move_begin(struct dli_route *route);

/* The answer to that command, or NULL: there is none. The call has the next command, or route->move says how it ended. */
void dli_move_turn(struct dli_route *route, const struct dli_reply *reply);

/* ---- refresh.c */

/* Any thread: request a refresh of the map. */
void dli_refresh_want(struct dli_cluster *cluster);

/*
 * Any thread: the node from redirects a slot. Returns the node that the redirect names, or NULL when the map does not
 * list it. MOVED changes the owner in the map. A refresh is requested after MOVED, and when NULL is returned.
 */
struct dli_node *dli_refresh_moved(struct dli_cluster *cluster, const struct dli_node *from,
                                   const struct dli_redirect *redirect);

/* Lane 0's thread. */
void dli_refresh_step(struct dli_cluster *cluster, int64_t now);
int64_t dli_refresh_alarm(const struct dli_cluster *cluster);
void dli_refresh_end(struct dli_cluster *cluster);

/* ---- provision.c: any thread: DLI_VERB_PROVISION, as push and execute of a lane. */
dlock_status dli_provision_push(struct dli_lane *lane, struct dli_request *request);
void dli_provision_execute(struct dli_lane *lane, struct dli_request *request);

/* ---- check.c */

/* Any thread: DLI_VERB_CHECK, as push and execute of a lane. */
dlock_status dli_survey_push(struct dli_cluster *cluster, struct dli_request *request);
void dli_survey_execute(struct dli_cluster *cluster, struct dli_request *request);

/* Lane 0's thread. */
void dli_survey_step(struct dli_cluster *cluster, int64_t now);
int64_t dli_survey_alarm(struct dli_cluster *cluster);
int dli_survey_fds(struct dli_cluster *cluster, struct pollfd *fds, int room);
void dli_survey_shut(struct dli_cluster *cluster);

/* ---- subscriptions.c */

void dli_subscriptions_want(struct dli_store *store, const struct dli_place *place);
void dli_subscriptions_subscribe(struct dli_store *store, const struct dli_kind *kind, const struct dli_place *place,
                                 const char *owner, int on, int64_t *listeners);
void dli_subscriptions_forget(struct dli_store *store, int64_t *listeners);

/* Lane 0's thread: make a node's subscriber; step all of them; apply a changed map; free all rows. */
int dli_subscriptions_init(struct dli_node *node, int wake_fd);
void dli_subscriptions_step(struct dli_cluster *cluster, int64_t now);
void dli_subscriptions_remap(struct dli_cluster *cluster);
void dli_subscriptions_end(struct dli_cluster *cluster);

/* ---- txn.c */
struct dli_txn *dli_cluster_txn_new(struct dli_store *store);

#endif
