/*
 * subscriber.h: the subscriber connection of a client. It is subscribed to the client's own channels for grants, and to
 * Redisson's channels of locks that foreign clients hold. An event loop drives it. It connects once it is wanted, and
 * stays connected.
 *
 * The server confirms what was asked for, no more: else one message of it could make a client of a quorum ask all servers. Only
 * a sharded subscription ends by itself, when its slot moves.
 *
 * mutex guards commands and owed; wanted is an atomic; the rest belongs to the loop's thread, on which the hooks also run. Where
 * there is a listener, see listener.h, the rest is guarded as it says, and hooks may run on the listener's thread.
 */
#ifndef DLI_REDIS_PUBSUB_SUBSCRIBER_H
#define DLI_REDIS_PUBSUB_SUBSCRIBER_H

#include <pthread.h>

#include "ears.h"
#include "redis/link/link.h"

struct dli_subscriber_hooks {
    void (*up)(void *owner);   /* the own channels are subscribed: grants are received from now on */
    void (*down)(void *owner); /* they are not any more, and the other subscriptions are lost */
    void (*heard)(void *owner, const struct dli_ear *ear); /* while it is up: one more of them is subscribed */
    void (*subscribed)(void *owner, int sharded, const char *channel, size_t size);
    void (*unsubscribed)(void *owner, int sharded, const char *channel, size_t size); /* the subscription has ended */
    void (*message)(void *owner, const char *channel, size_t channel_size, const char *text, size_t size);
    int (*refused)(void *owner, const struct dli_reply *error); /* NULL, or: 1, the connection can stay */
};

struct dli_subscriber {
    pthread_mutex_t mutex;
    struct dli_buffer commands;
    int64_t owed[2]; /* so many UNSUBSCRIBE and SUBSCRIBE of channels that are not sharded are not confirmed yet */
    uint32_t wanted;
    int wake_fd; /* the loop's, borrowed */

    const struct dli_subscriber_hooks *hooks;
    void *owner;
    const struct dli_ears *ears; /* the client's own channels */
    struct dli_ear *asked;       /* the last one that this connection has asked for; NULL: none yet */
    int unheard;                 /* so many of them are not confirmed yet */
    struct dli_conn *conn;
    struct dli_budget *budget;
    int up;
    int64_t ups; /* how often it has come up */
    int failed;  /* since it was up last */
    int64_t try_at;
    int64_t pause;                  /* when the connection has failed: do not try again before */
    int64_t made_at;                /* when the connection was ready */
    int64_t received_at, pinged_at; /* when bytes came last; when PING was sent, 0: no PING is unanswered */
    int64_t patience;               /* for the answer to a PING */
};

/* 0, or -1 without memory. */
int dli_subscriber_init(struct dli_subscriber *sub, const struct dli_conn_config *config, struct dli_budget *budget,
                        const struct dli_ears *ears, int wake_fd, int64_t patience);
void dli_subscriber_fini(struct dli_subscriber *sub);

/* Any thread: connect if that was not done yet. news: there is one own channel more. */
void dli_subscriber_want(struct dli_subscriber *sub, int news);

/*
 * Any thread: subscribe to a channel, or end that. Without a connection this is lost, as the hook down has reported.
 * *listeners counts the listeners of the channel, and mutex guards it: the first one subscribes, the last one
 * unsubscribes.
 */
void dli_subscriber_subscribe(struct dli_subscriber *sub, const char *channel, size_t size, int on, int64_t *listeners);

/* Any thread: subscribe or unsubscribe, for callers that count listeners themselves. */
void dli_subscriber_send(struct dli_subscriber *sub, int sharded, const char *channel, size_t size, int on);

/* The loop's thread: disconnect until it is wanted again. No hook is called. */
void dli_subscriber_disconnect(struct dli_subscriber *sub);

/* One listener less, after the subscription was lost. */
void dli_subscriber_forget(struct dli_subscriber *sub, int64_t *listeners);

/* The loop's thread: drop a connection that was made before at: it leads to a server that is not the primary. */
void dli_subscriber_leave(struct dli_subscriber *sub, int64_t at);

/*
 * The loop's thread: do what can be done now without blocking; and the time at which it wants to run without any event.
 */
void dli_subscriber_step(struct dli_subscriber *sub, int64_t now);
int64_t dli_subscriber_alarm(const struct dli_subscriber *sub);

/* Whether it is up, so that dli_subscriber_receive may be called: receive what has come, and nothing else. */
int dli_subscriber_receives(const struct dli_subscriber *sub);
void dli_subscriber_receive(struct dli_subscriber *sub, int64_t now);

#endif
