/*
 * lane.c: the store's part in the watchdog threads: jobs come in and go back. Mutexes: see inner.h.
 *
 * Lane 0 has the connections. The other lanes only hand over jobs, and give them back on their own threads.
 */
#include <poll.h>
#include <stdlib.h>

#include "inner.h"

/* Lane 0: begin the jobs that were pushed. */
static void take_jobs(struct dli_zk *zk)
{
    struct dli_link *link;

    for (;;) {
        pthread_mutex_lock(&zk->mutex);
        link = dli_list_pop(&zk->inbox);
        pthread_mutex_unlock(&zk->mutex);
        if (!link)
            return;
        dli_zk_start(DLI_OBJECT(link, struct dli_job, link));
    }
}

/* Run done of the jobs that came back. */
static void give_back(struct dli_lane *lane)
{
    struct dli_link *link;

    for (;;) {
        struct dli_request *request;

        pthread_mutex_lock(&lane->zk->mutex);
        link = dli_list_pop(&lane->outbox);
        pthread_mutex_unlock(&lane->zk->mutex);
        if (!link)
            return;
        request = &DLI_OBJECT(link, struct dli_job, link)->request;
        if (request->done)
            request->done(request);
    }
}

void dli_zk_step(struct dli_lane *lane, int64_t now)
{
    struct dli_zk *zk = lane->zk;

    give_back(lane);
    if (lane->index > 0)
        return;
    take_jobs(zk);
    dli_zk_sessions_step(zk, now);
    dli_zk_checks_step(zk, now);
}

int64_t dli_zk_alarm(const struct dli_lane *lane)
{
    int64_t at, other;

    if (lane->index > 0)
        return INT64_MAX;
    at = dli_zk_sessions_alarm(lane->zk);
    other = dli_zk_checks_alarm(lane->zk);
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
    struct dli_zk *zk = lane->zk;
    int work;

    pthread_mutex_lock(&zk->mutex);
    work = !dli_list_empty(&lane->outbox) || (lane->index == 0 && !dli_list_empty(&zk->inbox));
    lane->sleeping = !work;
    pthread_mutex_unlock(&zk->mutex);
    if (work)
        return -1;
    if (lane->index > 0)
        return 0;
    return dli_zk_checks_poll(zk, fds, poll_all(&zk->ended, fds, poll_all(&zk->sessions, fds, 0)));
}

void dli_zk_awake(struct dli_lane *lane)
{
    pthread_mutex_lock(&lane->zk->mutex);
    lane->sleeping = 0;
    pthread_mutex_unlock(&lane->zk->mutex);
}

/* ---- jobs of callers */

static dlock_status push_job(struct dli_lane *lane, struct dli_job *job)
{
    struct dli_zk *zk = lane->zk;
    int shut, wake = 0;

    job->lane = lane;
    job->tries = 0;
    job->session = NULL;
    job->request.status = DLOCK_OK;
    job->request.sent = job->request.refused = job->request.repeated = job->request.torn = 0;
    pthread_mutex_lock(&zk->mutex);
    shut = zk->shut;
    if (!shut) {
        dli_list_append(&zk->inbox, &job->link);
        wake = zk->lane[0]->sleeping;
        zk->lane[0]->sleeping = 0;
    }
    pthread_mutex_unlock(&zk->mutex);
    if (shut)
        return DLOCK_CLOSED;
    if (wake)
        dli_wake_set(zk->lane[0]->wake_fd);
    __atomic_add_fetch(&zk->commands, 1, __ATOMIC_RELAXED);
    return DLOCK_OK;
}

dlock_status dli_zk_push(struct dli_lane *lane, struct dli_request *request)
{
    struct dli_job *job = dli_zk_job_of(request);

    job->sleeps = 0;
    return push_job(lane, job);
}

void dli_zk_execute(struct dli_lane *lane, struct dli_request *request)
{
    struct dli_job *job = dli_zk_job_of(request);

    uint32_t *word;

    job->sleeps = 1;
    job->slot = (int)(__atomic_fetch_add(&lane->zk->slots, 1, __ATOMIC_RELAXED) % DLI_ZK_WORDS);
    word = &lane->zk->words[job->slot];
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

struct dli_lane *dli_zk_lane_new(struct dli_store *store, int index, int wake_fd)
{
    struct dli_zk *zk = dli_zk_of(store);
    struct dli_lane *lane = calloc(1, sizeof *lane);

    if (!lane)
        return NULL;
    lane->zk = zk;
    lane->index = index;
    lane->wake_fd = wake_fd;
    dli_list_init(&lane->outbox);
    zk->lane[index] = lane;
    return lane;
}

void dli_zk_lane_free(struct dli_lane *lane)
{
    if (!lane)
        return;
    lane->zk->lane[lane->index] = NULL;
    free(lane);
}

static void close_jobs(struct dli_zk *zk)
{
    struct dli_link *link;

    do {
        pthread_mutex_lock(&zk->mutex);
        zk->shut = 1;
        link = dli_list_pop(&zk->inbox);
        pthread_mutex_unlock(&zk->mutex);
        if (link)
            dli_zk_fail(DLI_OBJECT(link, struct dli_job, link), DLOCK_CLOSED, "the client was closed");
    } while (link);
}

void dli_zk_shut(struct dli_lane *lane)
{
    struct dli_zk *zk = lane->zk;

    if (lane->index == 0) {
        close_jobs(zk);
        dli_zk_checks_end(zk);
        dli_zk_sessions_end(zk);
    }
    give_back(lane);
}
