/*
 * lanes.c: jobs come in and go back. Mutex: see lanes.h.
 */
#include "lanes.h"

#include <stdlib.h>

#include "base/error.h"
#include "sys/sys.h"

void dli_lanes_init(struct dli_lanes *lanes)
{
    pthread_mutex_init(&lanes->mutex, NULL);
    dli_list_init(&lanes->inbox);
}

void dli_lanes_fini(struct dli_lanes *lanes)
{
    pthread_mutex_destroy(&lanes->mutex);
}

struct dli_lane *dli_lane_new(struct dli_lanes *lanes, int index, int wake_fd)
{
    struct dli_lane *lane = calloc(1, sizeof *lane);

    if (!lane)
        return NULL;
    lane->lanes = lanes;
    lane->index = index;
    lane->wake_fd = wake_fd;
    dli_list_init(&lane->outbox);
    lanes->lane[index] = lane;
    return lane;
}

void dli_lane_free(struct dli_lane *lane)
{
    if (!lane)
        return;
    lane->lanes->lane[lane->index] = NULL;
    free(lane);
}

/* ---- in */

static dlock_status push(struct dli_lane *lane, struct dli_lane_job *job)
{
    struct dli_lanes *lanes = lane->lanes;
    struct dli_request *request = job->request;
    int shut, wake = 0;

    job->lane = lane;
    request->status = DLOCK_OK;
    request->sent = request->refused = request->repeated = request->torn = 0;
    pthread_mutex_lock(&lanes->mutex);
    shut = lanes->shut;
    if (!shut) {
        dli_list_append(&lanes->inbox, &job->link);
        wake = lanes->lane[0]->sleeping;
        lanes->lane[0]->sleeping = 0;
    }
    pthread_mutex_unlock(&lanes->mutex);
    if (shut)
        return DLOCK_CLOSED;
    if (wake)
        dli_wake_set(lanes->lane[0]->wake_fd);
    __atomic_add_fetch(&lanes->commands, 1, __ATOMIC_RELAXED);
    return DLOCK_OK;
}

dlock_status dli_lane_push(struct dli_lane *lane, struct dli_lane_job *job)
{
    job->sleeps = 0;
    return push(lane, job);
}

void dli_lane_execute(struct dli_lane *lane, struct dli_lane_job *job)
{
    struct dli_lanes *lanes = lane->lanes;
    struct dli_request *request = job->request;
    uint32_t *word;

    job->sleeps = 1;
    job->slot = (int)(__atomic_fetch_add(&lanes->slots, 1, __ATOMIC_RELAXED) % DLI_LANES_WORDS);
    word = &lanes->words[job->slot];
    __atomic_store_n(&job->done, 0, __ATOMIC_RELAXED);
    if (push(lane, job) != DLOCK_OK) {
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

static struct dli_lane_job *take(struct dli_lanes *lanes, int shut)
{
    struct dli_link *link;

    pthread_mutex_lock(&lanes->mutex);
    lanes->shut |= shut;
    link = dli_list_pop(&lanes->inbox);
    pthread_mutex_unlock(&lanes->mutex);
    return link ? DLI_OBJECT(link, struct dli_lane_job, link) : NULL;
}

struct dli_lane_job *dli_lanes_next(struct dli_lanes *lanes)
{
    return take(lanes, 0);
}

void dli_lanes_close(struct dli_lanes *lanes)
{
    struct dli_lane_job *job;

    while ((job = take(lanes, 1)))
        dli_lanes_fail(job, DLOCK_CLOSED, "the client was closed");
}

/* ---- back */

static void post(struct dli_lane_job *job)
{
    struct dli_lane *lane = job->lane;

    pthread_mutex_lock(&lane->lanes->mutex);
    dli_list_append(&lane->outbox, &job->link);
    pthread_mutex_unlock(&lane->lanes->mutex);
    dli_wake_set(lane->wake_fd);
}

void dli_lanes_finish(struct dli_lane_job *job)
{
    struct dli_request *request = job->request;

    if (request->verb == DLI_VERB_EXCHANGE) {
        request->exchange.answer.status = request->status;
        request->exchange.answer.sent = request->sent;
        request->exchange.answer.refused = request->refused;
        request->exchange.answer.repeated = request->repeated;
    }
    dli_list_remove(&job->link);
    if (job->sleeps) {
        uint32_t *word = &job->lane->lanes->words[job->slot];

        __atomic_store_n(&job->done, 1, __ATOMIC_RELEASE); /* the job may be gone from here on */
        __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
        dli_futex_wake(word, INT32_MAX);
    } else if (job->lane->index > 0) {
        post(job);
    } else if (request->done) {
        request->done(request);
    }
}

void dli_lanes_fail(struct dli_lane_job *job, dlock_status status, const char *sentence)
{
    struct dli_request *request = job->request;

    request->status = status;
    if (request->reason && sentence)
        dli_fail(request->reason, status, "%s", sentence);
    dli_lanes_finish(job);
}

void dli_lane_give_back(struct dli_lane *lane)
{
    struct dli_link *link;

    for (;;) {
        struct dli_request *request;

        pthread_mutex_lock(&lane->lanes->mutex);
        link = dli_list_pop(&lane->outbox);
        pthread_mutex_unlock(&lane->lanes->mutex);
        if (!link)
            return;
        request = DLI_OBJECT(link, struct dli_lane_job, link)->request;
        if (request->done)
            request->done(request);
    }
}

void dli_lane_end(struct dli_lane *lane)
{
    uint32_t *over = &lane->lanes->over;

    if (lane->index == 0) {
        __atomic_store_n(over, 1, __ATOMIC_RELEASE);
        dli_futex_wake(over, INT32_MAX);
    }
    while (!__atomic_load_n(over, __ATOMIC_ACQUIRE))
        dli_futex_sleep(over, 0);
    dli_lane_give_back(lane);
}

int dli_lane_sleep(struct dli_lane *lane)
{
    struct dli_lanes *lanes = lane->lanes;
    int work;

    pthread_mutex_lock(&lanes->mutex);
    work = !dli_list_empty(&lane->outbox) || (lane->index == 0 && !dli_list_empty(&lanes->inbox));
    lane->sleeping = !work;
    pthread_mutex_unlock(&lanes->mutex);
    return work ? -1 : 0;
}

void dli_lane_awake(struct dli_lane *lane)
{
    pthread_mutex_lock(&lane->lanes->mutex);
    lane->sleeping = 0;
    pthread_mutex_unlock(&lane->lanes->mutex);
}
