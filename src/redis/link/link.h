/*
 * link.h: the interface of link/: Redis over one connection of net/.
 *
 *   call.h      replies; the handshake
 *   config.h    the configuration of connections, from options and URL
 *   sentinel.h  finds the primary through sentinels
 */
#ifndef DLI_REDIS_LINK_LINK_H
#define DLI_REDIS_LINK_LINK_H

#include "call.h"
#include "config.h"
#include "net/net.h"
#include "sentinel.h"

#endif
