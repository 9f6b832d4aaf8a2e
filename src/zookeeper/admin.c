/*
 * admin.c: release by force, inspection, ping. Belongs to lane 0's thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "kinds.h"

/* Read the children, after all that others have done before. 0; else the job is over. */
static void read_line(struct dli_job *job, void (*answered)(struct dli_job *job))
{
    struct dli_zk_ask ask[2] = {{.op = DLI_ZK_SYNC, .path = dli_zk_path(job->request.place)},
                                {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->request.place)}};

    if (dli_zk_enter(job, 0))
        dli_zk_ask(job, ask, 2, answered);
}

/* ---- release by force */

static void forced(struct dli_job *job)
{
    int32_t error = job->call[0].error;

    if (error && error != DLI_ZK_NO_NODE) {
        dli_zk_fail_error(job, error);
        return;
    }
    job->request.status = error ? DLOCK_NOT_HELD : DLOCK_OK;
    dli_zk_finish(job);
}

static void holder_found(struct dli_job *job)
{
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_DELETE, .version = -1};
    const struct dli_zk_children *all = dli_zk_children_of(job, 1);

    if (!all)
        return;
    if (all->count > 0) {
        ask.path = dli_zk_child_path(job->request.place, all->child[0].name, room);
        dli_zk_ask(job, &ask, 1, forced);
        return;
    }
    job->request.status = DLOCK_NOT_HELD;
    dli_zk_finish(job);
}

void dli_zk_force(struct dli_job *job)
{
    read_line(job, holder_found);
}

/* ---- inspect */

static void holder_read(struct dli_job *job)
{
    if (!job->call[0].error)
        job->request.inspection.token = dli_zk_got(job, 0)->stat.czxid;
    else if (job->call[0].error == DLI_ZK_NO_NODE && job->tries++ < DLI_ZK_TRIES) {
        dli_zk_inspect(job); /* it has gone meanwhile */
        return;
    }
    job->request.status = DLOCK_OK;
    dli_zk_finish(job);
}

/* The owner's id in the name of a node. */
static struct dli_zk_text owner_in(struct dli_zk_text name)
{
    const char *end;

    if (name.size < 4 || memcmp(name.bytes, "_c_", 3) != 0)
        return name;
    name.bytes += 3;
    name.size -= 3;
    for (end = name.bytes + name.size - 1; end > name.bytes && *end != '-'; end--)
        ;
    if (end - name.bytes > 5 && memcmp(end - 5, "-lock", 5) == 0)
        end -= 5;
    if (end > name.bytes)
        name.size = (size_t)(end - name.bytes);
    return name;
}

static void line_read(struct dli_job *job)
{
    struct dli_inspection *inspection = &job->request.inspection;
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_GET_DATA};
    const struct dli_zk_children *all = dli_zk_children_of(job, 1);

    if (!all)
        return;
    memset(inspection, 0, sizeof *inspection);
    inspection->left_ms = -2;
    if (all->count > 0) {
        struct dli_zk_text owner = owner_in(all->child[0].name);
        const struct dli_said said = {owner.bytes, owner.size, 0};

        dli_mask(inspection->holder, sizeof inspection->holder, &said, &dli_zk_at(job->base.lane)->password, 1);
        inspection->left_ms = -1;
        inspection->waiters = all->count - 1;
        ask.path = dli_zk_child_path(job->request.place, all->child[0].name, room);
        dli_zk_ask(job, &ask, 1, holder_read);
        return;
    }
    job->request.status = DLOCK_OK;
    dli_zk_finish(job);
}

void dli_zk_inspect(struct dli_job *job)
{
    read_line(job, line_read);
}

/* ---- ping: the member that the client is connected to */

static void pinged(struct dli_job *job)
{
    if (job->call[0].error) {
        dli_zk_fail_error(job, job->call[0].error);
        return;
    }
    job->request.status = DLOCK_OK;
    dli_zk_finish(job);
}

void dli_zk_ping(struct dli_job *job)
{
    struct dli_zk_ask ask = {.op = DLI_ZK_SYNC, .path = {"/", 1}};

    if (dli_zk_enter(job, 0))
        dli_zk_ask(job, &ask, 1, pinged);
}
