/*
 * lane.c: the store's part in the watchdog threads: jobs come in and go back.
 *
 * Lane 0 has the connections. The other lanes only hand over jobs, and give them back on their own threads.
 */
#include <poll.h>

#include "kinds.h"

/* Lane 0: begin the jobs that were pushed. */
static void take_jobs(struct dli_zk *zk)
{
    struct dli_lane_job *base;

    while ((base = dli_lanes_next(&zk->lanes)))
        dli_zk_start(dli_zk_job_at(&base->link));
}

void dli_zk_step(struct dli_lane *lane, int64_t now)
{
    struct dli_zk *zk = dli_zk_at(lane);

    dli_lane_give_back(lane);
    if (lane->index > 0)
        return;
    take_jobs(zk);
    dli_zk_gates_step(zk);
    dli_zk_sessions_step(zk, now);
    dli_zk_checks_step(zk, now);
}

int64_t dli_zk_alarm(const struct dli_lane *lane)
{
    int64_t at, other;

    if (lane->index > 0)
        return INT64_MAX;
    at = dli_zk_sessions_alarm(dli_zk_at(lane));
    other = dli_zk_checks_alarm(dli_zk_at(lane));
    return other < at ? other : at;
}

static int poll_all(const struct dli_link *list, struct pollfd *fds, int count)
{
    for (const struct dli_link *link = list->next; link != list && count < DLI_LANE_FDS; link = link->next) {
        const struct dli_conn *conn = DLI_OBJECT(link, struct dli_zk_session, link)->conn;

        if (conn->fd >= 0)
            fds[count++] = dli_conn_poll(conn);
    }
    return count;
}

int dli_zk_sleep(struct dli_lane *lane, struct pollfd *fds)
{
    struct dli_zk *zk = dli_zk_at(lane);

    if (dli_lane_sleep(lane))
        return -1;
    if (lane->index > 0)
        return 0;
    return dli_zk_checks_poll(zk, fds, poll_all(&zk->ended, fds, poll_all(&zk->sessions, fds, 0)));
}

/* ---- jobs of callers */

static struct dli_lane_job *fresh(struct dli_request *request)
{
    struct dli_job *job = dli_zk_job_of(request);

    job->tries = 0;
    job->session = NULL;
    job->gate.passed = 0;
    return &job->base;
}

dlock_status dli_zk_push(struct dli_lane *lane, struct dli_request *request)
{
    return dli_lane_push(lane, fresh(request));
}

void dli_zk_execute(struct dli_lane *lane, struct dli_request *request)
{
    dli_lane_execute(lane, fresh(request));
}

/* ---- life */

struct dli_lane *dli_zk_lane_new(struct dli_store *store, int index, int wake_fd)
{
    return dli_lane_new(&dli_zk_of(store)->lanes, index, wake_fd);
}

void dli_zk_shut(struct dli_lane *lane)
{
    struct dli_zk *zk = dli_zk_at(lane);

    if (lane->index == 0) {
        dli_lanes_close(&zk->lanes);
        dli_zk_checks_end(zk);
        dli_zk_sessions_end(zk);
    }
    dli_lane_end(lane);
}
