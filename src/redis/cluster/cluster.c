/*
 * cluster.c: the store on a Redis Cluster: its table of operations, and its lanes. Mutexes: see inner.h.
 */
#include "inner.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "sys/sys.h"
#include "redis/link/link.h"

enum { MS = 1000, RENEWALS = 16, PROVISION_TURNS = 30 };

/* ---- places and requests */

/*
 * One channel of Redisson's is not in its lock's slot: that of a latch with braces in its name. It is a plain channel.
 */
static struct dli_place *place_new(struct dli_store *store, const struct dli_kind *kind, const char *name, size_t size)
{
    struct dli_place *place = dli_place_new(kind, name, size);
    char channel[DLI_CHANNEL_MAX];

    if (!place)
        return NULL;
    place->slot = (int16_t)dli_slot_of(name, size);
    place->plain = dli_slot_of(channel, dli_pattern(channel, dli_wire_at(place->wire)->channel, place)) != place->slot;
    place->marked = dli_cluster_of(store)->quarantine.longest_ms > 0;
    return place;
}

static struct dli_request *request_new(struct dli_store *store)
{
    struct dli_request *request = dli_route_new();

    if (request && dli_cluster_of(store)->quarantine.longest_ms > 0)
        request->quarantine = &dli_cluster_of(store)->quarantine;
    return request;
}

/* With a quarantine, locks of several namespaces share no request: each namespace has a marker of its own. */
static uint32_t shard(const struct dli_store *store, const struct dli_place *place)
{
    const struct dli_cluster *cluster = (const struct dli_cluster *)(const void *)store; /* its first member */

    return (uint32_t)place->slot ^ (cluster->quarantine.longest_ms > 0 ? dli_place_space(place) : 0);
}

static uint32_t server(const struct dli_store *store, const struct dli_place *place)
{
    const struct dli_cluster *cluster = (const struct dli_cluster *)(const void *)store; /* its first member */

    return (uint32_t)dli_cluster_owner(cluster, place->slot);
}

/* A server is named by its first slot. While slots move, some may be named twice or not. */
static int next_server(struct dli_store *store, int server)
{
    const struct dli_cluster *cluster = dli_cluster_of(store);

    if (server < 0)
        return 0;
    for (int slot = server + 1; slot < DLI_SLOTS; slot++) {
        int owner = dli_cluster_owner(cluster, slot), first = 0;

        while (first < slot && dli_cluster_owner(cluster, first) != owner)
            first++;
        if (first == slot && owner != DLI_NOBODY)
            return slot;
    }
    return -1;
}

/* ---- lanes */

static int join(struct dli_cluster *cluster, struct dli_lane *lane)
{
    int failed = 0;

    pthread_mutex_lock(&cluster->mutex);
    cluster->lane[lane->index] = lane;
    for (int i = 0; i < dli_cluster_count(cluster) && !failed; i++)
        failed = dli_node_open_lane(cluster->node[i], lane);
    pthread_mutex_unlock(&cluster->mutex);
    return failed;
}

static void lane_free(struct dli_lane *lane)
{
    struct dli_cluster *cluster;

    if (!lane)
        return;
    cluster = lane->cluster;
    pthread_mutex_lock(&cluster->mutex);
    cluster->lane[lane->index] = NULL;
    for (int i = 0; i < dli_cluster_count(cluster); i++)
        dli_node_close_lane(cluster->node[i], lane->index);
    pthread_mutex_unlock(&cluster->mutex);
    if (lane->index == 0) {
        dli_refresh_end(cluster);
        dli_ears_fini(&cluster->ears);
    }
    dli_redis_txn_lane_fini(&lane->txns);
    pthread_mutex_destroy(&lane->mutex);
    free(lane);
}

static struct dli_lane *lane_new(struct dli_store *store, int index, int wake_fd)
{
    struct dli_cluster *cluster = dli_cluster_of(store);
    struct dli_lane *lane = calloc(1, sizeof *lane);

    if (!lane)
        return NULL;
    lane->cluster = cluster;
    lane->index = index;
    lane->wake_fd = wake_fd;
    lane->parked_at = INT64_MAX;
    lane->parked_end = &lane->parked;
    lane->trimmed = dli_now();
    pthread_mutex_init(&lane->mutex, NULL);
    dli_redis_txn_lane_init(&lane->txns, &cluster->txns, index, wake_fd);
    if (index == 0)
        dli_ears_init(&cluster->ears, store->uuid);
    if (join(cluster, lane) == 0)
        return lane;
    lane_free(lane);
    return NULL;
}

static dlock_status push(struct dli_lane *lane, struct dli_request *request)
{
    if (request->verb == DLI_VERB_CHECK)
        return dli_survey_push(lane->cluster, request);
    if (request->verb == DLI_VERB_PROVISION)
        return dli_provision_push(lane, request);
    return dli_route_push(lane, request, 0);
}

