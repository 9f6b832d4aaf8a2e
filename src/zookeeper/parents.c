/*
 * parents.c: make the nodes that a lock's nodes are below. They are containers: the server removes them when they are empty.
 * Those that every client rings its bells below belong to all users. Belongs to lane 0's thread.
 *
 * It begins with the longest path. Where a parent is missing, it goes up, and then down again.
 */
#include "kinds.h"

static void make(struct dli_job *job);

static size_t up(const struct dli_place *place, size_t size)
{
    while (size > 0 && place->path[size - 1] != '/')
        size--;
    return size > 0 ? size - 1 : 0;
}

static size_t down(const struct dli_place *place, size_t size)
{
    size++;
    while (size < place->size && place->path[size] != '/')
        size++;
    return size;
}

static void made(struct dli_job *job)
{
    const struct dli_place *place = job->parents;
    int32_t error = job->call[0].error;
    size_t size = (size_t)job->value;

    if (error == DLI_ZK_NO_NODE)
        job->value = (int64_t)up(place, size);
    else if (error == DLI_ZK_OK || error == DLI_ZK_NODE_EXISTS)
        job->value = (int64_t)down(place, size);
    if (error && error != DLI_ZK_NO_NODE && error != DLI_ZK_NODE_EXISTS)
        dli_zk_fail_error(job, error);
    else if (job->value > place->size)
        dli_zk_again(job, job->resumed);
    else if (job->value == 0)
        dli_zk_fail_error(job, DLI_ZK_NO_NODE);
    else
        make(job);
}

static void make(struct dli_job *job)
{
    const struct dli_zk *zk = dli_zk_at(job->base.lane);
    int shared = job->parents == zk->bells && job->value == zk->bells->size;
    struct dli_zk_ask ask = {
        .op = DLI_ZK_CREATE_CONTAINER,
        .path = {job->parents->path, (size_t)job->value},
        .flags = DLI_ZK_CONTAINER,
        .mine = zk->user[0] != '\0' && !shared,
    };

    dli_zk_ask(job, &ask, 1, made);
}

void dli_zk_make_parents(struct dli_job *job, const struct dli_place *place, void (*resumed)(struct dli_job *job))
{
    job->parents = place;
    job->resumed = resumed;
    job->value = place->size;
    make(job);
}
