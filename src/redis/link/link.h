/*
 * link.h: what link/ offers: one connection to one server, from the name in a URL to bytes in both directions.
 *
 *   conn.h            the connection itself: resolve, connect, TLS, handshake, send, receive
 *   config.h          what the options say of connections
 *   connect_budget.h  how often a client may try to connect
 *   sentinel.h        which server is the primary, as sentinels say
 *   tls.h             whom a client trusts, and who it is
 */
#ifndef DLI_REDIS_LINK_LINK_H
#define DLI_REDIS_LINK_LINK_H

#include "config.h"
#include "conn.h"
#include "connect_budget.h"
#include "sentinel.h"
#include "tls.h"

#endif
