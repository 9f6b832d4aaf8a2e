/*
 * http2.c: one HTTP/2 session: frames to and from calls. No mutex: it belongs to the thread of its channel.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inner.h"
#include "sys/sys.h"

enum { WINDOW = 4 * 1024 * 1024, HEADERS = 10, REST = 20 * 1000 };
enum {
    HEADS_MAX = 64 * 1024,
    HEAD_COSTS = 32
}; /* bytes of all headers that come for a call, and of each besides its text */

static struct dli_grpc_call *call_of(nghttp2_session *session, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(session, stream);
}

/* ---- what comes */

static int hex(char digit)
{
    const char *digits = "0123456789abcdef", *at;

    digit = (char)(digit >= 'A' && digit <= 'F' ? digit + 'a' - 'A' : digit);
    at = digit ? strchr(digits, digit) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* grpc-message has percent escapes. */
static void read_text(struct dli_grpc_call *call, const char *value, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < size && used + 1 < sizeof call->said; i++) {
        int high = value[i] == '%' && i + 2 < size ? hex(value[i + 1]) : -1, low = high < 0 ? -1 : hex(value[i + 2]);

        call->said[used++] = low < 0 ? value[i] : (char)(high * 16 + low);
        i += low < 0 ? 0 : 2;
    }
    call->said[used] = '\0';
}

static int is(const uint8_t *name, size_t size, const char *wanted)
{
    return size == strlen(wanted) && memcmp(name, wanted, size) == 0;
}

/* The connection ends. */
static int too_much(struct dli_grpc *grpc)
{
    grpc->excess = 1;
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* The status is in the trailers, or in the only headers of an answer that has no message. */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t size, uint8_t flags, void *owner)
{
    struct dli_grpc_call *call = call_of(session, frame->hd.stream_id);

    (void)flags;
    if (!call)
        return 0;
    call->heads += name_size + size + HEAD_COSTS;
    if (call->heads > HEADS_MAX)
        return too_much(owner);
    if (is(name, name_size, "grpc-status")) {
        call->code = dli_grpc_code((const char *)value, size);
        call->answered = 1;
    } else if (is(name, name_size, "grpc-message")) {
        read_text(call, (const char *)value, size);
    } else if (is(name, name_size, ":status") && !is(value, size, "200") && !call->answered) {
        snprintf(call->said, sizeof call->said, "HTTP status %.*s", (int)(size < 8 ? size : 8), (const char *)value);
    }
    return 0;
}

/* The size of a message with its head, as its head says it; 0: the head is not there. */
static size_t said_size(const char *bytes, size_t size)
{
    const uint8_t *head = (const uint8_t *)bytes;

    if (size < DLI_GRPC_HEAD)
        return 0;
    return DLI_GRPC_HEAD + ((size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4]);
}

/* One message, whole and not compressed. */
const char *dli_grpc_answer(const struct dli_grpc_call *call, size_t *size)
{
    *size = 0;
    if (call->came_size < DLI_GRPC_HEAD || call->came[0] || said_size(call->came, call->came_size) != call->came_size)
        return NULL;
    *size = call->came_size - DLI_GRPC_HEAD;
    return call->came + DLI_GRPC_HEAD;
}

const char *dli_grpc_asked(const struct dli_grpc_call *call, size_t *size)
{
    *size = call->asked_size;
    return call->asked;
}

static size_t most_of(const struct dli_grpc_call *call)
{
    return DLI_GRPC_HEAD + (call->method->most ? call->method->most : DLI_GRPC_FEW);
}

