/*
 * permit_try.c: an acquisition of permits begins. Belongs to lane 0's thread.
 *
 * A number that may not wait stands in line only while nobody else does and enough permits seem to be left.
 */
#include "kinds.h"

enum { LINE, LEASES, TOTAL, NAMES, READS };
enum { TRANSACTION_MAX = 900 * 1000 }; /* bytes: servers take a million */

static int permits_of(const struct dli_job *job)
{
    return (int)job->request.exchange.wish.permits;
}

/* Whether a number that may not wait can have its permits. A gate is met in line only. */
static void seen(struct dli_job *job)
{
    const struct dli_zk_children *names = dli_zk_children_of(job, NAMES);
    const struct dli_zk_children *line = names ? dli_zk_children_of(job, LINE) : NULL;
    const struct dli_zk_children *leases = line ? dli_zk_children_of(job, LEASES) : NULL;
    int64_t total;

    if (!leases || dli_zk_total_of(job, TOTAL, &total))
        return;
    if (!names->gate && (line->count > 0 || (int64_t)leases->count + permits_of(job) > total))
        dli_zk_not_granted(job, DLI_TRY_HELD);
    else
        dli_zk_acquire(job);
}

void dli_zk_permit_acquire(struct dli_job *job)
{
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask[READS] = {{.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->line)},
                                    {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->request.place->leases)},
                                    {.op = DLI_ZK_GET_DATA, .path = dli_zk_total_path(job->request.place, room)},
                                    {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->request.place)}};

    if ((size_t)permits_of(job) * (ask[LEASES].path.size + 2 * DLI_OWNER_MAX) > TRANSACTION_MAX)
        dli_zk_fail(job, DLOCK_UNSUPPORTED,
                    "on ZooKeeper each permit has a node, and the names of so many do not fit into one transaction");
    else if (dli_zk_stands(job) || dli_zk_entry(dli_zk_at(job->base.lane), job->request.exchange.wish.want))
        dli_zk_acquire(job);
    else if (dli_zk_enter(job, job->request.exchange.wish.lease))
        dli_zk_ask(job, ask, READS, seen);
}
