/*
 * messages.h: the meaning of messages, and which lock each concerns. No state.
 *
 * A client's own channel carries "grant <number> <ticket> <token> <tokens> <lock>" for a mutex, "fair <number> <ticket>
 * <token> <tokens> <next> <lock>" for a fair lock, "open <number> <ms> <lock>", "gate <ms> <lock>" and "free <lock>". On Redisson's channels any
 * message is a hint to probe the lock. Messages that do not parse are dropped, because every waiter also probes without
 * one.
 */
#ifndef DLI_REDIS_PUBSUB_MESSAGES_H
#define DLI_REDIS_PUBSUB_MESSAGES_H

#include "ears.h"
#include "store/store.h"

/* A message on a client's own channel. name is inside its text. */
struct dli_message {
    enum { DLI_MESSAGE_GRANT, DLI_MESSAGE_FREE, DLI_MESSAGE_GATE, DLI_MESSAGE_OPEN } what;
    int32_t family;          /* of a grant: DLOCK_KIND_MUTEX or DLOCK_KIND_FAIR */
    int64_t id;              /* of a waiter; 0: of none */
    struct dli_pushed grant; /* of a grant, with its proof */
    uint64_t proof;
    const char *name;
    size_t size;
};

/* 0; or -1: it is none of them. */
int dli_message_read(const char *text, size_t size, struct dli_message *out);

/*
 * Dispatch a message; own: the client's own channel that it came on, or NULL. Calls the hooks granted, gate or hint. On an own channel
 * only locks of its namespace count: who may write to it may have no right to others.
 */
void dli_message_dispatch(const struct dli_store *store, const struct dli_ear *own, const char *channel,
                          size_t channel_size, const char *text, size_t size);

/* Call visit for every lock that may have this channel. */
void dli_message_channel(const struct dli_store *store, const char *channel, size_t size,
                         void (*visit)(void *owner, const struct dli_message_target *target));

#endif
