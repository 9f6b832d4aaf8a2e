/*
 * etcd_http.c: gRPC over HTTP/2, the server's side. See etcd.h.
 */
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "etcd.h"

enum { HEAD = 5 };

struct peer {
    nghttp2_session *session;
    struct w_wire *wire;
    struct e_call *calls;
    int receiving; /* what is to be sent waits until all that came is taken in */
};

static struct e_call *call_of(struct peer *peer, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(peer->session, stream);
}

static void send_all(struct peer *peer)
{
    struct dli_buffer out = {NULL};
    const uint8_t *bytes;
    ssize_t size;

    if (peer->receiving)
        return;
    while ((size = nghttp2_session_mem_send(peer->session, &bytes)) > 0)
        if (dli_buffer_add(&out, bytes, (size_t)size))
            abort();
    if (out.size > 0)
        w_reply(peer->wire, out.bytes, out.size);
    dli_buffer_free(&out);
}

/* ---- answers */

static nghttp2_nv pair(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NONE};
}

static void trailers(const struct peer *peer, const struct e_call *call)
{
    char code[8];
    nghttp2_nv nv[2];

    snprintf(code, sizeof code, "%d", call->code);
    nv[0] = pair("grpc-status", code);
    nv[1] = pair("grpc-message", call->text ? call->text : "");
    nghttp2_submit_trailer(peer->session, call->stream, nv, 2);
}

static ssize_t read_out(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                        nghttp2_data_source *source, void *owner)
{
    struct e_call *call = source->ptr;
    size_t size = call->out.size < room ? call->out.size : room;

    (void)session, (void)stream;
    if (size == 0 && !call->over)
        return NGHTTP2_ERR_DEFERRED;
    if (size > 0)
        memcpy(to, call->out.bytes, size);
    dli_buffer_drop(&call->out, size);
    if (call->over && call->out.size == 0) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        trailers(owner, call);
    }
    return (ssize_t)size;
}

void e_send(struct e_call *call, const void *bytes, size_t size, int over)
{
    struct peer *peer = call->wire->peer;
    uint8_t head[HEAD] = {0, (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size};

    if (dli_buffer_add(&call->out, head, HEAD) || (size > 0 && dli_buffer_add(&call->out, bytes, size)))
        abort();
    call->over = over;
    nghttp2_session_resume_data(peer->session, call->stream);
    send_all(peer);
}

void e_answer(struct e_call *call, const ProtobufCMessage *message, int over)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size + 1);

    if (!bytes)
        abort();
    protobuf_c_message_pack(message, bytes);
    e_send(call, bytes, size, over);
    free(bytes);
}

void e_refuse(struct e_call *call, int code, const char *text)
{
    struct peer *peer = call->wire->peer;

    call->over = 1;
    call->code = code;
    call->text = text;
    nghttp2_session_resume_data(peer->session, call->stream);
    send_all(peer);
}

/* ---- requests */

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *owner)
{
    struct peer *peer = owner;
    struct e_call *call = calloc(1, sizeof *call);

    if (!call)
        abort();
    call->wire = peer->wire;
    call->stream = frame->hd.stream_id;
    call->next = peer->calls;
    peer->calls = call;
    nghttp2_session_set_stream_user_data(session, call->stream, call);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t size, uint8_t flags, void *owner)
{
    struct e_call *call = call_of(owner, frame->hd.stream_id);

    (void)session, (void)flags;
    if (call && name_size == 5 && memcmp(name, ":path", 5) == 0 && size < sizeof call->path)
        memcpy(call->path, value, size);
    return 0;
}

static void begin_answer(struct peer *peer, struct e_call *call)
{
    nghttp2_nv nv[] = {pair(":status", "200"), pair("content-type", "application/grpc")};
    nghttp2_data_provider data = {.source.ptr = call, .read_callback = read_out};

    nghttp2_submit_response(peer->session, call->stream, nv, 2, &data);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t size,
                   void *owner)
{
    struct e_call *call = call_of(owner, stream);

    (void)session, (void)flags;
    if (!call)
        return 0;
    if (dli_buffer_add(&call->in, bytes, size))
        abort();
    while (call->in.size >= HEAD) {
        const uint8_t *in = (const uint8_t *)call->in.bytes;
        size_t length = (size_t)in[3] << 8 | in[4];

        if (call->in.size < HEAD + length)
            break;
        e_serve(call, in + HEAD, length);
        dli_buffer_drop(&call->in, HEAD + length);
    }
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *owner)
{
    struct e_call *call;

    (void)session;
    if (frame->hd.type == NGHTTP2_HEADERS && (call = call_of(owner, frame->hd.stream_id)))
        begin_answer(owner, call);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM && (call = call_of(owner, frame->hd.stream_id)))
        call->half = 1;
    return 0;
}

/* As etcd does when the client has not ended its side yet. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *owner)
{
    struct e_call *call = call_of(owner, frame->hd.stream_id);

    if (frame->hd.type == NGHTTP2_HEADERS && frame->hd.flags & NGHTTP2_FLAG_END_STREAM && call && !call->half)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

static void free_call(struct e_call *call)
{
    e_call_gone(call);
    dli_buffer_free(&call->in);
    dli_buffer_free(&call->out);
    free(call);
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *owner)
{
    struct peer *peer = owner;

    (void)session, (void)error;
    for (struct e_call **at = &peer->calls; *at; at = &(*at)->next)
        if ((*at)->stream == stream) {
            struct e_call *call = *at;

            *at = call->next;
            free_call(call);
            return 0;
        }
    return 0;
}

/* ---- connections */

void e_http_opened(struct w_wire *wire)
{
    struct peer *peer = calloc(1, sizeof *peer);
    nghttp2_session_callbacks *callbacks;

    if (!peer || nghttp2_session_callbacks_new(&callbacks))
        abort();
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_server_new(&peer->session, callbacks, peer))
        abort();
    nghttp2_session_callbacks_del(callbacks);
    peer->wire = wire;
    wire->peer = peer;
    nghttp2_submit_settings(peer->session, NGHTTP2_FLAG_NONE, NULL, 0);
    send_all(peer);
}

void e_http_came(struct w_wire *wire, const char *bytes, size_t size)
{
    struct peer *peer = wire->peer;
    ssize_t used;

    peer->receiving = 1;
    used = nghttp2_session_mem_recv(peer->session, (const uint8_t *)bytes, size);
    if (used != (ssize_t)size) {
        w_violated("wire: bytes that are not HTTP/2: %d of %d", (int)used, (int)size);
        w_hang_up(wire);
        return;
    }
    peer->receiving = 0;
    send_all(peer);
}

void e_http_gone(struct w_wire *wire)
{
    struct peer *peer = wire->peer;

    while (peer->calls) {
        struct e_call *call = peer->calls;

        peer->calls = call->next;
        free_call(call);
    }
    nghttp2_session_del(peer->session);
    free(peer);
    wire->peer = NULL;
}

/* Some streams were ended meanwhile, because their member had no leader. */
static void end_streams(struct w_wire *wire)
{
    struct peer *peer = wire->peer;

    peer->receiving = 1;
    for (struct e_call *call = peer->calls; call; call = call->next)
        if (!call->over && (strstr(call->path, "Watch") || strstr(call->path, "KeepAlive")) && w_percent(40))
            e_refuse(call, E_UNAVAILABLE, "etcdserver: no leader");
    peer->receiving = 0;
    send_all(peer);
}

void e_http_elected(void)
{
    w_wires_of(-1, end_streams);
}
