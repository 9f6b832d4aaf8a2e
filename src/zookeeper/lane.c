/*
 * lane.c: the store's part in the watchdog threads and in stand-ins, see lanes/lanes.h. Lane 0 has the connections.
 */
#include <poll.h>

#include "kinds.h"

static struct dli_zk *of(const struct dli_lanes *lanes)
{
    return DLI_OBJECT(lanes, struct dli_zk, lanes);
}

/* Lane 0: begin the jobs that were pushed. */
static void take_jobs(struct dli_zk *zk)
{
    struct dli_lane_job *base;

    while ((base = dli_lanes_next(&zk->lanes)))
        dli_zk_start(dli_zk_job_at(&base->link));
}

static void step(struct dli_lanes *lanes, int64_t now)
{
    struct dli_zk *zk = of(lanes);

    take_jobs(zk);
    dli_zk_gates_step(zk);
    dli_zk_sessions_step(zk, now);
    dli_zk_checks_step(zk, now);
}

static int64_t alarm_at(const struct dli_lanes *lanes)
{
    const struct dli_zk *zk = of(lanes);
    int64_t at = dli_zk_sessions_alarm(zk), other = dli_zk_checks_alarm(zk);

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

static int poll_every(const struct dli_lanes *lanes, struct pollfd *fds)
{
    const struct dli_zk *zk = of(lanes);

    return dli_zk_checks_poll(zk, fds, poll_all(&zk->ended, fds, poll_all(&zk->sessions, fds, 0)));
}

static int sole(const struct dli_lanes *lanes)
{
    const struct dli_zk *zk = of(lanes);
    const struct dli_zk_session *session = DLI_OBJECT(zk->sessions.next, struct dli_zk_session, link);

    if (dli_list_empty(&zk->sessions) || zk->sessions.next->next != &zk->sessions || !dli_list_empty(&zk->ended) ||
        !dli_list_empty(&zk->checks) || session->conn->state != DLI_CONN_READY || session->phase == DLI_ZK_DOWN)
        return -1;
    return dli_conn_poll(session->conn).events == POLLIN ? session->conn->fd : -1;
}

const struct dli_lanes_ops dli_zk_lanes_ops = {.step = step, .alarm = alarm_at, .poll = poll_every, .sole = sole};

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
