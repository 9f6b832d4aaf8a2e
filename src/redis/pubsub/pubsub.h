/*
 * pubsub.h: the interface of pubsub/: the subscriber connection, who receives from it, and the meaning of the messages on it.
 */
#ifndef DLI_REDIS_PUBSUB_PUBSUB_H
#define DLI_REDIS_PUBSUB_PUBSUB_H

#include "listener.h"
#include "messages.h"
#include "subscriber.h"

#endif
