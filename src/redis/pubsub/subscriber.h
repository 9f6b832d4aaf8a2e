/*
 * subscriber.h: the one connection on which a client hears: its own channel for grants, and Redisson's channels of locks
 * that foreign clients hold. Driven by an event loop; it connects once somebody wants it, and stays.
 *
 * mutex guards orders; wanted is an atomic; the rest belongs to the loop's thread, on which the hooks run too.
 */
#ifndef DLI_REDIS_PUBSUB_SUBSCRIBER_H
#define DLI_REDIS_PUBSUB_SUBSCRIBER_H

#include <pthread.h>

#include "redis/link/link.h"

struct dli_subscriber_hooks {
    void (*up)(void *owner);   /* the own channel is subscribed: grants will be heard */
    void (*down)(void *owner); /* they will not be; channels must be listened to anew */
    void (*listens)(void *owner, int sharded, const char *channel, size_t size);
    void (*deaf)(void *owner, int sharded, const char *channel, size_t size); /* its subscription has ended */
    void (*message)(void *owner, const char *channel, size_t channel_size, const char *text, size_t size);
    int (*refused)(void *owner, const struct dli_reply *error); /* NULL, or: 1, the connection can stay */
};

struct dli_subscriber {
    pthread_mutex_t mutex;
    struct dli_buffer orders;
    uint32_t wanted;
    int wake_fd; /* the loop's, borrowed */

    const struct dli_subscriber_hooks *hooks;
    void *owner;
    const char *channel; /* the client's own */
    struct dli_conn *conn;
    struct dli_budget *budget;
    int up;
    int failed; /* since it was up last */
    int64_t try_at;
    int64_t heard_at, asked_at; /* last bytes, last PING (0: answered) */
    int64_t patience;           /* for the answer to a PING */
};

/* 0, or -1 without memory. */
int dli_subscriber_init(struct dli_subscriber *sub, const struct dli_conn_config *config, struct dli_budget *budget,
                        const char *channel, int wake_fd, int64_t patience);
void dli_subscriber_fini(struct dli_subscriber *sub);

/* Any thread: connect if not yet done. */
void dli_subscriber_want(struct dli_subscriber *sub);

/*
 * Any thread: listen to a channel or stop to. Lost when the connection is down: the hook down tells. *listeners counts who
 * listens to the channel: the first one subscribes, the last one ends that. Guarded by mutex.
 */
void dli_subscriber_listen(struct dli_subscriber *sub, const char *channel, size_t size, int on, int64_t *listeners);

/* Any thread: subscribe to a channel, or no longer, for who counts listeners without help. */
void dli_subscriber_order(struct dli_subscriber *sub, int sharded, const char *channel, size_t size, int on);

/* The loop's thread: leave, until it is wanted again. No hook tells. */
void dli_subscriber_rest(struct dli_subscriber *sub);

/* One listener less, after the subscription was lost. */
void dli_subscriber_forget(struct dli_subscriber *sub, int64_t *listeners);

/* The loop's thread: whatever can be done now without blocking; and when it wants to run without any news. */
void dli_subscriber_step(struct dli_subscriber *sub, int64_t now);
int64_t dli_subscriber_alarm(const struct dli_subscriber *sub);

#endif
