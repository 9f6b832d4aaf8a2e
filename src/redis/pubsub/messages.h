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

#include "store/store.h"

/* Room for the name of a client's own channel, and that name. */
enum { DLI_OWN_CHANNEL_MAX = DLI_UUID_SIZE + 16 };
void dli_own_channel(char out[DLI_OWN_CHANNEL_MAX], const char *uuid);

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

/* Dispatch a message; own: it came on the client's own channel. Calls the hooks granted, gate or hint. */
void dli_message_dispatch(const struct dli_store *store, int own, const char *channel, size_t channel_size,
                          const char *text, size_t size);

/* Call visit for every lock that may have this channel. */
void dli_message_channel(const struct dli_store *store, const char *channel, size_t size,
                         void (*visit)(void *owner, const struct dli_message_target *target));

#endif
