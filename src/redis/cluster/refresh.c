/*
 * refresh.c: refreshes the map: which server owns which slot. Lane 0 queries one server after the other until one
 * answers. However many callers want a refresh, one runs at a time, and the next one starts PAUSE microseconds later.
 * Mutexes: see inner.h.
 *
 * The client connects only to addresses that the URL or a server of the cluster names. A redirect to any other address
 * is not followed, but causes a refresh.
 *
 * The server that answered is queried first the next time. After KNOWN_MOST refreshes without news the next server gets
 * its turn: a server that is cut off from the cluster does not learn of new owners.
 *
 * With replicas=all the map is refreshed every ten seconds, too: replicas come, and are forgotten.
 */
#include "inner.h"

#include <limits.h>
#include <string.h>

#include "sys/sys.h"

enum { PAUSE = 50000, HASTE = 4, KNOWN_MOST = 3, CENSUS = 10000000 };

/* ---- any thread */

void dli_refresh_want(struct dli_cluster *cluster)
{
    struct dli_lane *lane;

    if (__atomic_exchange_n(&cluster->refresh.wanted, 1, __ATOMIC_ACQ_REL))
        return;
    pthread_mutex_lock(&cluster->mutex);
    if ((lane = cluster->lane[0]))
        dli_wake_set(lane->wake_fd);
    pthread_mutex_unlock(&cluster->mutex);
}

struct dli_node *dli_refresh_moved(struct dli_cluster *cluster, const struct dli_node *from,
                                   const struct dli_redirect *redirect)
{
    const char *host = redirect->host[0] ? redirect->host : from->config.target.host;
    struct dli_node *node = dli_node_listed(cluster, host, redirect->port);

    if (redirect->kind == DLI_REDIRECT_MOVED) {
        if (node)
            __atomic_store_n(&cluster->owner[redirect->slot], (uint8_t)node->index, __ATOMIC_RELEASE);
        dli_refresh_want(cluster);
    } else if (!node) {
        dli_refresh_want(cluster);
    }
    return node;
}

/* ---- the end of a refresh */

/* Wake all that wait for the end of a refresh. */
static void wake_waiters(struct dli_cluster *cluster)
{
    __atomic_add_fetch(&cluster->version, 1, __ATOMIC_ACQ_REL);
    dli_futex_wake(&cluster->version, INT_MAX);
    pthread_mutex_lock(&cluster->mutex);
    for (int i = 0; i < DLI_CLUSTER_LANES; i++)
        if (cluster->lane[i])
            dli_wake_set(cluster->lane[i]->wake_fd);
    pthread_mutex_unlock(&cluster->mutex);
}

static void stop(struct dli_refresh *refresh, int64_t now)
{
    dli_conn_free(refresh->conn);
    refresh->conn = NULL;
    refresh->stage = DLI_REFRESH_NONE;
    refresh->not_before = now + PAUSE;
    refresh->ended = now;
}

/* The node was a replica and was promoted: its former primary. Else NULL. */
static struct dli_node *before_failover(const struct dli_cluster *cluster, const struct dli_node *node)
{
    for (int i = 0; i < cluster->replicas; i++) {
        const struct dli_map_replica *replica = &cluster->replica[i];

        if (replica->of != DLI_NOBODY && replica->of != node->index && replica->port == node->config.target.port &&
            strcmp(replica->host, node->config.target.host) == 0)
            return cluster->node[replica->of];
    }
    return NULL;
}

/* Whether the map has the server, in whatever role. */
static int is_in(const struct dli_cluster_map *map, const struct dli_target *target)
{
    for (int i = 0; i < map->count; i++)
        if (map->node[i].port == target->port && strcmp(map->node[i].host, target->host) == 0)
            return 1;
    for (int i = 0; i < map->replicas; i++)
        if (map->replica[i].port == target->port && strcmp(map->replica[i].host, target->host) == 0)
            return 1;
    return 0;
}

/*
 * A replica counts until the cluster forgets it. After a failover the former primary counts as a missing replica until
 * it, or another one, is there, or the cluster has forgotten it: it may be promoted again. CLUSTER SLOTS does not list
 * replicas that are down: with it the number never falls.
 */
