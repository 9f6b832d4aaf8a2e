/*
 * link.h: the interface of link/: one connection to one server, from the name in a URL to bytes in both directions.
 *
 *   conn.h            the connection itself: resolve, connect, TLS, handshake, send, receive
 *   config.h          the configuration of connections, from options and URL
 *   connect_budget.h  how often a client may try to connect
 *   sentinel.h        finds the primary through sentinels
 *   tls.h             TLS, and the trust and identity of a client
 */
#ifndef DLI_REDIS_LINK_LINK_H
#define DLI_REDIS_LINK_LINK_H

#include "config.h"
#include "conn.h"
#include "connect_budget.h"
#include "sentinel.h"
#include "tls.h"

#endif
