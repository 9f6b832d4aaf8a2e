/*
 * net.h: the interface of net/: one connection to one server, from the name in a URL to bytes in both directions. What
 * is said over it is a protocol's.
 *
 *   conn.h            the connection itself: resolve, connect, TLS, send, receive
 *   protocol.h        what a protocol adds to a connection, and what it may call
 *   connect_budget.h  how often a client may try to connect
 *   busy.h            busy polling
 *   tls.h             TLS, and the trust and identity of a client
 */
#ifndef DLI_NET_NET_H
#define DLI_NET_NET_H

#include "busy.h"
#include "conn.h"
#include "connect_budget.h"
#include "protocol.h"
#include "tls.h"

#endif
