/*
 * node.c: one server of a cluster: its connections for each lane, its private ones, its subscriber. Mutexes: see
 * inner.h.
 */
#include "inner.h"

#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "sys/sys.h"

int dli_cluster_count(const struct dli_cluster *cluster)
{
    return __atomic_load_n(&cluster->nodes, __ATOMIC_ACQUIRE);
}

int dli_node_open_lane(struct dli_node *node, const struct dli_lane *lane)
{
    struct dli_cluster *cluster = node->cluster;
    struct dli_node_pipe *pipe = calloc(1, sizeof *pipe);

    if (!pipe)
        return -1;
    if (dli_pipe_init(&pipe->pipe, &node->config, &node->budget, lane->wake_fd, cluster->patience, &cluster->reloads)) {
        dli_pipe_fini(&pipe->pipe);
        free(pipe);
        return -1;
    }
    dli_replicas_init(&pipe->replicas, &node->config, &node->budget, lane->wake_fd, cluster->confirm,
                      &cluster->reloads);
    pipe->pipe.spare = &node->pool;
    pipe->replicas.listed = &node->replicas;
    node->pipe[lane->index] = pipe;
    return 0;
}

void dli_node_close_lane(struct dli_node *node, int index)
{
    if (!node->pipe[index])
        return;
    dli_pipe_fini(&node->pipe[index]->pipe);
    dli_replicas_fini(&node->pipe[index]->replicas);
    free(node->pipe[index]);
    node->pipe[index] = NULL;
}

void dli_node_free(struct dli_node *node)
{
    for (int i = 0; i < DLI_CLUSTER_LANES; i++)
        dli_node_close_lane(node, i);
    dli_subscriber_fini(&node->subscriber);
    dli_private_fini(&node->pool);
    dli_budget_fini(&node->budget);
    free(node);
}

static struct dli_node *find(const struct dli_cluster *cluster, const char *host, int port)
{
    int count = dli_cluster_count(cluster);

    for (int i = 0; i < count; i++) {
        const struct dli_target *target = &cluster->node[i]->config.target;

        if (target->port == port && strcmp(target->host, host) == 0)
            return cluster->node[i];
    }
    return NULL;
}

struct dli_node *dli_node_listed(const struct dli_cluster *cluster, const char *host, int port)
{
    struct dli_node *node = find(cluster, host, port);

    return node && __atomic_load_n(&node->listed, __ATOMIC_ACQUIRE) ? node : NULL;
}

struct dli_node *dli_node_owner(const struct dli_cluster *cluster, int slot)
{
    int owner;

    for (int i = slot < 0 ? 0 : slot; i < DLI_SLOTS; i++) {
        owner = dli_cluster_owner(cluster, i);
        if (owner != DLI_NOBODY)
            return cluster->node[owner];
        if (slot >= 0)
            break;
    }
    return NULL;
}

void dli_target_hide(const struct dli_cluster *cluster, struct dli_target *target)
{
    struct dli_target named = *target;
    struct dli_said said = {named.text, strlen(named.text), 0};

    for (int i = 0; i < cluster->seeds; i++)
        if (strcmp(cluster->seed[i].host, target->host) == 0)
            return;
    dli_mask(target->text, sizeof target->text, &said, &cluster->config.password, 1);
}

static struct dli_node *make(struct dli_cluster *cluster, const struct dli_target *target)
{
    struct dli_node *node = calloc(1, sizeof *node);
    int failed = 0, wake_fd = -1;

    if (!node)
        return NULL;
    node->cluster = cluster;
    node->index = cluster->nodes;
    node->config = cluster->config;
    node->config.target = *target;
    dli_target_hide(cluster, &node->config.target);
    dli_budget_init(&node->budget, cluster->connects_per_second, (uint64_t)dli_now() + (uint64_t)node->index);
    dli_private_init(&node->pool, &node->config, &node->budget, cluster->private_connections);
    pthread_mutex_lock(&cluster->mutex);
    for (int i = 0; i < DLI_CLUSTER_LANES && !failed; i++)
        failed = cluster->lane[i] && dli_node_open_lane(node, cluster->lane[i]);
    if (cluster->lane[0])
        wake_fd = cluster->lane[0]->wake_fd;
    pthread_mutex_unlock(&cluster->mutex);
    node->pool.wake_fd = wake_fd;
    if (!dli_subscriptions_init(node, wake_fd) && !failed)
        return node;
    dli_node_free(node);
    return NULL;
}

struct dli_node *dli_node_get(struct dli_cluster *cluster, const struct dli_target *target)
{
    struct dli_node *node = find(cluster, target->host, target->port);

    if (node || cluster->nodes == DLI_CLUSTER_EVER || !(node = make(cluster, target)))
        return node;
    cluster->node[cluster->nodes] = node;
    __atomic_store_n(&cluster->nodes, cluster->nodes + 1, __ATOMIC_RELEASE);
    return node;
}

int dli_node_push(struct dli_node *node, int index, struct dli_job *job, int urgent)
{
    struct dli_node_pipe *at = node->pipe[index];

    if (dli_replicas_want(&at->replicas, &job->request))
        return dli_replicas_push(&at->replicas, job, urgent);
    if (!urgent)
        return dli_pipe_push(&at->pipe, &job->call);
    dli_pipe_push_urgent(&at->pipe, &job->call);
    return 0;
}

/* ---- the lane's thread */

void dli_node_step(struct dli_node *node, int index, int64_t now)
{
    struct dli_node_pipe *at = node->pipe[index];

    dli_pipe_step(&at->pipe, now);
    dli_replicas_step(&at->replicas, dli_now());
    if (at->replicas.missed && node->cluster->confirm < 0)
        dli_refresh_want(node->cluster); /* the cluster may have forgotten a replica */
    at->replicas.missed = 0;
    dli_failure_report(&at->failure, &at->pipe, &node->cluster->store, node->config.target.text);
}
