/*
 * refresh.c: who owns which slot, by the word of one server after the other until one answers. Driven by lane 0; however
 * many ask for it, one look is under way at a time, and the next one begins a moment later.
 *
 * Servers are only ever reached at places that the URL or a server of the cluster names: a redirect to any other place is
 * not followed, but makes us look.
 *
 * Who answered is asked first the next time, but not for ever when it tells nothing new: a server that is cut off from the cluster
 * does not learn who owns what now.
 */
#include "inner.h"

#include <limits.h>
#include <string.h>

#include "sys/sys.h"

enum { PAUSE = 50000, HASTE = 4, KNOWN_MOST = 3 };

/* ---- any thread */

void dli_look_want(struct dli_cluster *cluster)
{
    struct dli_lane *lane;

    if (__atomic_exchange_n(&cluster->look.wanted, 1, __ATOMIC_ACQ_REL))
        return;
    pthread_mutex_lock(&cluster->mutex);
    if ((lane = cluster->lane[0]))
        dli_wake_set(lane->wake_fd);
    pthread_mutex_unlock(&cluster->mutex);
}

struct dli_node *dli_look_moved(struct dli_cluster *cluster, const struct dli_node *from,
                                const struct dli_redirect *redirect)
{
    const char *host = redirect->host[0] ? redirect->host : from->config.target.host;
    struct dli_node *node = dli_node_listed(cluster, host, redirect->port);

    if (redirect->turn == DLI_TURN_MOVED) {
        if (node)
            __atomic_store_n(&cluster->owner[redirect->slot], (uint8_t)node->index, __ATOMIC_RELEASE);
        dli_look_want(cluster);
    } else if (!node) {
        dli_look_want(cluster);
    }
    return node;
}

/* ---- the end of a look */

/* Those who wait for it look at what is known now. */
static void tell(struct dli_cluster *cluster)
{
    __atomic_add_fetch(&cluster->version, 1, __ATOMIC_ACQ_REL);
    dli_futex_wake(&cluster->version, INT_MAX);
    pthread_mutex_lock(&cluster->mutex);
    for (int i = 0; i < DLI_CLUSTER_LANES; i++)
        if (cluster->lane[i])
            dli_wake_set(cluster->lane[i]->wake_fd);
    pthread_mutex_unlock(&cluster->mutex);
}

static void stop(struct dli_look *look, int64_t now)
{
    dli_conn_free(look->conn);
    look->conn = NULL;
    look->stage = DLI_LOOK_NONE;
    look->not_before = now + PAUSE;
}

/* How many replicas a primary had when it was one itself; 0: of none. */
static int before_failover(const struct dli_cluster *cluster, const struct dli_node *node)
{
    for (int i = 0; i < cluster->replicas; i++) {
        const struct dli_map_replica *replica = &cluster->replica[i];

        if (replica->of != node->index && replica->port == node->config.target.port &&
            strcmp(replica->host, node->config.target.host) == 0)
            return __atomic_load_n(&cluster->node[replica->of]->replicas, __ATOMIC_RELAXED);
    }
    return 0;
}

/*
 * Replicas count as long as the cluster has not forgotten them. After a failover the one who was the primary is missed until it, or
 * another, has come: it may be promoted again. CLUSTER SLOTS does not list those that are down: there the number never falls.
 */
static void adopt_replicas(struct dli_cluster *cluster, const struct dli_cluster_map *map, const uint8_t *index)
{
    for (int i = 0; i < map->count; i++) {
        struct dli_node *node = cluster->node[index[i]];
        int before = before_failover(cluster, node), count = 0;

        for (int j = 0; j < map->replicas; j++)
            count += map->replica[j].of == i;
        if (cluster->look.stage == DLI_LOOK_SLOTS && node->replicas > before)
            before = node->replicas;
        node->owed = before > node->owed ? before : node->owed;
        node->owed = count >= node->owed ? 0 : node->owed;
        __atomic_store_n(&node->replicas, count > node->owed ? count : node->owed, __ATOMIC_RELAXED);
    }
    cluster->replicas = map->replicas;
    memcpy(cluster->replica, map->replica, sizeof map->replica);
    for (int i = 0; i < map->replicas; i++)
        cluster->replica[i].of = index[map->replica[i].of];
}

