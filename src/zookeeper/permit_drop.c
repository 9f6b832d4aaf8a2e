/*
 * permit_drop.c: permits go back. Belongs to lane 0's thread.
 *
 * The nodes of a hold go in one transaction, by their exact names. Where these are not known, or one is missing, all nodes with
 * the owner's id are looked for behind a sync, in line and of permits, and deleted one by one.
 */
#include <stdlib.h>

#include "kinds.h"

static void sweep(struct dli_job *job);

static struct dli_zk *zk_of(const struct dli_job *job)
{
    return dli_zk_at(job->base.lane);
}

void dli_zk_delete_leases(struct dli_job *job, const char *owner, int32_t from, int count,
                          void (*answered)(struct dli_job *job))
{
    size_t size = (size_t)count * (sizeof(struct dli_zk_ask) + DLI_ZK_PATH_MAX);
    struct dli_zk_ask *part = malloc(size), ask = {.op = DLI_ZK_MULTI, .part = part, .parts = count};
    char(*room)[DLI_ZK_PATH_MAX] = part ? (void *)(part + count) : NULL;

    if (!part) {
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for the permits");
        return;
    }
    for (int i = 0; i < count; i++)
        part[i] = (struct dli_zk_ask){
            .op = DLI_ZK_DELETE,
            .path = dli_zk_numbered(job->request.kind, job->request.place->leases, owner, (int64_t)from + i, room[i]),
            .version = -1};
    dli_zk_ask(job, count == 1 ? part : &ask, 1, answered);
    free(part);
}

static struct dli_zk_entry *leaving(const struct dli_job *job)
{
    return dli_zk_entry(zk_of(job), job->request.exchange.wish.drop);
}

static void dropped(struct dli_job *job, int released)
{
    job->request.exchange.answer.released = released;
    job->request.status = DLOCK_OK;
    dli_zk_forget(zk_of(job), job->request.exchange.wish.drop);
    dli_zk_finish(job);
}

static void swept(struct dli_job *job)
{
    int32_t error = job->call[0].error;

    if (error && error != DLI_ZK_NO_NODE)
        dli_zk_fail_error(job, error);
    else
        sweep(job);
}

/* Delete all nodes of the owner, in line and of permits, one by one. */
static void found(struct dli_job *job)
{
    const struct dli_place *places[] = {job->line, job->request.place->leases};
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_DELETE, .version = -1};

    for (int i = 0; i < 2; i++) {
        const struct dli_zk_children *all = dli_zk_children_of(job, i + 1);

        if (!all)
            return;
        for (int j = 0; j < all->count; j++)
            if (dli_zk_is_owners(all->child[j].name, job->request.exchange.drop))
                ask.path = dli_zk_child_path(places[i], all->child[j].name, room);
    }
    if (ask.path.size)
        dli_zk_ask(job, &ask, 1, swept);
    else
        dropped(job, leaving(job) && leaving(job)->leaving > 1);
}

static void sweep(struct dli_job *job)
{
    struct dli_zk_ask ask[3] = {{.op = DLI_ZK_SYNC, .path = dli_zk_path(job->request.place)},
                                {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->line)},
                                {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->request.place->leases)}};

    dli_zk_ask(job, ask, 3, found);
}

static void released(struct dli_job *job)
{
    int32_t error = dli_zk_got(job, 0)->error;

    if (!error)
        dropped(job, 1);
    else if (error == DLI_ZK_NO_NODE) /* an operator deleted some, or it was this one whose reply was lost */
        sweep(job);
    else
        dli_zk_fail_error(job, error);
}

void dli_zk_permit_drop(struct dli_job *job)
{
    struct dli_zk_entry *entry = leaving(job);

    if (!entry || !(job->session = dli_zk_session(zk_of(job), entry->session))) {
        dropped(job, 0);
    } else if (entry->held) {
        entry->leaving = entry->leaving ? 2 : 1;
        dli_zk_delete_leases(job, job->request.exchange.drop, entry->lease, (int)job->request.exchange.wish.permits,
                             released);
    } else {
        sweep(job);
    }
}