static dlock_status push_urgent(struct dli_lane *lane, struct dli_request *request)
{
    return dli_route_push(lane, request, 1);
}

static void execute(struct dli_lane *lane, struct dli_request *request)
{
    if (request->verb == DLI_VERB_CHECK)
        dli_survey_execute(lane->cluster, request);
    else if (request->verb == DLI_VERB_PROVISION)
        dli_provision_execute(lane, request);
    else
        dli_route_execute(lane, request);
}

static void trim(struct dli_lane *lane, int64_t now)
{
    struct dli_cluster *cluster = lane->cluster;

    if (now - lane->trimmed <= DLI_PRIVATE_TRIM)
        return;
    for (int i = 0; i < cluster->nodes; i++) {
        struct dli_node *node = cluster->node[i];

        dli_private_trim(&node->pool, now - DLI_PRIVATE_TRIM, !dli_pipe_ready(&node->pipe[lane->index]->pipe));
    }
    lane->trimmed = now;
}

static void step(struct dli_lane *lane, int64_t now)
{
    struct dli_cluster *cluster = lane->cluster;
    int count = dli_cluster_count(cluster);

    dli_route_step(lane, now);
    for (int i = 0; i < count; i++)
        dli_node_step(cluster->node[i], lane->index, now);
    dli_redis_txn_lane_step(&lane->txns, dli_now());
    if (lane->index > 0)
        return;
    dli_refresh_step(cluster, dli_now());
    dli_survey_step(cluster, dli_now());
    dli_subscriptions_step(cluster, dli_now());
    trim(lane, now);
}

static int64_t sooner(int64_t at, int64_t other)
{
    return other < at ? other : at;
}

static int64_t alarm_at(const struct dli_lane *lane)
{
    struct dli_cluster *cluster = lane->cluster;
    int64_t at = sooner(lane->parked_at, dli_redis_txn_lane_alarm(&lane->txns));
    int count = dli_cluster_count(cluster);

    for (int i = 0; i < count; i++) {
        const struct dli_node *node = cluster->node[i];

        at = sooner(at, dli_pipe_alarm(&node->pipe[lane->index]->pipe));
        at = sooner(at, dli_replicas_alarm(&node->pipe[lane->index]->replicas));
        if (lane->index == 0)
            at = sooner(at, dli_private_alarm(&node->pool, lane->trimmed));
        if (lane->index == 0 && node->subscription != DLI_SUBSCRIPTION_OFF)
            at = sooner(at, dli_subscriber_alarm(&node->subscriber));
    }
    return lane->index == 0 ? sooner(at, sooner(dli_refresh_alarm(cluster), dli_survey_alarm(cluster))) : at;
}

static int watch(struct pollfd *fds, int count, const struct dli_conn *conn)
{
    if (!conn || conn->fd < 0)
        return count;
    fds[count] = dli_conn_poll(conn);
    return count + 1;
}

static int lane_sleep(struct dli_lane *lane, struct pollfd *fds)
{
    struct dli_cluster *cluster = lane->cluster;
    int nodes = dli_cluster_count(cluster), count = dli_redis_txn_lane_fds(&lane->txns, fds), news = 0;

    for (int i = 0; i < nodes; i++) {
        struct dli_pipe *pipe = &cluster->node[i]->pipe[lane->index]->pipe;

        count = watch(fds, count, pipe->conn);
        count += dli_replicas_fds(&cluster->node[i]->pipe[lane->index]->replicas, fds + count);
        if (lane->index == 0)
            count = watch(fds, count, cluster->node[i]->subscriber.conn);
        __atomic_store_n(&pipe->sleeping, 1, __ATOMIC_SEQ_CST);
        news |= __atomic_load_n(&pipe->pushed, __ATOMIC_SEQ_CST) != NULL;
    }
    if (lane->index == 0)
        count = watch(fds, count, cluster->refresh.conn);
    if (lane->index == 0)
        count += dli_survey_fds(cluster, fds + count, DLI_LANE_FDS - count);
    return news ? -1 : count;
}

static void awake(struct dli_lane *lane)
{
    int count = dli_cluster_count(lane->cluster);

    for (int i = 0; i < count; i++)
        __atomic_store_n(&lane->cluster->node[i]->pipe[lane->index]->pipe.sleeping, 0, __ATOMIC_SEQ_CST);
}

