/*
 * listener.h: a caller that sleeps receives the messages in place of the loop. The message that it waits for then wakes
 * one thread instead of two. There is one listener at a time. While there is one, the loop does not wait for messages,
 * but it receives those that it finds when it is awake.
 *
 * The loop waits for the socket through a relay (sys.h), which a listener can turn off and on without waking the loop.
 *
 * The seat (sys.h) is the listener's place. The mutex that the loop holds while it is awake guards the rest; a listener
 * holds no other mutex when it takes this one.
 */
#ifndef DLI_REDIS_PUBSUB_LISTENER_H
#define DLI_REDIS_PUBSUB_LISTENER_H

#include <poll.h>
#include <pthread.h>

#include "subscriber.h"
#include "sys/sys.h"

struct dli_listener {
    struct dli_subscriber *sub;
    pthread_mutex_t *mutex;
    struct dli_seat seat; /* its relay is that of the subscriber's socket */
    int64_t ups;          /* the subscription of the relay */
    int aside;            /* the loop does not wait for messages now */
    int shut;
};

void dli_listener_init(struct dli_listener *listener, struct dli_subscriber *sub, pthread_mutex_t *mutex);
void dli_listener_fini(struct dli_listener *listener);

/* Any thread: 1: this thread is the listener now, and must call dli_listener_wait next. */
int dli_listener_take(struct dli_listener *listener);

/*
 * Sleep until somebody rings, or until deadline (-1: none), and receive messages meanwhile: hooks run on this thread, and
 * may ring. DLI_WAIT_*; WOKEN may be spurious. This thread is the listener no more afterwards.
 */
int dli_listener_wait(struct dli_listener *listener, int64_t deadline);

/* Any thread: wake the listener. */
void dli_listener_ring(struct dli_listener *listener);

/* ---- the loop's thread */

/* What it waits for instead of the subscriber's socket. */
struct pollfd dli_listener_poll(struct dli_listener *listener);

/* Nobody can listen any more. mutex held. */
void dli_listener_shut(struct dli_listener *listener);

#endif