static void adopt_owners(struct dli_cluster *cluster, const struct dli_cluster_map *map, const uint8_t *index)
{
    struct dli_look *look = &cluster->look;

    look->known++;
    for (int slot = 0; slot < DLI_SLOTS; slot++) {
        uint8_t owner = index[map->owner[slot]];

        if (__atomic_exchange_n(&cluster->owner[slot], owner, __ATOMIC_ACQ_REL) != owner)
            look->known = 0;
    }
    if (look->known < KNOWN_MOST)
        return;
    look->known = 0;
    look->at++;
}

/* Nodes and owners as the map has them. 0, or -1 without memory or room for a node. */
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
    struct dli_look *look = &cluster->look;

    stop(look, now);
    look->troubled = 0;
    __atomic_store_n(&cluster->known, 1, __ATOMIC_RELEASE);
    tell(cluster);
    dli_ear_remap(cluster);
}

/* All were asked: why is the reason of the last one. */
static void fail(struct dli_cluster *cluster, const dlock_error *why, int64_t now)
{
    struct dli_store *store = &cluster->store;
    struct dli_look *look = &cluster->look;

    stop(look, now);
    look->hasty = 0;
    pthread_mutex_lock(&cluster->mutex);
    cluster->why = *why;
    __atomic_store_n(&cluster->failed, cluster->version + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&cluster->mutex);
    if (!look->troubled)
        store->hooks->log(store->owner, why->code, why->message);
    look->troubled = 1;
    tell(cluster);
}

/* ---- one after the other */

/* The places that may be asked: listed nodes, then those of the URL. NULL: all were. */
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

static void ask_next(struct dli_cluster *cluster, int64_t now)
{
    struct dli_look *look = &cluster->look;
    dlock_error why = {.code = DLOCK_OUT_OF_MEMORY, .message = "no memory for a connection"};
    int count = candidates(cluster);

    if (look->conn)
        why = look->conn->why;
    dli_conn_free(look->conn);
    look->conn = NULL;
    if (look->tried >= count) {
        fail(cluster, &why, now);
        return;
    }
    look->at = count > 0 ? (look->at + (look->tried > 0)) % count : 0;
    look->tried++;
    look->config = cluster->config;
    look->config.target = *candidate(cluster, look->at);
    look->stage = DLI_LOOK_CONNECT;
    look->give_up = now + look->config.connect_timeout / (look->hasty && count > 1 ? HASTE : 1);
    if ((look->conn = dli_conn_new(&look->config)))
        dli_conn_start(look->conn, now);
    else
        fail(cluster, &why, now);
}

static void say(struct dli_look *look, const char *verb, const char *word)
{
    const char *const words[] = {verb, word};

    if (dli_encode_words(&look->conn->out, 2, words)) {
        dli_fail(&look->conn->why, DLOCK_OUT_OF_MEMORY, "no memory for a command");
        look->conn->state = DLI_CONN_FAILED;
    }
}

static void begin_questions(struct dli_cluster *cluster)
{
    struct dli_look *look = &cluster->look;

    look->stage = cluster->probed ? DLI_LOOK_SHARDS : DLI_LOOK_PROBE;
    if (!cluster->probed)
        say(look, "PUBSUB", "SHARDNUMSUB");
    say(look, "CLUSTER", "SHARDS");
}

static void refuse(struct dli_look *look, dlock_status status, const char *what, const struct dli_reply *reply)
{
    char shown[200];

    dli_fail(&look->conn->why, status, "The server %s %s%s%s.", look->config.target.text, what, reply ? ": " : "",
             reply && reply->type == DLI_REPLY_ERROR ? dli_quote_error(shown, sizeof shown, reply) : "");
    look->conn->state = DLI_CONN_FAILED;
}

/* Redisson looks at the same sign. */
static void judge_probe(struct dli_cluster *cluster, const struct dli_reply *reply)
{
    dlock_status status = reply->type == DLI_REPLY_ERROR ? dli_error_status(reply) : DLOCK_OK;
    int form = cluster->pubsub == DLI_PUBSUB_BOTH ? DLI_FORM_BOTH : DLI_FORM_SHARDED;

    if (status == DLOCK_DENIED) {
        refuse(&cluster->look, status, "does not let us see whether it has sharded channels", reply);
        return;
    }
    __atomic_store_n(&cluster->form, reply->type == DLI_REPLY_ARRAY ? form : DLI_FORM_PLAIN, __ATOMIC_RELEASE);
    cluster->look.stage = DLI_LOOK_SHARDS;
}

