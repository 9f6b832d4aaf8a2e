/*
 * lane.c: the store's part in the watchdog threads and in stand-ins, see lanes/lanes.h. Lane 0 has the connection.
 */
#include <poll.h>

#include "kinds.h"
#include "round.h"

static struct dli_etcd *of(const struct dli_lanes *lanes)
{
    return DLI_OBJECT(lanes, struct dli_etcd, lanes);
}

/* Lane 0: begin the jobs that were pushed. */
static void take_jobs(struct dli_etcd *etcd)
{
    struct dli_lane_job *base;

    while ((base = dli_lanes_next(&etcd->lanes)))
        dli_etcd_start(dli_etcd_job_at(&base->link));
}

static void step(struct dli_lanes *lanes, int64_t now)
{
    struct dli_etcd *etcd = of(lanes);

    take_jobs(etcd);
    dli_etcd_sessions_step(etcd, now);
    dli_etcd_watches_step(etcd);
    dli_etcd_gates_step(etcd);
    dli_etcd_exams_step(etcd, now);
    dli_etcd_rounds_step(etcd, now);
    dli_grpc_step(&etcd->grpc, dli_now());
}

static int64_t alarm_at(const struct dli_lanes *lanes)
{
    const struct dli_etcd *etcd = of(lanes);
    int64_t at = etcd->watches_old ? 0 : dli_grpc_alarm(&etcd->grpc), other = dli_etcd_sessions_alarm(etcd);

    at = other < at ? other : at;
    other = dli_etcd_exams_alarm(etcd);
    at = other < at ? other : at;
    other = dli_etcd_rounds_alarm(etcd);
    return other < at ? other : at;
}

static int poll_all(const struct dli_lanes *lanes, struct pollfd *fds)
{
    const struct dli_etcd *etcd = of(lanes);

    fds[0] = dli_conn_poll(etcd->grpc.conn);
    return dli_etcd_exams_poll(etcd, fds, 1);
}

static int sole(const struct dli_lanes *lanes)
{
    const struct dli_etcd *etcd = of(lanes);
    const struct dli_conn *conn = etcd->grpc.conn;

    if (!etcd->grpc.session || conn->state != DLI_CONN_READY || !dli_list_empty(&etcd->exams))
        return -1;
    return dli_conn_poll(conn).events == POLLIN ? conn->fd : -1;
}

const struct dli_lanes_ops dli_etcd_lanes_ops = {.step = step, .alarm = alarm_at, .poll = poll_all, .sole = sole};

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
        dli_etcd_sessions_end(etcd);
        dli_grpc_shut(&etcd->grpc);
        dli_etcd_exams_end(etcd); /* an answered call may have begun one */
        dli_etcd_rounds_end(etcd);
        dli_etcd_watches_end(etcd);
    }
    dli_lane_end(lane);
}
