/*
 * search.c: after a lost reply to a node's making. Belongs to lane 0's thread.
 *
 * Before another node is made, a sync and a look for the owner's id say whether the first one is there. The server refuses
 * what arrives late: the session has moved on.
 */
#include "kinds.h"

static struct dli_zk_entry *entry_of(const struct dli_job *job)
{
    return dli_zk_entry(dli_zk_at(job->base.lane), job->request.exchange.wish.want);
}

/* This node is not the one: look for one that was made before it. */
static void search_on(struct dli_job *job)
{
    job->value = entry_of(job)->seq;
    dli_zk_again(job, dli_zk_search);
}

static void numbers_read(struct dli_job *job)
{
    struct dli_zk_entry *entry = entry_of(job);
    const struct dli_zk_stat *stat = &dli_zk_got(job, 0)->stat;

    if (job->call[0].error == DLI_ZK_NO_NODE) {
        search_on(job);
    } else if (job->call[0].error) {
        dli_zk_fail_error(job, job->call[0].error);
    } else if (stat->owner != job->session->ticket.id) { /* of a session that ends at any time */
        search_on(job);
    } else {
        entry->czxid = stat->czxid;
        entry->ctime = stat->ctime;
        entry->state = DLI_ZK_KNOWN;
        dli_zk_look(job);
    }
}

static void searched(struct dli_job *job)
{
    struct dli_zk_entry *entry = entry_of(job);
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_GET_DATA};
    const struct dli_zk_children *all = &dli_zk_got(job, 1)->children;
    int found = 0;

    if (job->call[1].error == DLI_ZK_NO_NODE) {
        dli_zk_create(job);
        return;
    }
    if (job->call[1].error) {
        dli_zk_fail_error(job, job->call[1].error);
        return;
    }
    for (int i = all->count - 1; i >= 0 && !found; i--) {
        found = all->child[i].seq < job->value && dli_zk_is_owners(all->child[i].name, job->request.exchange.want);
        entry->seq = found ? all->child[i].seq : 0;
    }
    if (!found) {
        dli_zk_create(job);
        return;
    }
    ask.path = dli_zk_numbered(job->kind, job->line, job->request.exchange.want, entry->seq, room);
    dli_zk_ask(job, &ask, 1, numbers_read);
}

void dli_zk_search(struct dli_job *job)
{
    struct dli_zk_ask ask[2] = {{.op = DLI_ZK_SYNC, .path = dli_zk_path(job->line)},
                                {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->line)}};

    dli_zk_ask(job, ask, 2, searched);
}
