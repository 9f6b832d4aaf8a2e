/*
 * standin.c: a caller that does the work of lane 0 while it waits, see lanes.h. What it waits for then comes without another
 * thread: that saves two wake-ups for each answer.
 *
 * Lane 0 sleeps meanwhile, through a relay (sys.h) that is off. It still wakes for timers, renewals and its alarm. A
 * stand-in that finds it awake leaves, so that neither waits for the other. The last to leave the connection is lane 0: a
 * stand-in that leaves turns the relay on, or wakes lane 0 to do so.
 *
 * lanes.mutex guards manned, dozing and asked; the turn guards the rest, except for the seat, which guards itself. A stand-in takes the
 * turn only by trylock, and with no mutex held: hooks run under it.
 */
#include "lanes.h"

void dli_standin_init(struct dli_standin *standin)
{
    *standin = (struct dli_standin){.fd = -1};
    dli_seat_init(&standin->seat);
}

void dli_standin_fini(struct dli_standin *standin)
{
    dli_seat_fini(&standin->seat);
}

int dli_standin_sees(struct dli_standin *standin, int *rouse)
{
    *rouse = standin->manned && standin->dozing;
    standin->dozing = 0;
    return standin->manned;
}

/* ---- lane 0 */

/* The relay is that of the only connection. */
static int is_current(const struct dli_lanes *lanes)
{
    const struct dli_standin *standin = &lanes->standin;

    return standin->seat.relay >= 0 && standin->ups == lanes->ups && lanes->ops->sole(lanes) == standin->fd;
}

/* Whoever stands in has to leave, and nobody may begin. */
static void send_away(struct dli_standin *standin)
{
    dli_seat_close_relay(&standin->seat);
    if (standin->aside)
        dli_seat_rouse(&standin->seat);
    standin->aside = 0;
}

/* The connection is a new one, or there is none. 0: it has a relay. */
static int enroll(struct dli_lanes *lanes)
{
    struct dli_standin *standin = &lanes->standin;
    int fd = lanes->ops->sole(lanes);

    send_away(standin);
    if (fd < 0 || dli_seat_open_relay(&standin->seat, fd))
        return -1;
    standin->fd = fd;
    standin->ups = lanes->ups;
    return 0;
}

/* Lane 0 waits for bytes again. 0, or -1 (errno). */
static int put_back(struct dli_standin *standin)
{
    standin->aside = 0;
    return dli_relay_turn(standin->seat.relay, standin->fd, 1);
}

int dli_standin_poll(struct dli_lanes *lanes, int manned, struct pollfd *fds)
{
    struct dli_standin *standin = &lanes->standin;
    int offered = is_current(lanes) || enroll(lanes) == 0;

    if (offered && standin->aside && !manned && put_back(standin)) {
        send_away(standin);
        offered = 0;
    }
    dli_seat_offer(&standin->seat, offered);
    if (!offered)
        return lanes->ops->poll(lanes, fds);
    dli_relay_poll(standin->seat.relay, fds);
    return 1;
}

void dli_standin_invite(struct dli_lanes *lanes)
{
    struct dli_standin *standin = &lanes->standin;
    int asked;

    if (standin->seat.relay < 0) /* the seat is not offered; nobody else changes that */
        return;
    pthread_mutex_lock(&lanes->mutex);
    asked = standin->asked;
    standin->asked = 0;
    pthread_mutex_unlock(&lanes->mutex);
    if (asked)
        dli_seat_rouse(&standin->seat);
}

void dli_standin_dismiss(struct dli_lanes *lanes)
{
    dli_seat_offer(&lanes->standin.seat, 0);
    send_away(&lanes->standin);
}

/* ---- the stand-in */

/* The seat is taken. 1: this thread has the turn, and lane 0 does not wait for bytes. */
static int begin(struct dli_lanes *lanes)
{
    struct dli_standin *standin = &lanes->standin;

    if (pthread_mutex_trylock(&lanes->turn))
        return 0;
    if (lanes->shut || !is_current(lanes) || dli_relay_turn(standin->seat.relay, standin->fd, 0)) {
        pthread_mutex_unlock(&lanes->turn);
        return 0;
    }
    standin->aside = 1;
    pthread_mutex_lock(&lanes->mutex);
    standin->manned = 1;
    pthread_mutex_unlock(&lanes->mutex);
    return 1;
}

/* The turn is held, or was not to be had: lane 0 goes on alone. */
static void leave(struct dli_lanes *lanes, int held)
{
    struct dli_standin *standin = &lanes->standin;
    int wake;

    pthread_mutex_lock(&lanes->mutex);
    standin->manned = 0;
    wake = !held || !dli_list_empty(&lanes->inbox);
    pthread_mutex_unlock(&lanes->mutex);
    if (held) {
        wake |= !standin->aside || !is_current(lanes) || put_back(standin);
        wake |= lanes->ops->alarm(lanes) < standin->announced;
        pthread_mutex_unlock(&lanes->turn);
    }
    if (wake)
        dli_wake_set(lanes->lane[0]->wake_fd);
}

