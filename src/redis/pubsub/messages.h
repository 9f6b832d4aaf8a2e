/*
 * messages.h: what is said on channels, and for which lock.
 *
 * Own channel of a client: "grant <number> <seq> <token> <lock>" for a mutex and "fair ..." for a fair lock, "open <number>
 * <ms> <lock>" and "gate <ms> <lock>". Redisson's channels: any message is a hint to look again. Messages that do not parse
 * are dropped: every waiter also looks for itself.
 */
#ifndef DLI_REDIS_PUBSUB_MESSAGES_H
#define DLI_REDIS_PUBSUB_MESSAGES_H

#include "store/store.h"

/* Room for the name of a client's own channel, and that name. */
enum { DLI_OWN_CHANNEL_MAX = DLI_UUID_SIZE + 16 };
void dli_own_channel(char out[DLI_OWN_CHANNEL_MAX], const char *uuid);

/* A message on a channel; own: it is the client's. Hooks granted, gate and hint tell. */
void dli_message_dispatch(const struct dli_store *store, int own, const char *channel, size_t channel_size,
                          const char *text, size_t size);

/* Call tell for every lock that may be listened to on the channel. */
void dli_message_channel(const struct dli_store *store, const char *channel, size_t size,
                         void (*tell)(void *owner, const struct dli_message_target *heard));

#endif