/* Give the messages that are whole. 0; -1: one is compressed, or longer than it may be. */
static int give_messages(nghttp2_session *session, int32_t stream, struct dli_grpc_call *call)
{
    struct dli_grpc *grpc = call->grpc;
    size_t at = 0, size;

    while ((size = said_size(call->in.bytes + at, call->in.size - at)) > 0) {
        if (size > most_of(call) || call->in.bytes[at])
            return -1;
        if (size > call->in.size - at)
            break;
        call->method->message(call, call->in.bytes + at + DLI_GRPC_HEAD, size - DLI_GRPC_HEAD);
        if (call_of(session, stream) != call) /* it was cancelled */
            return 0;
        at += size;
    }
    grpc->taken -= at;
    dli_buffer_drop(&call->in, at);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t size,
                   void *owner)
{
    struct dli_grpc_call *call = call_of(session, stream);
    struct dli_grpc *grpc = owner;
    size_t whole;

    (void)flags;
    if (!call)
        return 0;
    if (grpc->taken + size > DLI_GRPC_TAKEN_MAX)
        return too_much(grpc);
    if (dli_buffer_add(&call->in, bytes, size))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    grpc->taken += size;
    if (call->method->streaming)
        return give_messages(session, stream, call) ? too_much(grpc) : 0;
    whole = said_size(call->in.bytes, call->in.size);
    return whole > most_of(call) || (whole && call->in.size > whole) ? too_much(grpc) : 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *owner)
{
    struct dli_grpc *grpc = owner;
    struct dli_grpc_call *call = call_of(session, stream);
    const char *member = grpc->conn->target->text;

    if (!call)
        return 0;
    nghttp2_session_set_stream_user_data(session, stream, NULL);
    if (call->answered) {
        dli_grpc_judge(call, member);
    } else {
        call->status = DLOCK_UNREACHABLE;
        dli_fail(&call->reason, call->status, "The member %s ended a call without a status (%s).", member,
                 call->said[0] ? dli_grpc_shown(call) : nghttp2_http2_strerror(error));
        if (error == NGHTTP2_REFUSED_STREAM)
            call->sent = 0;
    }
    dli_grpc_ended(call);
    return 0;
}

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *owner)
{
    struct dli_grpc_call *call = call_of(session, frame->hd.stream_id);

    if (call && frame->hd.type == NGHTTP2_HEADERS)
        call->sent = 1;
    if (frame->hd.type == NGHTTP2_GOAWAY) /* nghttp2 found an error, and refuses new streams from now on */
        dli_grpc_leave(owner, "has no HTTP/2 session any more");
    return 0;
}

/*
 * A member in Go sends a ping with every request, to measure the connection, unless its last one is not answered yet. A ping
 * and its answer wake a thread on each side, which costs as much as a small request. So an answer goes with the next
 * frames, once it has rested for REST, and by itself after LIMIT. Who asks whether the peer is alive waits for seconds.
 */
static int answer_ping(struct dli_grpc *grpc)
{
    grpc->pinged = 0;
    return nghttp2_submit_ping(grpc->session, NGHTTP2_FLAG_ACK, grpc->ping);
}

static int take_ping(struct dli_grpc *grpc, const uint8_t *said)
{
    if (grpc->pinged && answer_ping(grpc))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    memcpy(grpc->ping, said, sizeof grpc->ping);
    grpc->pinged = dli_now();
    return 0;
}

static int is_due(const struct dli_grpc *grpc, int64_t now)
{
    return grpc->pinged && (now >= grpc->pinged + DLI_PING_LIMIT ||
                            (now >= grpc->pinged + REST && nghttp2_session_want_write(grpc->session)));
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *owner)
{
    struct dli_grpc *grpc = owner;

    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        dli_grpc_bid_farewell(grpc);
    if (frame->hd.type == NGHTTP2_PING && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
        return take_ping(grpc, frame->ping.opaque_data);
    return 0;
}

/* The session itself answers no ping. */
static int new_session(struct dli_grpc *grpc, const nghttp2_session_callbacks *callbacks)
{
    nghttp2_option *option;
    int failed;

    if (nghttp2_option_new(&option))
        return -1;
    nghttp2_option_set_no_auto_ping_ack(option, 1);
    failed = nghttp2_session_client_new2(&grpc->session, callbacks, grpc, option);
    nghttp2_option_del(option);
    return failed ? -1 : 0;
}

int dli_http2_open(struct dli_grpc *grpc)
{
    nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                         {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW}};
    nghttp2_session_callbacks *callbacks;
    int failed;

    if (nghttp2_session_callbacks_new(&callbacks))
        return -1;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    failed = new_session(grpc, callbacks);
    nghttp2_session_callbacks_del(callbacks);
    grpc->pinged = 0;
    if (failed) {
        grpc->session = NULL;
        return -1;
    }
    return nghttp2_submit_settings(grpc->session, NGHTTP2_FLAG_NONE, settings, 2) ||
                   nghttp2_session_set_local_window_size(grpc->session, NGHTTP2_FLAG_NONE, 0, WINDOW)
               ? -1
               : 0;
}

