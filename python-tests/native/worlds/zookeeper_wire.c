/*
 * zookeeper_wire.c: ZooKeeper's protocol, the server's side. See zookeeper.h.
 */
#include <stdlib.h>
#include <string.h>

#include "zookeeper.h"

enum { PASSWORD = 16, EVENT = -1, CONNECTED = 3 };

/* ---- in */

struct bytes {
    const unsigned char *at;
    size_t size;
    int wrong;
};

static int64_t take(struct bytes *from, size_t size)
{
    uint64_t value = 0;

    if (from->size < size) {
        from->wrong = 1;
        return 0;
    }
    for (size_t i = 0; i < size; i++)
        value = value << 8 | from->at[i];
    from->at += size;
    from->size -= size;
    return size == 4 ? (int32_t)(uint32_t)value : (int64_t)value;
}

/* Less than room. Returns how much it is. */
static int32_t take_text(struct bytes *from, char *to, size_t room)
{
    int64_t size = take(from, 4);

    if (size < 0 || (size_t)size > from->size || (to && (size_t)size >= room)) {
        from->wrong = 1;
        return 0;
    }
    if (to)
        memcpy(to, from->at, (size_t)size);
    from->at += size;
    from->size -= (size_t)size;
    return (int32_t)size;
}

static void take_hello(struct bytes *from, struct z_request *request)
{
    request->op = Z_HELLO;
    take(from, 4);
    request->seen = take(from, 8);
    request->timeout = (int32_t)take(from, 4);
    request->session = take(from, 8);
}

static void take_node(struct bytes *from, struct z_part *part)
{
    part->data.size = take_text(from, part->data.bytes, sizeof part->data.bytes);
    for (int64_t rules = take(from, 4); rules > 0 && !from->wrong; rules--) {
        take(from, 4);
        take_text(from, NULL, 0);
        take_text(from, NULL, 0);
    }
    part->flags = (int32_t)take(from, 4);
}

static void take_part(struct bytes *from, struct z_part *part)
{
    take_text(from, part->path, sizeof part->path);
    from->wrong |= part->path[0] != '/';
    if (part->op == Z_CREATE || part->op == Z_CREATE_CONTAINER)
        take_node(from, part);
    if (part->op == Z_SET_DATA)
        part->data.size = take_text(from, part->data.bytes, sizeof part->data.bytes);
    if (part->op == Z_DELETE || part->op == Z_SET_DATA)
        part->version = (int32_t)take(from, 4);
}

/* Each part has its operation, a byte and a number before it; an end of the same form is behind the last one. */
static void take_parts(struct bytes *from, struct z_request *request)
{
    while (!from->wrong) {
        int32_t op = (int32_t)take(from, 4), over = (int32_t)take(from, 1);

        take(from, 4);
        if (over) {
            from->wrong |= request->parts == 0;
            return;
        }
        if (request->parts == Z_PARTS || (op != Z_CREATE && op != Z_DELETE && op != Z_SET_DATA)) {
            from->wrong = 1;
            return;
        }
        request->part[request->parts].op = op;
        take_part(from, &request->part[request->parts++]);
    }
}

int z_is_read(int32_t op)
{
    return op == Z_GET_DATA || op == Z_GET_CHILDREN || op == Z_EXISTS;
}

static void take_request(struct bytes *from, struct z_request *request)
{
    request->xid = (int32_t)take(from, 4);
    request->op = (int32_t)take(from, 4);
    if (request->op == Z_MULTI) {
        take_parts(from, request);
    } else if (request->op != Z_CLOSE && request->op != Z_AUTH) {
        request->part[0].op = request->op;
        take_part(from, &request->part[0]);
    }
    if (z_is_read(request->op))
        request->watch = (int)take(from, 1);
}

static int is_known(int32_t op)
{
    return z_is_read(op) || op == Z_HELLO || op == Z_DELETE || op == Z_SYNC || op == Z_MULTI || op == Z_CREATE ||
           op == Z_SET_DATA || op == Z_CREATE_CONTAINER || op == Z_CLOSE;
}

static void frame(struct z_conn *conn, const char *bytes, size_t size)
{
    struct bytes from = {(const unsigned char *)bytes, size, 0};
    struct z_request *request = calloc(1, sizeof *request);

    if (!request)
        abort();
    request->conn = conn;
    request->process = conn->wire->process;
    request->member = conn->wire->member;
    request->session = conn->session;
    if (conn->session)
        take_request(&from, request);
    else
        take_hello(&from, request);
    if (request->op == Z_AUTH && !from.wrong) {
        z_answer(request, 0, &z.tree[request->member]);
        free(request);
        return;
    }
    if (from.wrong || !is_known(request->op)) {
        w_violated("wire: a request with op %d that makes no sense", (int)request->op);
        w_hang_up(conn->wire);
        free(request);
        return;
    }
    w_trace("process %d asks member %d: op %d %s", conn->wire->process->index, request->member, (int)request->op,
            request->part[0].path);
    z_request_came(request);
}

void z_opened(struct w_wire *wire)
{
    struct z_conn *conn = calloc(1, sizeof *conn);

    if (!conn)
        abort();
    conn->wire = wire;
    conn->next = z.conns;
    z.conns = conn;
    wire->peer = conn;
}

void z_came(struct w_wire *wire, const char *bytes, size_t size)
{
    struct z_conn *conn = wire->peer;

    if (z.owes[wire->member])
        z_ping_answer(wire->member);
    if (dli_buffer_add(&conn->in, bytes, size))
        abort();
    while ((conn = wire->peer) && conn->in.size >= 4) {
        struct bytes head = {(const unsigned char *)conn->in.bytes, 4, 0};
        size_t length = (size_t)take(&head, 4);
        char *copy;

        if (conn->in.size < 4 + length)
            return;
        if (!(copy = malloc(length + 1)))
            abort();
        memcpy(copy, conn->in.bytes + 4, length);
        dli_buffer_drop(&conn->in, 4 + length);
        frame(conn, copy, length);
        free(copy);
    }
}

