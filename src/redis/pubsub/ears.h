/*
 * ears.h: a client's own channels: one for each namespace in which it waits. The name of a channel has the namespace in it, so that
 * rights on the server can be for one namespace: "dlock_client:<uuid>", or "dlock_client:<namespace>:<uuid>". Scripts make it from
 * the lock's name and the waiter's id, whose uuid tells the size of the namespace: see base/id.h and give.lua.
 *
 * mutex guards the list while it grows. It never shrinks, so anybody may walk it: first and next are atomics.
 */
#ifndef DLI_REDIS_PUBSUB_EARS_H
#define DLI_REDIS_PUBSUB_EARS_H

#include <pthread.h>
#include <stddef.h>

#include "base/id.h"

enum { DLI_EAR_HEAD = 13 }; /* the size of "dlock_client:" */

struct dli_ear {
    struct dli_ear *next;
    size_t space, size; /* of the namespace with its colon, 0: none; of the name */
    char name[];        /* the channel's, terminated */
};

struct dli_ears {
    pthread_mutex_t mutex;
    struct dli_ear *first, *last;
    const char *uuid; /* of the client */
};

void dli_ears_init(struct dli_ears *ears, const char *uuid);
void dli_ears_fini(struct dli_ears *ears);

/* Any thread: the client waits for this lock, the first space bytes of whose name are its namespace. 1: that is a new channel. */
int dli_ears_add(struct dli_ears *ears, const char *lock, size_t space);

/* The own channel of this name, or NULL. */
const struct dli_ear *dli_ears_find(const struct dli_ears *ears, const char *channel, size_t size);

/* The one behind ear, or the first one behind NULL; NULL: there is none yet. */
struct dli_ear *dli_ears_next(const struct dli_ears *ears, const struct dli_ear *ear);

/* The namespace of a channel, with its colon; ear->space bytes. */
static inline const char *dli_ear_space(const struct dli_ear *ear)
{
    return ear->name + DLI_EAR_HEAD;
}

#endif
