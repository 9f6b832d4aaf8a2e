/*
 * ways_etcd.c: the two requests of Go's concurrency.Mutex over bare HTTP/2, with nghttp2, and nothing else: no session is kept
 * alive, nobody waits, nothing is watched. That is the least that a lock on etcd can take. One blocking connection per
 * thread.
 *
 * The messages are protobuf; the numbers in them are those of etcd's rpc.proto and kv.proto.
 */
#include "ways_kinds.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE = 512, PIECE = 16384, WINDOW = 1 << 30, TTL = 600 };

struct message {
    size_t size, sent;
    uint8_t bytes[MESSAGE];
};

struct caller {
    const char *authority;
    int fd, over;
    nghttp2_session *session;
    struct message *out; /* of the call under way */
    int64_t lease;
    char line[80], key[100];
};

/* ---- protobuf */

static void put_varint(struct message *m, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        m->bytes[m->size++] = (uint8_t)(number | 0x80);
    m->bytes[m->size++] = (uint8_t)number;
}

static void put_number(struct message *m, int field, int64_t number)
{
    put_varint(m, (uint64_t)field << 3);
    put_varint(m, (uint64_t)number);
}

static void put_bytes(struct message *m, int field, const void *bytes, size_t size)
{
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, size);
    if (m->size + size > MESSAGE)
        die("a request", "too long");
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

static void put_text(struct message *m, int field, const char *text)
{
    put_bytes(m, field, text, strlen(text));
}

static void put_part(struct message *m, int field, const struct message *part)
{
    put_bytes(m, field, part->bytes, part->size);
}

/* ---- HTTP/2 */

static ssize_t send_some(nghttp2_session *session, const uint8_t *bytes, size_t size, int flags, void *user)
{
    const struct caller *caller = user;

    (void)session, (void)flags;
    if (write(caller->fd, bytes, size) != (ssize_t)size)
        die("etcd", "write failed");
    return (ssize_t)size;
}

static int stream_over(nghttp2_session *session, int32_t stream, uint32_t error, void *user)
{
    struct caller *caller = user;

    (void)session, (void)stream;
    if (error)
        die("etcd", nghttp2_http2_strerror(error));
    caller->over = 1;
    return 0;
}

static int header_came(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                       const uint8_t *value, size_t size, uint8_t flags, void *user)
{
    (void)session, (void)frame, (void)flags, (void)user;
    if (name_size == 11 && memcmp(name, "grpc-status", 11) == 0 && (size != 1 || value[0] != '0'))
        die("etcd", "the request was refused");
    return 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    struct message *out = source->ptr;
    size_t size = out->size - out->sent < room ? out->size - out->sent : room;

    (void)session, (void)stream, (void)user;
    memcpy(to, out->bytes + out->sent, size);
    out->sent += size;
    if (out->sent == out->size)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)size;
}

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), 0};
}

/* The message gets gRPC's head of five bytes. */
static void frame_message(struct message *out, const struct message *message)
{
    uint32_t size = htonl((uint32_t)message->size);

    out->sent = 0;
    out->size = 5 + message->size;
    if (out->size > MESSAGE)
        die("a request", "too long");
    out->bytes[0] = 0;
    memcpy(out->bytes + 1, &size, 4);
    memcpy(out->bytes + 5, message->bytes, message->size);
}

static void call(struct caller *caller, const char *path, const struct message *message)
{
    const nghttp2_nv headers[] = {
        header(":method", "POST"), header(":scheme", "http"), header(":authority", caller->authority),
        header(":path", path),     header("te", "trailers"),  header("content-type", "application/grpc")};
    struct message out;
    nghttp2_data_provider body = {.source.ptr = &out, .read_callback = read_body};
    uint8_t piece[PIECE];

    frame_message(&out, message);
    caller->over = 0;
    if (nghttp2_submit_request(caller->session, NULL, headers, sizeof headers / sizeof *headers, &body, NULL) < 0)
        die("etcd", "no stream");
    while (!caller->over) {
        ssize_t size;

        nghttp2_session_send(caller->session);
        size = read(caller->fd, piece, sizeof piece);
        if (size <= 0 || nghttp2_session_mem_recv(caller->session, piece, (size_t)size) != size)
            die("etcd", "the connection broke");
    }
}