static void adopt_replicas(struct dli_cluster *cluster, const struct dli_cluster_map *map, const uint8_t *index)
{
    for (int i = 0; i < map->count; i++) {
        struct dli_node *node = cluster->node[index[i]];
        struct dli_node *former = before_failover(cluster, node);
        int before = former ? former->replicas.count : 0, count = 0;

        for (int j = 0; j < map->replicas; j++)
            count += map->replica[j].of == i;
        if (cluster->refresh.stage == DLI_REFRESH_SLOTS && node->replicas.count > before)
            before = node->replicas.count;
        node->former = former ? former : node->former;
        if (cluster->refresh.stage == DLI_REFRESH_SHARDS && node->former && !is_in(map, &node->former->config.target))
            node->owed = before = 0;
        node->owed = before > node->owed ? before : node->owed;
        node->owed = count >= node->owed ? 0 : node->owed;
        __atomic_store_n(&node->replicas.count, count > node->owed ? count : node->owed, __ATOMIC_RELAXED);
        __atomic_store_n(&node->replicas.at, cluster->refresh.begun, __ATOMIC_RELAXED);
    }
    cluster->replicas = map->replicas;
    memcpy(cluster->replica, map->replica, sizeof map->replica);
    for (int i = 0; i < map->replicas; i++)
        cluster->replica[i].of = index[map->replica[i].of];
}

static void adopt_owners(struct dli_cluster *cluster, const struct dli_cluster_map *map, const uint8_t *index)
{
    struct dli_refresh *refresh = &cluster->refresh;

    refresh->known++;
    for (int slot = 0; slot < DLI_SLOTS; slot++) {
        uint8_t owner = index[map->owner[slot]];

        if (__atomic_exchange_n(&cluster->owner[slot], owner, __ATOMIC_ACQ_REL) != owner)
            refresh->known = 0;
    }
    if (refresh->known < KNOWN_MOST)
        return;
    refresh->known = 0;
    refresh->at++;
}

/* Take nodes and owners from the map. 0, or -1 without memory or room for a node. */
static int adopt(struct dli_cluster *cluster, const struct dli_cluster_map *map)
{
    uint8_t index[DLI_NOBODY + 1];
    int count;

    memset(index, DLI_NOBODY, sizeof index);
    for (int i = 0; i < map->count; i++) {
        struct dli_node *node = dli_node_get(cluster, &map->node[i]);

        if (!node)
            return -1;
        index[i] = (uint8_t)node->index;
    }
    count = dli_cluster_count(cluster);
    for (int i = 0; i < count; i++)
        __atomic_store_n(&cluster->node[i]->listed, memchr(index, i, (size_t)map->count) != NULL, __ATOMIC_RELEASE);
    adopt_owners(cluster, map, index);
    adopt_replicas(cluster, map, index);
    return 0;
}

static void succeed(struct dli_cluster *cluster, int64_t now)
{
    struct dli_refresh *refresh = &cluster->refresh;

    stop(refresh, now);
    refresh->failing = 0;
    __atomic_store_n(&cluster->known, 1, __ATOMIC_RELEASE);
    wake_waiters(cluster);
    dli_subscriptions_remap(cluster);
}

/* The refresh has failed. The log gets the first of several failures in a row. */
static void fail(struct dli_cluster *cluster, const dlock_error *reason, int64_t now)
{
    struct dli_store *store = &cluster->store;
    struct dli_refresh *refresh = &cluster->refresh;

    stop(refresh, now);
    refresh->hasty = 0;
    pthread_mutex_lock(&cluster->mutex);
    cluster->reason = *reason;
    __atomic_store_n(&cluster->failed, cluster->version + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&cluster->mutex);
    if (!refresh->failing)
        store->hooks->log(store->owner, reason->code, reason->message);
    refresh->failing = 1;
    wake_waiters(cluster);
}

/* ---- one server after the other */

/* The servers that may be queried: listed nodes, then those of the URL. NULL: no more. */
static const struct dli_target *candidate(const struct dli_cluster *cluster, int number)
{
    int count = dli_cluster_count(cluster);

    for (int i = 0; i < count; i++)
        if (cluster->node[i]->listed && number-- == 0)
            return &cluster->node[i]->config.target;
    return number < cluster->seeds ? &cluster->seed[number] : NULL;
}

static int candidates(const struct dli_cluster *cluster)
{
    int count = 0;

    while (candidate(cluster, count))
        count++;
    return count;
}

