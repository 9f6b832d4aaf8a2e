/*
 * conn.h: one connection to one server: resolve, connect, secure (TLS), greet (AUTH, SELECT, CLIENT SETNAME), then carry bytes.
 *
 * A connection belongs to one thread at a time and is used in one of two ways: driven by an event loop, where no call
 * blocks (dli_conn_start, dli_conn_step, dli_conn_flush, dli_conn_receive), or by its caller, where calls block up to an absolute
 * deadline (dli_conn_open, dli_conn_call). Deadlines and times are those of dli_now.
 *
 * Sockets are close-on-exec, never raise SIGPIPE, and have TCP_NODELAY and keepalive.
 */
#ifndef DLI_REDIS_LINK_CONN_H
#define DLI_REDIS_LINK_CONN_H

#include "base/url.h"
#include "base/error.h"
#include "redis/codec/codec.h"
#include "busy.h"

struct dli_address;
struct dli_tls;
struct dli_tls_session;
struct pollfd;

/* What every connection of a client is made with; owned by the client, constant while connections exist. */
struct dli_conn_config {
    struct dli_target target;
    const char *username, *password, *client_name; /* "" for none; name becomes "dlock" or "dlock-<client_name>" */
    int db;
    int64_t connect_timeout;         /* microseconds for resolve + connect + handshake + greeting */
    int64_t busy_poll;               /* microseconds that dli_conn_call asks for an answer before it sleeps */
    struct dli_sentinels *sentinels; /* NULL, or who knows where target is; sentinel.h */
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
    struct dli_reader *reader;
    struct dli_buffer out;
    dlock_error reason; /* FAILED: status and one sentence that names the server */
    /* the transport's own fields follow */
    struct dli_tls_session *tls;        /* NULL: plain */
    const struct dli_target *target;    /* the server, as far as it is known */
    struct dli_sentinel_search *search; /* NULL: config->target is the server */
    struct dli_resolve *resolve;        /* a look-up under way; owns fd then */
    struct dli_address *addresses;      /* DLI_ADDRESS_MAX of them */
    int addr_next, addr_count;
    int addr_known;          /* how many of them are from the last look-up that was answered */
    int connect_error;       /* the errno of the last address that failed */
    unsigned asked;          /* greetings that have no answer yet, see handshake.c */
    int64_t give_up;         /* while not READY: the end of all attempts */
    int64_t receive_timeout; /* SO_RCVTIMEO as set now, microseconds; 0 for none */
    int64_t last_used;       /* when the last dli_conn_call began */
    struct dli_busy busy;    /* how well busy polling went */
};

/* Memory for one connection, IDLE. NULL without memory. */
struct dli_conn *dli_conn_new(const struct dli_conn_config *config);

/* Close and free. Never blocks. NULL is fine. */
void dli_conn_free(struct dli_conn *conn);

/* Close the socket and drop all bytes in both directions; state becomes IDLE. */
void dli_conn_close(struct dli_conn *conn);

/* Whether finding, resolving, connecting, securing or greeting is under way. */
int dli_conn_under_way(const struct dli_conn *conn);

/* ---- driven by an event loop */

/* The descriptor to watch, and for what. */
struct pollfd dli_conn_poll(const struct dli_conn *conn);

/* From IDLE or FAILED: begin to connect; what out held is dropped. Ends in any state but IDLE. */
void dli_conn_start(struct dli_conn *conn, int64_t now);

/* Go on with connecting, securing and greeting as far as possible without blocking; FAILED when the connect timeout is over. */
void dli_conn_step(struct dli_conn *conn, int64_t now);

/* The next three leave a connection that is FAILED as it is, with its first reason. */

/* READY: send what conn->out holds as far as the socket takes it; sets want_write. FAILED on error. */
void dli_conn_flush(struct dli_conn *conn);

/*
 * READY: read what is there (bounded per call) into the reader. 1 bytes came, 0 nothing there, -1 now FAILED (closed by
 * peer, protocol). Take all replies with dli_conn_next before reading more: what may wait in the reader is bounded.
 */
int dli_conn_receive(struct dli_conn *conn);

/* Next reply taken in: as dli_reader_next, but -1 also sets FAILED with a sentence. */
int dli_conn_next(struct dli_conn *conn, const struct dli_reply **reply);

/* ---- driven by its caller */

/* Connect and greet, blocking up to min(deadline, connect timeout). */
dlock_status dli_conn_open(struct dli_conn *conn, int64_t deadline);

/*
 * READY: send conn->out (one command) and wait for its one reply until deadline, whatever signals arrive. DLOCK_OK with
 * *reply; else the connection is FAILED (conn->why) and *sent tells whether any byte was given to the kernel: if not,
 * the server cannot have acted. Two system calls (send, recv) when all goes well, and those of busy polling (busy.h); no poll.
 * After a second without a call one more that notices a connection the server has closed meanwhile: then *sent is 0.
 */
dlock_status dli_conn_call(struct dli_conn *conn, int64_t deadline, const struct dli_reply **reply, int *sent);

/* Close, and turn FAILED with "The server <target> <what>: <detail>."; detail may be NULL. */
void dli_conn_fail(struct dli_conn *conn, dlock_status status, const char *what, const char *detail);

/* Sleep until fd is ready for events, a signal, or deadline (at most a millisecond late). */
void dli_conn_wait(const struct dli_conn *conn, short events, int64_t deadline);

/* Whether the reply says that the server is not the primary any more that was asked for; nothing was done then. */
int dli_conn_demoted(const struct dli_conn *conn, const struct dli_reply *reply);

#endif
