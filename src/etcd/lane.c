/*
 * lane.c: the store's part in the watchdog threads: jobs come in and go back. Mutexes: see inner.h.
 *
 * Lane 0 has the connection. The other lanes only hand over jobs, and give them back on their own threads.
 */
#include <poll.h>
#include <stdlib.h>

#include "kinds.h"

/* Lane 0: begin the jobs that were pushed. */
static void take_jobs(struct dli_etcd *etcd)
{
    struct dli_link *link;

    for (;;) {
        pthread_mutex_lock(&etcd->mutex);
        link = dli_list_pop(&etcd->inbox);
        pthread_mutex_unlock(&etcd->mutex);
        if (!link)
            return;
        dli_etcd_start(DLI_OBJECT(link, struct dli_job, link));
    }
}

/* Run done of the jobs that came back. */
static void give_back(struct dli_lane *lane)
{
    struct dli_link *link;

    for (;;) {
        struct dli_request *request;

        pthread_mutex_lock(&lane->etcd->mutex);
        link = dli_list_pop(&lane->outbox);
        pthread_mutex_unlock(&lane->etcd->mutex);
        if (!link)
            return;
        request = &DLI_OBJECT(link, struct dli_job, link)->request;
        if (request->done)
            request->done(request);
    }
}

void dli_etcd_step(struct dli_lane *lane, int64_t now)
{
    struct dli_etcd *etcd = lane->etcd;

    give_back(lane);
    if (lane->index > 0)
        return;
    take_jobs(etcd);
    dli_etcd_sessions_step(etcd, now);
    dli_etcd_gates_step(etcd);
    dli_etcd_exams_step(etcd, now);
    dli_grpc_step(&etcd->grpc, dli_now());
}

int64_t dli_etcd_alarm(const struct dli_lane *lane)
{
    int64_t at, other;

    if (lane->index > 0)
        return INT64_MAX;
    at = dli_grpc_alarm(&lane->etcd->grpc);
    other = dli_etcd_sessions_alarm(lane->etcd);
    at = other < at ? other : at;
    other = dli_etcd_exams_alarm(lane->etcd);
    return other < at ? other : at;
}

int dli_etcd_sleep(struct dli_lane *lane, struct pollfd *fds)
{
    struct dli_etcd *etcd = lane->etcd;
    int work;

    pthread_mutex_lock(&etcd->mutex);
    work = !dli_list_empty(&lane->outbox) || (lane->index == 0 && !dli_list_empty(&etcd->inbox));
    lane->sleeping = !work;
    pthread_mutex_unlock(&etcd->mutex);
    if (work)
        return -1;
    if (lane->index > 0)
        return 0;
    fds[0] = dli_conn_poll(etcd->grpc.conn);
    return dli_etcd_exams_poll(etcd, fds, 1);
}

void dli_etcd_awake(struct dli_lane *lane)
{
    pthread_mutex_lock(&lane->etcd->mutex);
    lane->sleeping = 0;
    pthread_mutex_unlock(&lane->etcd->mutex);
}

/* ---- jobs of callers */

static dlock_status push_job(struct dli_lane *lane, struct dli_job *job)
{
    struct dli_etcd *etcd = lane->etcd;
    int shut, wake = 0;

    job->lane = lane;
    job->tries = 0;
    job->created = 0;
    job->session = NULL;
    job->request.status = DLOCK_OK;
    job->request.sent = job->request.refused = job->request.repeated = job->request.torn = 0;
    pthread_mutex_lock(&etcd->mutex);
    shut = etcd->shut;
    if (!shut) {
        dli_list_append(&etcd->inbox, &job->link);
        wake = etcd->lane[0]->sleeping;
        etcd->lane[0]->sleeping = 0;
    }
    pthread_mutex_unlock(&etcd->mutex);
    if (shut)
        return DLOCK_CLOSED;
    if (wake)
        dli_wake_set(etcd->lane[0]->wake_fd);
    __atomic_add_fetch(&etcd->commands, 1, __ATOMIC_RELAXED);
    return DLOCK_OK;
}

dlock_status dli_etcd_push(struct dli_lane *lane, struct dli_request *request)
{
    struct dli_job *job = dli_etcd_job_of(request);

    job->sleeps = 0;
    return push_job(lane, job);
}

void dli_etcd_execute(struct dli_lane *lane, struct dli_request *request)
{
    struct dli_job *job = dli_etcd_job_of(request);

    uint32_t *word;

    job->sleeps = 1;
    job->slot = (int)(__atomic_fetch_add(&lane->etcd->slots, 1, __ATOMIC_RELAXED) % DLI_ETCD_WORDS);
    word = &lane->etcd->words[job->slot];
    __atomic_store_n(&job->done, 0, __ATOMIC_RELAXED);
    if (push_job(lane, job) != DLOCK_OK) {
        request->status = DLOCK_CLOSED;
        if (request->verb == DLI_VERB_EXCHANGE)
            request->exchange.answer = (struct dli_answer){.status = DLOCK_CLOSED};
        return;
    }
    while (!__atomic_load_n(&job->done, __ATOMIC_ACQUIRE)) {
        uint32_t seen = __atomic_load_n(word, __ATOMIC_SEQ_CST);

        if (!__atomic_load_n(&job->done, __ATOMIC_ACQUIRE))
            dli_futex_sleep(word, seen);
    }
}

/* ---- life */

struct dli_lane *dli_etcd_lane_new(struct dli_store *store, int index, int wake_fd)
{
    struct dli_etcd *etcd = dli_etcd_of(store);
    struct dli_lane *lane = calloc(1, sizeof *lane);

    if (!lane)
        return NULL;
    lane->etcd = etcd;
    lane->index = index;
    lane->wake_fd = wake_fd;
    dli_list_init(&lane->outbox);
    if (index == 0 && dli_grpc_init(&etcd->grpc)) {
        free(lane);
        return NULL;
    }
    etcd->lane[index] = lane;
    return lane;
}

void dli_etcd_lane_free(struct dli_lane *lane)
{
    if (!lane)
        return;
    if (lane->index == 0)
        dli_grpc_fini(&lane->etcd->grpc);
    lane->etcd->lane[lane->index] = NULL;
    free(lane);
}

static void close_jobs(struct dli_etcd *etcd)
{
    struct dli_link *link;

    do {
        pthread_mutex_lock(&etcd->mutex);
        etcd->shut = 1;
        link = dli_list_pop(&etcd->inbox);
        pthread_mutex_unlock(&etcd->mutex);
        if (link)
            dli_etcd_fail(DLI_OBJECT(link, struct dli_job, link), DLOCK_CLOSED, "the client was closed");
    } while (link);
}

void dli_etcd_shut(struct dli_lane *lane)
{
    struct dli_etcd *etcd = lane->etcd;

    if (lane->index == 0) {
        close_jobs(etcd);
        dli_etcd_exams_end(etcd);
        dli_etcd_sessions_end(etcd);
        dli_grpc_shut(&etcd->grpc);
    }
    give_back(lane);
}