static void query_next(struct dli_cluster *cluster, int64_t now)
{
    struct dli_refresh *refresh = &cluster->refresh;
    dlock_error reason = {.code = DLOCK_OUT_OF_MEMORY, .message = "no memory for a connection"};
    int count = candidates(cluster);

    if (refresh->conn)
        reason = refresh->conn->reason;
    dli_conn_free(refresh->conn);
    refresh->conn = NULL;
    if (refresh->tried >= count) {
        fail(cluster, &reason, now);
        return;
    }
    refresh->at = count > 0 ? (refresh->at + (refresh->tried > 0)) % count : 0;
    refresh->tried++;
    refresh->begun = now;
    refresh->config = cluster->config;
    refresh->config.target = *candidate(cluster, refresh->at);
    refresh->stage = DLI_REFRESH_CONNECT;
    refresh->give_up = now + refresh->config.connect_timeout / (refresh->hasty && count > 1 ? HASTE : 1);
    if ((refresh->conn = dli_conn_new(&refresh->config)))
        dli_conn_start(refresh->conn, now);
    else
        fail(cluster, &reason, now);
}

static void say(struct dli_refresh *refresh, const char *verb, const char *word)
{
    const char *const words[] = {verb, word};

    if (dli_conn_quiet(refresh->conn) && dli_encode_args(&refresh->conn->out, 2, words)) {
        dli_fail(&refresh->conn->reason, DLOCK_OUT_OF_MEMORY, "no memory for a command");
        refresh->conn->state = DLI_CONN_FAILED;
    }
}

static void begin_questions(struct dli_cluster *cluster)
{
    struct dli_refresh *refresh = &cluster->refresh;

    refresh->stage = cluster->probed ? DLI_REFRESH_SHARDS : DLI_REFRESH_PROBE;
    if (!cluster->probed)
        say(refresh, "PUBSUB", "SHARDNUMSUB");
    say(refresh, "CLUSTER", "SHARDS");
}

static void refuse(struct dli_refresh *refresh, dlock_status status, const char *what, const struct dli_reply *reply)
{
    char shown[200];

    dli_fail(&refresh->conn->reason, status, "The server %s %s%s%s.", refresh->config.target.text, what,
             reply ? ": " : "",
             reply && reply->type == DLI_REPLY_ERROR ? dli_escape_error(shown, sizeof shown, reply) : "");
    refresh->conn->state = DLI_CONN_FAILED;
}

/* A server with SHARDNUMSUB has sharded channels. Redisson uses the same test. */
static void judge_probe(struct dli_cluster *cluster, const struct dli_reply *reply)
{
    dlock_status status = reply->type == DLI_REPLY_ERROR ? dli_error_status(reply) : DLOCK_OK;
    int form = cluster->pubsub == DLI_PUBSUB_BOTH ? DLI_FORM_BOTH : DLI_FORM_SHARDED;

    if (status == DLOCK_DENIED) {
        refuse(&cluster->refresh, status, "does not let us see whether it has sharded channels", reply);
        return;
    }
    __atomic_store_n(&cluster->form, reply->type == DLI_REPLY_ARRAY ? form : DLI_FORM_PLAIN, __ATOMIC_RELEASE);
    cluster->refresh.stage = DLI_REFRESH_SHARDS;
}

/* 1: the map is known. */
static int judge_map(struct dli_cluster *cluster, const struct dli_reply *reply)
{
    struct dli_refresh *refresh = &cluster->refresh;
    dlock_error reason = {.code = DLOCK_OK};

    if (reply->type == DLI_REPLY_ERROR && strstr(reply->text, "cluster support disabled")) {
        refuse(refresh, DLOCK_WRONG_SETUP, "is not one of a cluster: the URL must begin with redis:// or rediss://",
               NULL);
    } else if (reply->type == DLI_REPLY_ERROR && refresh->stage == DLI_REFRESH_SHARDS) {
        refresh->stage = DLI_REFRESH_SLOTS; /* before 7.0 */
        say(refresh, "CLUSTER", "SLOTS");
    } else if (reply->type == DLI_REPLY_ERROR) {
        refuse(refresh, dli_error_status(reply), "does not describe its cluster", reply);
    } else if ((refresh->stage == DLI_REFRESH_SHARDS ? dli_cluster_read_shards : dli_cluster_read_slots)(
                   &refresh->map, reply, &refresh->config.target, &reason) != DLOCK_OK) {
        refuse(refresh, reason.code, reason.message, NULL);
    } else if (refresh->map.count == 0) {
        refuse(refresh, DLOCK_SERVER_LOADING, "knows no server of its cluster that has slots", NULL);
    } else if (adopt(cluster, &refresh->map)) {
        refuse(refresh, DLOCK_OUT_OF_MEMORY, "describes more servers than there is memory or room for", NULL);
    } else {
        return 1;
    }
    return 0;
}

