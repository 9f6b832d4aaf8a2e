/*
 * lane.c: the store's part in the watchdog threads: jobs come in and go back.
 *
 * Lane 0 has the connection. The other lanes only hand over jobs, and give them back on their own threads.
 */
#include <poll.h>

#include "kinds.h"
#include "round.h"

/* Lane 0: begin the jobs that were pushed. */
static void take_jobs(struct dli_etcd *etcd)
{
    struct dli_lane_job *base;

    while ((base = dli_lanes_next(&etcd->lanes)))
        dli_etcd_start(dli_etcd_job_at(&base->link));
}

void dli_etcd_step(struct dli_lane *lane, int64_t now)
{
    struct dli_etcd *etcd = dli_etcd_at(lane);

    dli_lane_give_back(lane);
    if (lane->index > 0)
        return;
    take_jobs(etcd);
    dli_etcd_sessions_step(etcd, now);
    dli_etcd_gates_step(etcd);
    dli_etcd_exams_step(etcd, now);
    dli_etcd_rounds_step(etcd, now);
    dli_grpc_step(&etcd->grpc, dli_now());
}

int64_t dli_etcd_alarm(const struct dli_lane *lane)
{
    int64_t at, other;

    if (lane->index > 0)
        return INT64_MAX;
    at = dli_grpc_alarm(&dli_etcd_at(lane)->grpc);
    other = dli_etcd_sessions_alarm(dli_etcd_at(lane));
    at = other < at ? other : at;
    other = dli_etcd_exams_alarm(dli_etcd_at(lane));
    at = other < at ? other : at;
    other = dli_etcd_rounds_alarm(dli_etcd_at(lane));
    return other < at ? other : at;
}

int dli_etcd_sleep(struct dli_lane *lane, struct pollfd *fds)
{
    struct dli_etcd *etcd = dli_etcd_at(lane);

    if (dli_lane_sleep(lane))
        return -1;
    if (lane->index > 0)
        return 0;
    fds[0] = dli_conn_poll(etcd->grpc.conn);
    return dli_etcd_exams_poll(etcd, fds, 1);
}

/* ---- jobs of callers */

static struct dli_lane_job *fresh(struct dli_request *request)
{
    struct dli_job *job = dli_etcd_job_of(request);

    job->tries = 0;
    job->created = 0;
    job->session = NULL;
    job->failed = NULL;
    return &job->base;
}

dlock_status dli_etcd_push(struct dli_lane *lane, struct dli_request *request)
{
    return dli_lane_push(lane, fresh(request));
}

void dli_etcd_execute(struct dli_lane *lane, struct dli_request *request)
{
    dli_lane_execute(lane, fresh(request));
}

/* ---- life */

struct dli_lane *dli_etcd_lane_new(struct dli_store *store, int index, int wake_fd)
{
    struct dli_etcd *etcd = dli_etcd_of(store);
    struct dli_lane *lane = dli_lane_new(&etcd->lanes, index, wake_fd);

    if (lane && index == 0 && dli_grpc_init(&etcd->grpc)) {
        dli_lane_free(lane);
        return NULL;
    }
    return lane;
}

void dli_etcd_lane_free(struct dli_lane *lane)
{
    if (lane && lane->index == 0)
        dli_grpc_fini(&dli_etcd_at(lane)->grpc);
    dli_lane_free(lane);
}

void dli_etcd_shut(struct dli_lane *lane)
{
    struct dli_etcd *etcd = dli_etcd_at(lane);

    if (lane->index == 0) {
        dli_lanes_close(&etcd->lanes);
        dli_etcd_exams_end(etcd);
        dli_etcd_sessions_end(etcd);
        dli_grpc_shut(&etcd->grpc);
        dli_etcd_rounds_end(etcd);
        dli_etcd_watches_end(etcd);
    }
    dli_lane_end(lane);
}
