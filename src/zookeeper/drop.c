/*
 * drop.c: release, or undo. Belongs to lane 0's thread.
 *
 * A node is deleted by its exact name, which holds the owner's id, so that a late copy can delete nothing else. When the
 * reply is lost, the request is sent again later. Where the name is not known, because the reply to its making was lost, a
 * sync comes first, and all nodes with the owner's id are deleted.
 */
#include "kinds.h"

static void search(struct dli_job *job);

static int64_t number_of(const struct dli_job *job)
{
    return job->request.exchange.wish.drop;
}

static void dropped(struct dli_job *job, int released)
{
    job->request.exchange.answer.released = released;
    job->request.status = DLOCK_OK;
    dli_zk_forget(dli_zk_at(job->base.lane), number_of(job));
    dli_zk_finish(job);
}

/* NO_NODE after a delete whose reply was lost: it was that one. */
static void deleted(struct dli_job *job)
{
    const struct dli_zk_entry *entry = dli_zk_entry(dli_zk_at(job->base.lane), number_of(job));
    int32_t error = job->call[0].error;

    if (error && error != DLI_ZK_NO_NODE)
        dli_zk_fail_error(job, error);
    else
        dropped(job, !error || entry->leaving > 1);
}

static void delete_known(struct dli_job *job, struct dli_zk_entry *entry)
{
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_DELETE, .version = -1};

    ask.path = dli_zk_numbered(job->request.kind, job->request.place, job->request.exchange.drop, entry->seq, room);
    entry->leaving = entry->leaving ? 2 : 1;
    dli_zk_unwatch_all(dli_zk_at(job->base.lane), entry);
    dli_zk_ask(job, &ask, 1, deleted);
}

/* ---- its name is not known */

static void found_deleted(struct dli_job *job)
{
    int32_t error = job->call[0].error;

    if (error && error != DLI_ZK_NO_NODE)
        dli_zk_fail_error(job, error);
    else
        dli_zk_again(job, search);
}

static void searched(struct dli_job *job)
{
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_DELETE, .version = -1};
    const struct dli_zk_children *all = &dli_zk_got(job, 1)->children;
    int32_t error = job->call[1].error;

    if (error && error != DLI_ZK_NO_NODE) {
        dli_zk_fail_error(job, error);
        return;
    }
    for (int i = 0; i < all->count && !ask.path.size; i++)
        if (dli_zk_is_owners(all->child[i].name, job->request.exchange.drop))
            ask.path = dli_zk_child_path(job->request.place, all->child[i].name, room);
    if (ask.path.size)
        dli_zk_ask(job, &ask, 1, found_deleted);
    else
        dropped(job, 0);
}

static void search(struct dli_job *job)
{
    struct dli_zk_ask ask[2] = {{.op = DLI_ZK_SYNC, .path = dli_zk_path(job->request.place)},
                                {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->request.place)}};

    dli_zk_ask(job, ask, 2, searched);
}

void dli_zk_drop(struct dli_job *job)
{
    struct dli_zk_entry *entry = dli_zk_entry(dli_zk_at(job->base.lane), number_of(job));

    if (!entry || !(job->session = dli_zk_session(dli_zk_at(job->base.lane), entry->session)))
        dropped(job, 0);
    else if (entry->state == DLI_ZK_KNOWN)
        delete_known(job, entry);
    else
        search(job);
}
