/*
 * conn_inner.h: shared by the files of a connection: conn.c, conn_open.c, conn_io.c, tls.c.
 */
#ifndef DLI_NET_CONN_INNER_H
#define DLI_NET_CONN_INNER_H

#include "conn.h"
#include "protocol.h"

/* Close the current descriptor, TLS session or look-up, and use fd from now on. */
void dli_conn_use(struct dli_conn *conn, int fd);

/* The socket is connected, and secure if it has to be: begin the handshake of the protocol. */
void dli_conn_greet(struct dli_conn *conn);

#endif