static void connect_caller(struct caller *caller)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    char host[64];
    int port, on = 1;

    if (sscanf(caller->authority, "%63[0-9.]:%d", host, &port) != 2 || inet_pton(AF_INET, host, &at.sin_addr) != 1)
        die(caller->authority, "not ADDRESS:PORT");
    at.sin_port = htons((uint16_t)port);
    caller->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (caller->fd < 0 || connect(caller->fd, (struct sockaddr *)&at, sizeof at))
        die(caller->authority, "cannot connect");
    setsockopt(caller->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void begin_session(struct caller *caller)
{
    nghttp2_session_callbacks *callbacks;

    if (nghttp2_session_callbacks_new(&callbacks))
        die("nghttp2", "no memory");
    nghttp2_session_callbacks_set_send_callback(callbacks, send_some);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_over);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, header_came);
    if (nghttp2_session_client_new(&caller->session, callbacks, caller) ||
        nghttp2_submit_settings(caller->session, NGHTTP2_FLAG_NONE, NULL, 0) ||
        nghttp2_session_set_local_window_size(caller->session, NGHTTP2_FLAG_NONE, 0, WINDOW))
        die("nghttp2", "no memory");
    nghttp2_session_callbacks_del(callbacks);
}

/* ---- the lock */

static void grant_lease(struct caller *caller)
{
    struct message grant = {0};

    caller->lease = now_ns();
    put_number(&grant, 1, TTL);
    put_number(&grant, 2, caller->lease);
    call(caller, "/etcdserverpb.Lease/LeaseGrant", &grant);
}

static void *etcd_open(const char *url)
{
    const char *authority = strstr(url, "://");

    return (void *)(uintptr_t)(authority ? authority + 3 : url);
}

static void *etcd_lock(void *authority, const char *name)
{
    struct caller *caller = zeroed(sizeof *caller);

    caller->authority = authority;
    connect_caller(caller);
    begin_session(caller);
    grant_lease(caller);
    snprintf(caller->line, sizeof caller->line, "%s/", name);
    snprintf(caller->key, sizeof caller->key, "%s%llx", caller->line, (unsigned long long)caller->lease);
    return caller;
}

/* Put the key if it is not there, and read the first key of the line. */
static int64_t etcd_acquire(void *lock)
{
    struct caller *caller = lock;
    struct message test = {0}, put = {0}, first = {0}, step[2] = {{0}, {0}}, txn = {0};
    char end[sizeof caller->line];

    snprintf(end, sizeof end, "%s", caller->line);
    end[strlen(end) - 1]++;
    put_number(&test, 2, 1); /* created */
    put_text(&test, 3, caller->key);
    put_number(&test, 5, 0);
    put_text(&put, 1, caller->key);
    put_number(&put, 3, caller->lease);
    put_text(&first, 1, caller->line);
    put_text(&first, 2, end);
    put_number(&first, 3, 1);
    put_number(&first, 5, 1); /* ascending */
    put_number(&first, 6, 2); /* by creation */
    put_part(&step[0], 2, &put);
    put_part(&step[1], 1, &first);
    put_part(&txn, 1, &test);
    put_part(&txn, 2, &step[0]);
    put_part(&txn, 2, &step[1]);
    call(caller, "/etcdserverpb.KV/Txn", &txn);
    return 0;
}

static void etcd_release(void *lock)
{
    struct caller *caller = lock;
    struct message drop = {0};

    put_text(&drop, 1, caller->key);
    call(caller, "/etcdserverpb.KV/DeleteRange", &drop);
}

const struct way etcd_way = {"etcd", etcd_open, etcd_lock, etcd_acquire, etcd_release, 1};