static void shut(struct dli_lane *lane)
{
    struct dli_cluster *cluster = lane->cluster;
    int count = dli_cluster_count(cluster);

    dli_route_shut(lane);
    for (int i = 0; i < count; i++) {
        dli_pipe_shut(&cluster->node[i]->pipe[lane->index]->pipe);
        if (lane->index == 0)
            dli_subscriber_disconnect(&cluster->node[i]->subscriber);
        dli_replicas_shut(&cluster->node[i]->pipe[lane->index]->replicas);
        dli_private_shut(&cluster->node[i]->pool);
    }
    dli_redis_txn_lane_shut(&lane->txns);
    if (lane->index == 0)
        dli_survey_shut(cluster);
}

/* ---- the store */

static void stats(struct dli_store *store, int64_t *all)
{
    struct dli_cluster *cluster = dli_cluster_of(store);
    int64_t *connects = &all[DLOCK_STAT_CONNECTS], *failures = &all[DLOCK_STAT_CONNECT_FAILURES];
    int count = dli_cluster_count(cluster);

    all[DLOCK_STAT_COMMANDS] += __atomic_load_n(&cluster->commands, __ATOMIC_RELAXED);
    all[DLOCK_STAT_SCRIPT_RELOADS] += __atomic_load_n(&cluster->reloads, __ATOMIC_RELAXED);
    dli_budget_count(&cluster->refresh.budget, connects, failures);
    for (int i = 0; i < count; i++)
        dli_budget_count(&cluster->node[i]->budget, connects, failures);
}

static void store_free(struct dli_store *store)
{
    struct dli_cluster *cluster = dli_cluster_of(store);

    for (int i = 0; i < cluster->nodes; i++)
        dli_node_free(cluster->node[i]);
    dli_subscriptions_end(cluster);
    dli_tls_free(cluster->config.tls);
    dli_budget_fini(&cluster->refresh.budget);
    dli_redis_txns_fini(&cluster->txns);
    pthread_mutex_destroy(&cluster->mutex);
    free(cluster);
}

static const struct dli_store_ops ops = {
    .free = store_free,
    .stats = stats,
    .place_new = place_new,
    .place_in = dli_place_in,
    .place_free = dli_place_free,
    .place_name = dli_place_name,
    .request_new = request_new,
    .request_free = dli_job_free,
    .server = server,
    .shard = shard,
    .next_server = next_server,
    .lane_new = lane_new,
    .lane_free = lane_free,
    .push = push,
    .execute = execute,
    .want = dli_subscriptions_want,
    .subscribe = dli_subscriptions_subscribe,
    .forget = dli_subscriptions_forget,
    .push_urgent = push_urgent,
    .txn_new = dli_cluster_txn_new,
    .step = step,
    .alarm = alarm_at,
    .sleep = lane_sleep,
    .awake = awake,
    .shut = shut,
};

dlock_status dli_cluster_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                              dlock_error *box)
{
    struct dli_cluster *cluster;
    dlock_status status;

    if (options->number[DLI_OPT_DB] != 0)
        return dli_fail(box, DLOCK_INVALID_OPTION, "The option db must be 0: a cluster has one database.");
    if (!(cluster = calloc(1, sizeof *cluster)))
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a client");
    dli_open_configure(&cluster->config, options, &site->target);
    cluster->replies.most = DLI_REPLY_SHARED;
    cluster->config.replies = &cluster->replies;
    if ((status = dli_open_reach(&cluster->config, options, site, box)) != DLOCK_OK) {
        free(cluster);
        return status;
    }
    pthread_mutex_init(&cluster->mutex, NULL);
    memset(cluster->owner, DLI_NOBODY, sizeof cluster->owner);
    dli_redis_txns_init(&cluster->txns);
    cluster->seeds = site->count;
    memcpy(cluster->seed, site->node, sizeof cluster->seed);
    cluster->connects_per_second = (int)options->number[DLI_OPT_CONNECTS_PER_SECOND];
    cluster->private_connections = (int)options->number[DLI_OPT_PRIVATE_CONNECTIONS];
    dli_quarantine_init(&cluster->quarantine, dli_options_text(options, DLI_OPT_NAMESPACE),
                        options->number[DLI_OPT_QUARANTINE_MS], options->number[DLI_OPT_DRIFT_PPM]);
    cluster->confirm = dli_options_replicas(options);
    cluster->pubsub = dli_options_pubsub(options);
    cluster->probed = cluster->pubsub == DLI_PUBSUB_PLAIN;
    cluster->patience = options->number[DLI_OPT_COMMAND_TIMEOUT_MS] * MS;
    cluster->store.provision_time = PROVISION_TURNS * cluster->patience;
    dli_budget_init(&cluster->refresh.budget, cluster->connects_per_second, (uint64_t)dli_now());
    cluster->store.ops = &ops;
    cluster->store.traits = &dli_redis_traits;
    cluster->store.text = cluster->config.target.text;
    cluster->store.renewals = RENEWALS;
    cluster->store.connect_time = cluster->config.connect_timeout;
    *ret = &cluster->store;
    return DLOCK_OK;
}
