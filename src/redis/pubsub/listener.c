/*
 * listener.c: a sleeping caller that receives the messages, see listener.h, which also says what guards what.
 */
#include "listener.h"

void dli_listener_init(struct dli_listener *listener, struct dli_subscriber *sub, pthread_mutex_t *mutex)
{
    *listener = (struct dli_listener){.sub = sub, .mutex = mutex};
    dli_seat_init(&listener->seat);
}

void dli_listener_fini(struct dli_listener *listener)
{
    dli_seat_fini(&listener->seat);
}

/* ---- the loop */

/* The loop waits for messages, or only for the end of the connection. 0, or -1 (errno). */
static int turn(struct dli_listener *listener, int on)
{
    return dli_relay_turn(listener->seat.relay, listener->sub->conn->fd, on);
}

/* The subscription is a new one. A listener that waits for the last socket is sent away. */
static int enroll(struct dli_listener *listener)
{
    listener->aside = 0;
    if (dli_seat_open_relay(&listener->seat, listener->sub->conn->fd))
        return -1;
    listener->ups = listener->sub->ups;
    dli_seat_rouse(&listener->seat);
    return 0;
}

/* Messages come, and nothing has to be sent: TLS may want that, too. */
static int only_receives(const struct dli_listener *listener)
{
    return dli_subscriber_receives(listener->sub) && dli_conn_poll(listener->sub->conn).events == POLLIN;
}

struct pollfd dli_listener_poll(struct dli_listener *listener)
{
    struct pollfd socket = dli_conn_poll(listener->sub->conn);

    if (!only_receives(listener) ||
        ((listener->seat.relay < 0 || listener->ups != listener->sub->ups) && enroll(listener))) {
        dli_seat_offer(&listener->seat, 0);
        return socket;
    }
    dli_seat_offer(&listener->seat, 1);
    return (struct pollfd){.fd = listener->seat.relay, .events = POLLIN};
}

void dli_listener_shut(struct dli_listener *listener)
{
    listener->shut = 1;
    listener->aside = 0;
    dli_seat_retire(&listener->seat);
}

/* ---- the listener */

int dli_listener_take(struct dli_listener *listener)
{
    return dli_seat_take(&listener->seat);
}

void dli_listener_ring(struct dli_listener *listener)
{
    dli_seat_ring(&listener->seat);
}

/* mutex held: take the loop's place. 0: that cannot be done now. */
static int begin(struct dli_listener *listener)
{
    if (listener->shut || listener->seat.relay < 0 || listener->ups != listener->sub->ups || !only_receives(listener) ||
        turn(listener, 0))
        return 0;
    listener->aside = 1;
    return 1;
}

/* mutex held: receive. 0: the loop has to see to the connection. */
static int step(struct dli_listener *listener, int64_t ups)
{
    if (listener->shut || !listener->aside || listener->sub->ups != ups)
        return 0;
    dli_seat_work(&listener->seat, 1);
    dli_subscriber_receive(listener->sub, dli_now());
    dli_seat_work(&listener->seat, 0);
    return only_receives(listener);
}

/* mutex held: the loop waits for messages again. */
static void end(struct dli_listener *listener, int64_t ups)
{
    int whole = only_receives(listener);

    if (listener->aside && listener->sub->ups == ups) {
        listener->aside = 0;
        whole = whole && turn(listener, 1) == 0;
    }
    if (!whole && !listener->shut) {
        dli_seat_offer(&listener->seat, 0);
        dli_wake_set(listener->sub->wake_fd);
    }
}

/* The same as dli_listener_wait, on a thread that cannot be cancelled. */
static int listen_until(struct dli_listener *listener, int64_t deadline)
{
    int how = DLI_WAIT_WOKEN, on, fd;
    int64_t ups;

    pthread_mutex_lock(listener->mutex);
    ups = listener->sub->ups;
    fd = listener->sub->conn->fd;
    on = begin(listener);
    while (on && how == DLI_WAIT_WOKEN && !dli_seat_is_rung(&listener->seat)) {
        pthread_mutex_unlock(listener->mutex);
        how = dli_seat_sleep(&listener->seat, fd, deadline);
        pthread_mutex_lock(listener->mutex);
        if (how == DLI_WAIT_WOKEN)
            on = step(listener, ups);
    }
    end(listener, ups);
    pthread_mutex_unlock(listener->mutex);
    return how;
}

/* A listener that was cancelled would leave nobody who receives messages. */
int dli_listener_wait(struct dli_listener *listener, int64_t deadline)
{
    int state, how;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    how = listen_until(listener, deadline);
    pthread_setcancelstate(state, &state);
    dli_seat_leave(&listener->seat);
    return how;
}