/* 1: the map is known. */
static int exchange_commands(struct dli_cluster *cluster)
{
    struct dli_refresh *refresh = &cluster->refresh;
    const struct dli_reply *reply;

    if (refresh->stage == DLI_REFRESH_CONNECT)
        begin_questions(cluster);
    dli_conn_flush(refresh->conn);
    while (dli_conn_receive(refresh->conn) > 0) {
        while (refresh->conn->state == DLI_CONN_READY && dli_conn_next(refresh->conn, &reply) == 1) {
            if (refresh->stage == DLI_REFRESH_PROBE)
                judge_probe(cluster, reply);
            else if (judge_map(cluster, reply))
                return 1;
        }
        dli_conn_flush(refresh->conn);
    }
    return 0;
}

/* 1: the next server is queried, and may be ready already. */
static int go_on(struct dli_cluster *cluster, int64_t now)
{
    struct dli_refresh *refresh = &cluster->refresh;

    if (dli_conn_under_way(refresh->conn))
        dli_conn_step(refresh->conn, now);
    if (refresh->stage == DLI_REFRESH_CONNECT && refresh->conn->state == DLI_CONN_READY)
        dli_budget_result(&refresh->budget, 1, now);
    else if (refresh->stage == DLI_REFRESH_CONNECT && !dli_conn_under_way(refresh->conn))
        dli_budget_failed(&refresh->budget, &refresh->conn->reason, now);
    if (refresh->conn->state == DLI_CONN_READY && exchange_commands(cluster)) {
        cluster->probed = 1;
        refresh->hasty = 1;
        succeed(cluster, now);
        return 0;
    }
    if (refresh->conn->state != DLI_CONN_FAILED && now >= refresh->give_up)
        refuse(refresh, DLOCK_UNREACHABLE, "did not describe the slots in time", NULL);
    if (refresh->conn->state != DLI_CONN_FAILED)
        return 0;
    query_next(cluster, now);
    return refresh->conn != NULL;
}

/* When replicas are to be counted again. */
static int64_t census_at(const struct dli_cluster *cluster)
{
    return cluster->confirm < 0 && cluster->known ? cluster->refresh.ended + CENSUS : INT64_MAX;
}

void dli_refresh_step(struct dli_cluster *cluster, int64_t now)
{
    struct dli_refresh *refresh = &cluster->refresh;
    dlock_error reason;
    int64_t later;

    if (refresh->conn) {
        while (go_on(cluster, now))
            continue;
        return;
    }
    if (now >= census_at(cluster))
        __atomic_store_n(&refresh->wanted, 1, __ATOMIC_RELEASE);
    if (!__atomic_load_n(&refresh->wanted, __ATOMIC_ACQUIRE) || now < refresh->not_before)
        return;
    later = dli_budget_take(&refresh->budget, now);
    if (later && !dli_budget_refused(&refresh->budget, &reason, now)) {
        refresh->not_before = later;
        return;
    }
    __atomic_store_n(&refresh->wanted, 0, __ATOMIC_RELEASE);
    if (later) {
        fail(cluster, &reason, now);
        return;
    }
    refresh->tried = 0;
    query_next(cluster, now);
    while (refresh->conn && go_on(cluster, now))
        continue;
}

int64_t dli_refresh_alarm(const struct dli_cluster *cluster)
{
    const struct dli_refresh *refresh = &cluster->refresh;

    if (!refresh->conn)
        return __atomic_load_n(&refresh->wanted, __ATOMIC_ACQUIRE) ? refresh->not_before : census_at(cluster);
    if (dli_conn_under_way(refresh->conn) && refresh->conn->deadline < refresh->give_up)
        return refresh->conn->deadline;
    return refresh->give_up;
}

void dli_refresh_end(struct dli_cluster *cluster)
{
    dli_conn_free(cluster->refresh.conn);
    cluster->refresh.conn = NULL;
}