/* 1: the map is known. */
static int judge_map(struct dli_cluster *cluster, const struct dli_reply *reply)
{
    struct dli_look *look = &cluster->look;
    dlock_error why = {.code = DLOCK_OK};

    if (reply->type == DLI_REPLY_ERROR && strstr(reply->text, "cluster support disabled")) {
        refuse(look, DLOCK_WRONG_SETUP, "is not one of a cluster: the URL must begin with redis:// or rediss://", NULL);
    } else if (reply->type == DLI_REPLY_ERROR && look->stage == DLI_LOOK_SHARDS) {
        look->stage = DLI_LOOK_SLOTS; /* before 7.0 */
        say(look, "CLUSTER", "SLOTS");
    } else if (reply->type == DLI_REPLY_ERROR) {
        refuse(look, dli_error_status(reply), "does not describe its cluster", reply);
    } else if ((look->stage == DLI_LOOK_SHARDS ? dli_cluster_read_shards : dli_cluster_read_slots)(
                   &look->map, reply, &look->config.target, &why) != DLOCK_OK) {
        refuse(look, why.code, why.message, NULL);
    } else if (look->map.count == 0) {
        refuse(look, DLOCK_SERVER_LOADING, "knows no server of its cluster that has slots", NULL);
    } else if (adopt(cluster, &look->map)) {
        refuse(look, DLOCK_OUT_OF_MEMORY, "describes more servers than there is memory or room for", NULL);
    } else {
        return 1;
    }
    return 0;
}

/* 1: the map is known. */
static int converse(struct dli_cluster *cluster)
{
    struct dli_look *look = &cluster->look;
    const struct dli_reply *reply;

    if (look->stage == DLI_LOOK_CONNECT)
        begin_questions(cluster);
    dli_conn_flush(look->conn);
    while (dli_conn_receive(look->conn) > 0) {
        while (look->conn->state == DLI_CONN_READY && dli_conn_next(look->conn, &reply) == 1) {
            if (look->stage == DLI_LOOK_PROBE)
                judge_probe(cluster, reply);
            else if (judge_map(cluster, reply))
                return 1;
        }
        dli_conn_flush(look->conn);
    }
    return 0;
}

/* 1: the next one is asked, and may be ready already. */
static int go_on(struct dli_cluster *cluster, int64_t now)
{
    struct dli_look *look = &cluster->look;

    if (dli_conn_under_way(look->conn))
        dli_conn_step(look->conn, now);
    if (look->stage == DLI_LOOK_CONNECT && look->conn->state == DLI_CONN_READY)
        dli_gate_result(&look->gate, 1, now);
    else if (look->stage == DLI_LOOK_CONNECT && !dli_conn_under_way(look->conn))
        dli_gate_failed(&look->gate, &look->conn->why, now);
    if (look->conn->state == DLI_CONN_READY && converse(cluster)) {
        cluster->probed = 1;
        look->hasty = 1;
        succeed(cluster, now);
        return 0;
    }
    if (look->conn->state != DLI_CONN_FAILED && now >= look->give_up)
        refuse(look, DLOCK_UNREACHABLE, "did not describe the slots in time", NULL);
    if (look->conn->state != DLI_CONN_FAILED)
        return 0;
    ask_next(cluster, now);
    return look->conn != NULL;
}

void dli_look_step(struct dli_cluster *cluster, int64_t now)
{
    struct dli_look *look = &cluster->look;
    dlock_error why;
    int64_t later;

    if (look->conn) {
        while (go_on(cluster, now))
            continue;
        return;
    }
    if (!__atomic_load_n(&look->wanted, __ATOMIC_ACQUIRE) || now < look->not_before)
        return;
    later = dli_gate_ask(&look->gate, now);
    if (later && !dli_gate_refused(&look->gate, &why, now)) {
        look->not_before = later;
        return;
    }
    __atomic_store_n(&look->wanted, 0, __ATOMIC_RELEASE);
    if (later) {
        fail(cluster, &why, now);
        return;
    }
    look->tried = 0;
    ask_next(cluster, now);
    while (look->conn && go_on(cluster, now))
        continue;
}

int64_t dli_look_alarm(const struct dli_cluster *cluster)
{
    const struct dli_look *look = &cluster->look;

    if (!look->conn)
        return __atomic_load_n(&look->wanted, __ATOMIC_ACQUIRE) ? look->not_before : INT64_MAX;
    if (dli_conn_under_way(look->conn) && look->conn->deadline < look->give_up)
        return look->conn->deadline;
    return look->give_up;
}

void dli_look_end(struct dli_cluster *cluster)
{
    dli_conn_free(cluster->look.conn);
    cluster->look.conn = NULL;
}