void z_gone(struct w_wire *wire)
{
    struct z_conn *conn = wire->peer, **at = &z.conns;

    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    wire->peer = NULL;
    z_conn_gone(conn);
    dli_buffer_free(&conn->in);
    free(conn);
}

/* ---- out */

static void put(struct dli_buffer *out, int64_t value, int size)
{
    char bytes[8];

    for (int i = 0; i < size; i++)
        bytes[i] = (char)((uint64_t)value >> (8 * (size - 1 - i)));
    if (dli_buffer_add(out, bytes, (size_t)size))
        abort();
}

static void put_bytes(struct dli_buffer *out, const char *bytes, size_t size)
{
    put(out, (int64_t)size, 4);
    if (dli_buffer_add(out, bytes, size))
        abort();
}

static void put_text(struct dli_buffer *out, const char *text)
{
    put_bytes(out, text, strlen(text));
}

static void put_stat(struct dli_buffer *out, int64_t czxid, int32_t version, int64_t owner)
{
    put(out, czxid, 8);
    put(out, czxid, 8);
    put(out, w.now / W_MS, 8);
    put(out, w.now / W_MS, 8);
    put(out, version, 4);
    for (int i = 0; i < 2; i++)
        put(out, 0, 4);
    put(out, owner, 8);
    put(out, 0, 8);
    put(out, czxid, 8);
}

static void send(struct z_conn *conn, struct dli_buffer *body)
{
    struct dli_buffer out = {NULL};

    put(&out, (int64_t)body->size, 4);
    if (dli_buffer_add(&out, body->bytes, body->size))
        abort();
    w_reply(conn->wire, out.bytes, out.size);
    dli_buffer_free(&out);
    dli_buffer_free(body);
}

/* NULL: it is over. */
void z_welcome(struct z_conn *conn, const struct z_session *session)
{
    struct dli_buffer out = {NULL};

    put(&out, 0, 4);
    put(&out, session ? session->timeout / W_MS : 0, 4);
    put(&out, session ? session->id : 0, 8);
    put(&out, PASSWORD, 4);
    for (int i = 0; i < PASSWORD; i++)
        put(&out, 0, 1);
    put(&out, 0, 1);
    send(conn, &out);
}

/* Those just below. */
static void put_children(struct dli_buffer *out, const struct z_tree *tree, const char *path)
{
    size_t size = strlen(path);
    struct dli_buffer names = {NULL};
    int count = 0;

    for (const struct z_node *node = tree->nodes; node; node = node->next)
        if (strncmp(node->path, path, size) == 0 && node->path[size] == '/' && !strchr(node->path + size + 1, '/')) {
            put_text(&names, node->path + size + 1);
            count++;
        }
    put(out, count, 4);
    if (names.size > 0 && dli_buffer_add(out, names.bytes, names.size))
        abort();
    dli_buffer_free(&names);
}

static void put_head(struct dli_buffer *out, int32_t op, int over, int32_t error)
{
    put(out, op, 4);
    put(out, over, 1);
    put(out, error, 4);
}

/* A part of a transaction has no numbers of the node. */
static void put_parts(struct dli_buffer *out, const struct z_request *request)
{
    int failed = request->part[request->parts - 1].error != 0; /* what comes behind a failure is not tried */

    for (int i = 0; i < request->parts; i++) {
        const struct z_part *part = &request->part[i];

        put_head(out, failed ? -1 : part->op == Z_CREATE ? 1 : part->op, 0, part->error);
        if (failed)
            put(out, part->error, 4);
        else if (part->op == Z_CREATE)
            put_text(out, part->path);
        else if (part->op == Z_SET_DATA)
            put_stat(out, request->zxid, 0, 0);
    }
    put_head(out, -1, 1, -1);
}

static void put_result(struct dli_buffer *out, const struct z_request *request, const struct z_tree *tree)
{
    const struct z_part *part = &request->part[0];
    const struct z_node *node = z_find(tree, part->path);

    if (request->op == Z_CREATE || request->op == Z_CREATE_CONTAINER) {
        put_text(out, part->path);
        put_stat(out, request->zxid, 0, request->op == Z_CREATE && part->flags ? request->owner : 0);
    } else if (request->op == Z_GET_DATA && node) {
        put_bytes(out, node->data.bytes, (size_t)node->data.size);
        put_stat(out, node->czxid, node->version, node->owner);
    } else if ((request->op == Z_EXISTS || request->op == Z_SET_DATA) && node) {
        put_stat(out, node->czxid, node->version, node->owner);
    } else if (request->op == Z_GET_CHILDREN) {
        put_children(out, tree, part->path);
    } else if (request->op == Z_SYNC) {
        put_text(out, part->path);
    } else if (request->op == Z_MULTI) {
        put_parts(out, request);
    }
}

void z_answer(const struct z_request *request, int64_t zxid, const struct z_tree *tree)
{
    struct dli_buffer out = {NULL};

    put(&out, request->xid, 4);
    put(&out, zxid, 8);
    put(&out, request->error, 4);
    if (request->error == 0)
        put_result(&out, request, tree);
    send(request->conn, &out);
}

void z_tell(struct z_conn *conn, int32_t type, const char *path)
{
    struct dli_buffer out = {NULL};

    put(&out, EVENT, 4);
    put(&out, -1, 8);
    put(&out, 0, 4);
    put(&out, type, 4);
    put(&out, CONNECTED, 4);
    put_text(&out, path);
    send(conn, &out);
}