/* ---- what goes */

static ssize_t read_out(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                        nghttp2_data_source *source, void *owner)
{
    struct dli_grpc_call *call = source->ptr;
    size_t left, size;

    (void)owner;
    if (call_of(session, stream) != call)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    left = call->out.size - call->given;
    size = left < room ? left : room;
    if (size == 0 && call->method->streaming)
        return NGHTTP2_ERR_DEFERRED;
    if (size > 0)
        memcpy(to, call->out.bytes + call->given, size);
    call->stuck = 0;
    if (call->method->streaming)
        dli_buffer_drop(&call->out, size);
    else if ((call->given += size) == call->out.size) /* it stays: the answer is compared with it */
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)size;
}

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NONE};
}

/* gRPC's form of what is left of the time: at most eight digits. */
static void write_timeout(char out[24], int64_t left)
{
    int64_t ms = left / 1000 + 1;

    snprintf(out, 24, ms < 100000000 ? "%" PRId64 "m" : "%" PRId64 "S", ms < 100000000 ? ms : ms / 1000);
}

int dli_http2_submit(struct dli_grpc *grpc, struct dli_grpc_call *call, int64_t now)
{
    nghttp2_data_provider data = {.source.ptr = call, .read_callback = read_out};
    nghttp2_nv nv[HEADERS];
    char timeout[24];
    size_t count = 0;

    nv[count++] = header(":method", "POST");
    nv[count++] = header(":scheme", grpc->conn->config->tls ? "https" : "http");
    nv[count++] = header(":path", call->method->path);
    nv[count++] = header(":authority", grpc->conn->target->text);
    nv[count++] = header("te", "trailers");
    nv[count++] = header("content-type", "application/grpc");
    nv[count++] = header("user-agent", "libdlock");
    if (grpc->token) {
        nv[count] = header("token", grpc->token);
        nv[count++].flags = NGHTTP2_NV_FLAG_NO_INDEX;
    }
    if (call->method->leader)
        nv[count++] = header("hasleader", "true");
    if (call->deadline != INT64_MAX) {
        write_timeout(timeout, call->deadline - now);
        nv[count++] = header("grpc-timeout", timeout);
    }
    call->stream = nghttp2_submit_request(grpc->session, NULL, nv, count, &data, call);
    return call->stream < 0 ? -1 : 0;
}

void dli_http2_reset(struct dli_grpc *grpc, struct dli_grpc_call *call)
{
    nghttp2_session_set_stream_user_data(grpc->session, call->stream, NULL);
    nghttp2_submit_rst_stream(grpc->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
}

int dli_http2_take(struct dli_grpc *grpc, const char *bytes, size_t size)
{
    return nghttp2_session_mem_recv(grpc->session, (const uint8_t *)bytes, size) == (ssize_t)size ? 0 : -1;
}

int dli_http2_give(struct dli_grpc *grpc, int64_t now)
{
    const uint8_t *bytes;
    ssize_t size = 0;

    if (is_due(grpc, now) && answer_ping(grpc))
        return -1;
    while (grpc->conn->out.size < DLI_GRPC_UNSENT_MAX && (size = nghttp2_session_mem_send(grpc->session, &bytes)) > 0)
        if (dli_buffer_add(&grpc->conn->out, bytes, (size_t)size))
            return -1;
    return size < 0 ? -1 : 0;
}

int dli_http2_gives(const struct dli_grpc *grpc)
{
    return grpc->conn->out.size < DLI_GRPC_UNSENT_MAX && nghttp2_session_want_write(grpc->session);
}
