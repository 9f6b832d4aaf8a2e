/*
 * grpc.h: the interface of grpc/: calls over HTTP/2 to one of several members. HTTP/2 is nghttp2's; the connection is that
 * of net/.
 *
 * What a member may cost is bounded: bytes of a message by its method, of all that is under way, of headers, and of what it does
 * not read. A member that goes beyond is left.
 *
 * A channel belongs to one thread. It keeps one connection to one member, and goes on to the next one when that fails or
 * does not answer. A call that has begun before the connection is up waits for it, until its deadline. When the connection
 * is lost, all its calls end.
 */
#ifndef DLI_ETCD_GRPC_GRPC_H
#define DLI_ETCD_GRPC_GRPC_H

#include "base/buffer.h"
#include "base/list.h"
#include "net/net.h"

typedef struct nghttp2_session nghttp2_session;

struct dli_grpc_call;

/* What a call is for. Neither function may free the channel. */
struct dli_grpc_method {
    const char *path; /* "/etcdserverpb.KV/Txn" */
    int streaming;    /* both sides go on until the call is ended */
    int leader;       /* the member must be in touch with the leader as long as the stream lasts */
    int secret;       /* what is said is wiped afterwards */
    size_t most;      /* bytes of one message that comes; 0: few */

    /* A message of a streaming call came, without its head. */
    void (*message)(struct dli_grpc_call *call, const char *bytes, size_t size);

    /* The call has ended and is out of the channel: status, code, text and sent are set; the answer is in in. */
    void (*ended)(struct dli_grpc_call *call);
};

/* Zero it, then fill in method, deadline and the first message in out. */
struct dli_grpc_call {
    const struct dli_grpc_method *method;
    int64_t deadline;      /* INT64_MAX: none */
    struct dli_buffer out; /* framed messages: streaming: those that still have to be sent */
    struct dli_buffer in;  /* bytes of messages, with their heads */
    dlock_status status;   /* results */
    int code;              /* of gRPC, when the server gave one; else -1 */
    int sent;              /* the server may have got it */
    dlock_error reason;    /* not DLOCK_OK: a sentence that names the member */
    struct dli_grpc *grpc; /* the channel's own from here on */
    struct dli_link link;
    int32_t stream; /* 0: it waits for the connection */
    int answered;   /* grpc-status came */
    int64_t began;
    int64_t stuck;            /* streaming: since then there is something to send; 0: there is nothing */
    size_t given, heads;      /* bytes of out that were sent; of headers that came */
    const char *asked, *came; /* the call has ended: its request, and the bytes that came */
    size_t asked_size, came_size;
    char said[256]; /* grpc-message, as it came: only for dli_grpc_says */
    char text[200]; /* the same for people: escaped, without password and token */
};

struct dli_grpc {
    const struct dli_conn_config *member; /* count of them; of the owner */
    int count, at;
    struct dli_budget *budget;
    const char *token;         /* metadata of all calls; NULL: none. Of the owner */
    const char *password;      /* no message repeats it, nor the token; "" or NULL: none. Of the owner */
    void (*up)(void *owner);   /* the connection is up: called before any waiting call is sent */
    void (*down)(void *owner); /* it is lost; its calls have ended */
    void *owner;
    struct dli_conn *conn;
    nghttp2_session *session; /* NULL: not connected */
    struct dli_link waiting, flying;
    int64_t heard;   /* when bytes came last */
    int64_t next_at; /* connect not before */
    int hold;        /* of the owner: waiting calls are not sent */
    int shut;
    int64_t pinged;       /* not 0: the member's ping came then and is not answered yet */
    uint8_t ping[8];      /* what it has said */
    int64_t farewell;     /* not 0: the member stops; its calls under way may end until then, and no new ones begin */
    const char *leaves;   /* not NULL: why this member is given up */
    dlock_status refused; /* and with which status; DLOCK_OK: it is not reachable */
    dlock_error reason;   /* of the last failure to connect */
    int64_t dropping;     /* not 0: since then the member only says that it drops what it is asked */
    size_t taken;         /* bytes that came for calls under way */
    int excess;           /* the member has sent more than it may */
};

/* The members' configs, budget and hooks are set. 0, or -1 without memory. */
int dli_grpc_init(struct dli_grpc *grpc);
void dli_grpc_fini(struct dli_grpc *grpc);

/* The protocol, for the configs of the members. */
extern const struct dli_protocol dli_grpc_protocol;

/* Begin a call, anew if it is on its way. It is in the channel until ended runs or dli_grpc_cancel. */
void dli_grpc_begin(struct dli_grpc *grpc, struct dli_grpc_call *call);

/* The same, ahead of all that waits and of hold. */
void dli_grpc_begin_first(struct dli_grpc *grpc, struct dli_grpc_call *call);

/* A streaming call has more in out. */
void dli_grpc_more(struct dli_grpc_call *call);

/* The call ends now, and its ended does not run. Nothing happens when it is not in the channel. */
void dli_grpc_cancel(struct dli_grpc_call *call);

/* Free what the call has allocated. */
void dli_grpc_call_free(struct dli_grpc_call *call);

/* Give up this member with the next step: its calls end, and the next member is tried. why is constant. */
void dli_grpc_leave(struct dli_grpc *grpc, const char *why);

/* The same with a status for its calls and for those that wait. The budget then allows a pause. */
void dli_grpc_refuse(struct dli_grpc *grpc, dlock_status status, const char *why);

/* All that is possible now. alarm: when to step again. */
void dli_grpc_step(struct dli_grpc *grpc, int64_t now);
int64_t dli_grpc_alarm(const struct dli_grpc *grpc);

/* Send what there is, and wait for the answers to calls that fly, until deadline. */
void dli_grpc_drain(struct dli_grpc *grpc, int64_t deadline);

/* All calls end with DLOCK_CLOSED, also those that begin meanwhile. It is not stepped any more. */
void dli_grpc_shut(struct dli_grpc *grpc);

/* The server has refused the call, and done nothing. */
int dli_grpc_refused(const struct dli_grpc_call *call);

/* Whether the server's sentence has this phrase. Nobody else looks at what it said. */
int dli_grpc_says(const struct dli_grpc_call *call, const char *phrase);

/* While ended runs: the message of a unary call's answer, NULL: it has none; and that of its request, with its head. */
const char *dli_grpc_answer(const struct dli_grpc_call *call, size_t *size);
const char *dli_grpc_asked(const struct dli_grpc_call *call, size_t *size);

#endif
