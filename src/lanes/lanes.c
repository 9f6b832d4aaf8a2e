/*
 * lanes.c: jobs come in and go back. Mutex: see lanes.h.
 */
#include "lanes.h"

#include <stdlib.h>

#include "base/error.h"

void dli_lanes_init(struct dli_lanes *lanes, const struct dli_lanes_ops *ops)
{
    lanes->ops = ops;
    pthread_mutex_init(&lanes->turn, NULL);
    pthread_mutex_init(&lanes->mutex, NULL);
    dli_list_init(&lanes->inbox);
    dli_standin_init(&lanes->standin);
}

void dli_lanes_fini(struct dli_lanes *lanes)
{
    dli_standin_fini(&lanes->standin);
    pthread_mutex_destroy(&lanes->mutex);
    pthread_mutex_destroy(&lanes->turn);
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

/* lanes.mutex held: a job was put into the inbox. Who has to be woken for it. */
static void find_who_wakes(struct dli_lanes *lanes, int *wake, int *rouse)
{
    struct dli_lane *first = lanes->lane[0];

    if (!first->sleeping || dli_standin_sees(&lanes->standin, rouse))
        return;
    first->sleeping = 0;
    *wake = 1;
}

static dlock_status push(struct dli_lane *lane, struct dli_lane_job *job)
{
    struct dli_lanes *lanes = lane->lanes;
    struct dli_request *request = job->request;
    int shut, wake = 0, rouse = 0;

    job->lane = lane;
    request->status = DLOCK_OK;
    request->sent = request->refused = request->repeated = request->torn = 0;
    pthread_mutex_lock(&lanes->mutex);
    shut = lanes->shut;
    if (!shut) {
        dli_list_append(&lanes->inbox, &job->link);
        __atomic_add_fetch(&lanes->under_way, 1, __ATOMIC_RELAXED);
        find_who_wakes(lanes, &wake, &rouse);
    }
    pthread_mutex_unlock(&lanes->mutex);
    if (shut)
        return DLOCK_CLOSED;
    if (wake)
        dli_wake_set(lanes->lane[0]->wake_fd);
    if (rouse)
        dli_seat_rouse(&lanes->standin.seat);
    __atomic_add_fetch(&lanes->commands, 1, __ATOMIC_RELAXED);
    return DLOCK_OK;
}

dlock_status dli_lane_push(struct dli_lane *lane, struct dli_lane_job *job)
{
    job->sleeps = job->stands = 0;
    return push(lane, job);
}

/* Beside other jobs a stand-in gains nothing: lane 0 is awake for them. */
static int may_stand(struct dli_lanes *lanes)
{
    return !__atomic_load_n(&lanes->under_way, __ATOMIC_RELAXED) && dli_standin_begin(lanes);
}

static void fail_closed(struct dli_request *request)
{
    request->status = DLOCK_CLOSED;
    if (request->verb == DLI_VERB_EXCHANGE)
        request->exchange.answer = (struct dli_answer){.status = DLOCK_CLOSED};
}

void dli_lane_execute(struct dli_lane *lane, struct dli_lane_job *job)
{
    struct dli_lanes *lanes = lane->lanes;
    uint32_t *word;

    job->sleeps = 1;
    job->stands = may_stand(lanes);
    job->slot = (int)(__atomic_fetch_add(&lanes->slots, 1, __ATOMIC_RELAXED) % DLI_LANES_WORDS);
    word = &lanes->words[job->slot];
    __atomic_store_n(&job->done, 0, __ATOMIC_RELAXED);
    if (push(lane, job) != DLOCK_OK) {
        fail_closed(job->request);
        __atomic_store_n(&job->done, 1, __ATOMIC_RELAXED);
    }
    if (job->stands)
        dli_standin_wait(lanes, job);
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

/* The job may be gone afterwards. */
static void wake_sleeper(struct dli_lane_job *job)
{
    struct dli_lanes *lanes = job->lane->lanes;
    uint32_t *word = &lanes->words[job->slot];
    int own = lanes->standin.own == job, stands = job->stands;

    __atomic_store_n(&job->done, 1, __ATOMIC_RELEASE);
    if (own)
        return;
    __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
    dli_futex_wake(word, INT32_MAX);
    if (stands)
        dli_seat_rouse(&lanes->standin.seat);
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
    __atomic_sub_fetch(&job->lane->lanes->under_way, 1, __ATOMIC_RELAXED);
    if (job->sleeps)
        wake_sleeper(job);
    else if (job->lane->index > 0)
        post(job);
    else if (request->done)
        request->done(request);
}

void dli_lanes_fail(struct dli_lane_job *job, dlock_status status, const char *sentence)
{
    struct dli_request *request = job->request;

    request->status = status;
    if (request->reason && sentence)
        dli_fail(request->reason, status, "%s", sentence);
    dli_lanes_finish(job);
}

/* Run done of the jobs that came back. */
static void give_back(struct dli_lane *lane)
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

/* ---- the lane's thread */

void dli_lane_step(struct dli_lane *lane, int64_t now)
{
    give_back(lane);
    if (lane->index == 0)
        lane->lanes->ops->step(lane->lanes, now);
}

int64_t dli_lane_alarm(const struct dli_lane *lane)
{
    struct dli_lanes *lanes = lane->lanes;

    if (lane->index > 0)
        return INT64_MAX;
    lanes->standin.announced = lanes->ops->alarm(lanes);
    return lanes->standin.announced;
}

int dli_lane_sleep(struct dli_lane *lane, struct pollfd *fds)
{
    struct dli_lanes *lanes = lane->lanes;
    int first = lane->index == 0, work, manned, count = 0;

    pthread_mutex_lock(&lanes->mutex);
    work = !dli_list_empty(&lane->outbox) || (first && !dli_list_empty(&lanes->inbox));
    lane->sleeping = !work;
    manned = lanes->standin.manned;
    pthread_mutex_unlock(&lanes->mutex);
    if (first) {
        count = dli_standin_poll(lanes, manned, fds);
        pthread_mutex_unlock(&lanes->turn);
        if (!work)
            dli_standin_invite(lanes);
    }
    return work ? -1 : count;
}

void dli_lane_awake(struct dli_lane *lane)
{
    if (lane->index == 0)
        pthread_mutex_lock(&lane->lanes->turn);
    pthread_mutex_lock(&lane->lanes->mutex);
    lane->sleeping = 0;
    pthread_mutex_unlock(&lane->lanes->mutex);
}

static void end_first(struct dli_lanes *lanes)
{
    dli_standin_dismiss(lanes);
    pthread_mutex_unlock(&lanes->turn);
    __atomic_store_n(&lanes->over, 1, __ATOMIC_RELEASE);
    dli_futex_wake(&lanes->over, INT32_MAX);
}

void dli_lane_end(struct dli_lane *lane)
{
    uint32_t *over = &lane->lanes->over;

    if (lane->index == 0)
        end_first(lane->lanes);
    while (!__atomic_load_n(over, __ATOMIC_ACQUIRE))
        dli_futex_sleep(over, 0);
    give_back(lane);
}