/* The turn is held. 1: it may sleep, and is roused for new jobs. 0: there are some. */
static int doze(struct dli_lanes *lanes)
{
    int dozing;

    pthread_mutex_lock(&lanes->mutex);
    dozing = lanes->standin.dozing = dli_list_empty(&lanes->inbox);
    pthread_mutex_unlock(&lanes->mutex);
    return dozing;
}

/* The turn is held, and released meanwhile. *held: it was to be had again. DLI_WAIT_*. */
static int sleep_until(struct dli_lanes *lanes, int64_t deadline, int *held)
{
    struct dli_standin *standin = &lanes->standin;
    int64_t alarm = lanes->ops->alarm(lanes);
    int fd = standin->fd, how;

    pthread_mutex_unlock(&lanes->turn);
    how = dli_seat_sleep(&standin->seat, fd, alarm < deadline ? alarm : deadline);
    pthread_mutex_lock(&lanes->mutex);
    standin->dozing = 0;
    pthread_mutex_unlock(&lanes->mutex);
    *held = pthread_mutex_trylock(&lanes->turn) == 0;
    return how == DLI_WAIT_TIMEOUT && alarm < deadline ? DLI_WAIT_WOKEN : how;
}

/* The turn is held. 0: lane 0 has to go on. */
static int step(struct dli_lanes *lanes, const struct dli_lane_job *job)
{
    struct dli_standin *standin = &lanes->standin;

    if (lanes->shut || !standin->aside || !is_current(lanes))
        return 0;
    standin->own = job;
    dli_seat_work(&standin->seat, 1);
    lanes->ops->step(lanes, dli_now());
    dli_seat_work(&standin->seat, 0);
    standin->own = NULL;
    return is_current(lanes);
}

static int is_over(const struct dli_lanes *lanes, const struct dli_lane_job *job)
{
    return job ? (int)__atomic_load_n(&job->done, __ATOMIC_ACQUIRE) : dli_seat_is_rung(&lanes->standin.seat);
}

/* A stand-in that has begun: until the job is done, or, where job is NULL, somebody rings. DLI_WAIT_*. */
static int stand(struct dli_lanes *lanes, const struct dli_lane_job *job, int64_t deadline)
{
    int how = DLI_WAIT_WOKEN, held = 1, on = 1;

    while (on && !is_over(lanes, job)) {
        if (doze(lanes))
            how = sleep_until(lanes, deadline, &held);
        if (!held || (how != DLI_WAIT_WOKEN && !job))
            break;
        on = step(lanes, job);
    }
    leave(lanes, held);
    return how;
}

/* ---- for a job. A stand-in that was cancelled would leave nobody who receives. */

int dli_standin_begin(struct dli_lanes *lanes)
{
    if (!dli_seat_take(&lanes->standin.seat))
        return 0;
    if (begin(lanes))
        return 1;
    dli_seat_leave(&lanes->standin.seat);
    return 0;
}

void dli_standin_wait(struct dli_lanes *lanes, const struct dli_lane_job *job)
{
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    stand(lanes, job, INT64_MAX);
    pthread_setcancelstate(state, &state);
    dli_seat_leave(&lanes->standin.seat);
}

/* ---- for a grant */

int dli_lanes_may_listen(struct dli_lanes *lanes)
{
    return dli_seat_take(&lanes->standin.seat);
}

/*
 * The turn was not to be had: try again, and then wait for the bell alone. Lane 0 looks at asked after it has given up the
 * turn: so either that is seen, or the second try succeeds.
 */
static int begin_or_ask(struct dli_lanes *lanes)
{
    if (begin(lanes))
        return 1;
    pthread_mutex_lock(&lanes->mutex);
    lanes->standin.asked = 1;
    pthread_mutex_unlock(&lanes->mutex);
    return begin(lanes);
}

/* The same as dli_lanes_listen, on a thread that cannot be cancelled. */
static int listen_until(struct dli_lanes *lanes, int64_t deadline)
{
    struct dli_standin *standin = &lanes->standin;
    int how = DLI_WAIT_WOKEN;

    while (how == DLI_WAIT_WOKEN && !dli_seat_is_rung(&standin->seat))
        how = begin_or_ask(lanes) ? stand(lanes, NULL, deadline) : dli_seat_sleep(&standin->seat, -1, deadline);
    return how;
}

int dli_lanes_listen(struct dli_lanes *lanes, int64_t deadline)
{
    int state, how;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    how = listen_until(lanes, deadline < 0 ? INT64_MAX : deadline);
    pthread_setcancelstate(state, &state);
    dli_seat_leave(&lanes->standin.seat);
    return how;
}

void dli_lanes_ring(struct dli_lanes *lanes)
{
    dli_seat_ring(&lanes->standin.seat);
}
