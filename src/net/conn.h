/*
 * conn.h: one connection to one server: resolve, connect, TLS, the handshake of its protocol, then bytes in both
 * directions.
 *
 * A connection belongs to one thread at a time. An event loop drives it with dli_conn_start, dli_conn_step and
 * dli_conn_flush, which never block. Or its caller opens it with dli_conn_open, which blocks up to an absolute deadline.
 * Deadlines and times are those of dli_now.
 *
 * Sockets are close-on-exec, never raise SIGPIPE, and have TCP_NODELAY and keepalive.
 */
#ifndef DLI_NET_CONN_H
#define DLI_NET_CONN_H

#include "base/url.h"
#include "base/error.h"
#include "base/buffer.h"
#include "busy.h"

struct dli_address;
struct dli_protocol;
struct dli_reader;
struct dli_reply_room;
struct dli_sentinel_search;
struct dli_sentinels;
struct dli_tls;
struct dli_tls_session;
struct pollfd;

/* The configuration of all connections of a client; owned by the client, constant while connections exist. */
struct dli_conn_config {
    const struct dli_protocol *protocol;
    struct dli_target target;
    const char *username, *password, *client_name; /* "" for none; name becomes "dlock" or "dlock-<client_name>" */
    int db;                                        /* of Redis */
    int64_t connect_timeout;                       /* microseconds for all of it: resolve, connect, TLS, handshake */
    int64_t busy_poll;               /* microseconds that a blocking caller polls busily before it sleeps */
    int leave;                       /* of Redis: a server that takes no writes is the wrong one, so leave it */
    struct dli_reply_room *replies;  /* of Redis: what answers may use; NULL: no bound */
    struct dli_sentinels *sentinels; /* NULL, or what knows where target is; of redis/link */
    struct dli_tls *tls;             /* NULL: plain */
};

enum dli_conn_state {
    DLI_CONN_IDLE,
    DLI_CONN_SEARCHING,
    DLI_CONN_RESOLVING,
    DLI_CONN_CONNECTING,
    DLI_CONN_SECURING,
    DLI_CONN_HANDSHAKE,
    DLI_CONN_READY,
    DLI_CONN_FAILED
};

struct dli_conn {
    const struct dli_conn_config *config;
    enum dli_conn_state state;
    int fd;           /* what to poll: the resolver's wake descriptor while RESOLVING, then the socket; -1: none */
    int want_write;   /* poll for writing too */
    int64_t deadline; /* while not READY: call dli_conn_step then at the latest */
    struct dli_buffer out;
    dlock_error reason; /* FAILED: the status, and a sentence that names the server */
    /* the transport's own fields follow */
    struct dli_tls_session *tls;     /* NULL: plain */
    const struct dli_target *target; /* the server, as far as it is known */
    struct dli_resolve *resolve;     /* the look-up under way, which owns fd then; else NULL */
    struct dli_address *addresses;   /* DLI_ADDRESS_MAX of them */
    int addr_next, addr_count;
    int addr_known;          /* how many of them the last answered look-up gave */
    int connect_error;       /* the errno of the last address that failed */
    int64_t give_up;         /* while not READY: when all attempts end */
    int64_t receive_timeout; /* SO_RCVTIMEO as set now, microseconds; 0 for none */
    /* what follows is the protocol's: here that of redis/link */
    struct dli_reader *reader;
    struct dli_sentinel_search *search; /* NULL: config->target is the server */
    unsigned unanswered;                /* handshake commands without a reply yet, see handshake.c */
    struct dli_busy busy;               /* how busy polling went */
    int drained;                        /* the last read took all that was there */
};

/* Memory for one connection, IDLE. NULL without memory. */
struct dli_conn *dli_conn_new(const struct dli_conn_config *config);

/* Close and free. Never blocks. NULL is fine. */
void dli_conn_free(struct dli_conn *conn);

/* Close the socket and drop all bytes in both directions; state becomes IDLE. */
void dli_conn_close(struct dli_conn *conn);

/* Whether search, look-up, connect, TLS or handshake is under way. */
int dli_conn_under_way(const struct dli_conn *conn);

/* ---- driven by an event loop */

/* What to poll. */
struct pollfd dli_conn_poll(const struct dli_conn *conn);

/* From IDLE or FAILED: begin to connect. What out held is dropped. The state is not IDLE afterwards. */
void dli_conn_start(struct dli_conn *conn, int64_t now);

/* Continue to connect as far as possible without blocking. FAILED when the connect timeout is over. */
void dli_conn_step(struct dli_conn *conn, int64_t now);

/*
 * READY: send as much of conn->out as the socket takes, and set want_write. FAILED on error. Does nothing on a FAILED
 * connection, which keeps its first reason.
 */
void dli_conn_flush(struct dli_conn *conn);

/* ---- driven by its caller */

/* Connect, handshake included, blocking up to deadline or the connect timeout, whichever is earlier. */
dlock_status dli_conn_open(struct dli_conn *conn, int64_t deadline);

/* Close, and set FAILED with "The server <target> <what>: <detail>."; detail may be NULL. */
void dli_conn_fail(struct dli_conn *conn, dlock_status status, const char *what, const char *detail);

/* Sleep until fd is ready for events, a signal, or deadline (at most a millisecond late). */
void dli_conn_wait(const struct dli_conn *conn, short events, int64_t deadline);

#endif
