/*
 * fuzz_over_zookeeper.c: the whole library over a hostile ensemble: see hostile.h. Replies have other numbers, errors, operations
 * and paths, come twice, never or for another request; frames change word by word; events come that nobody waits for.
 */
#include "../worlds/zookeeper.h"
#include "hostile.h"

enum { UNTOUCHED = 144, HEAD = 4 };

void __real_z_answer(const struct z_request *request, int64_t zxid, const struct z_tree *tree);
void __wrap_z_answer(const struct z_request *request, int64_t zxid, const struct z_tree *tree);
void __real_z_welcome(struct z_conn *conn, const struct z_session *session);
void __wrap_z_welcome(struct z_conn *conn, const struct z_session *session);

static int32_t last_xid;

/* ---- replies */

static int32_t other_error(void)
{
    static const int32_t errors[] = {0,    -101, -103, -110, -111, -112, -115, -118, -102, -4,   -7,   -2,
                                     -122, -6,   -8,   -113, -114, -1,   1,    -123, 100,  -108, -119, INT32_MIN};
    unsigned which = h_spoil();

    return which < 240 ? errors[which % 24] : (int32_t)h_number();
}

static void change_path(struct z_part *part)
{
    struct h_text other = h_text();
    size_t length = strlen(part->path), cut = h_spoil() < 128 ? length : h_spoil() % (length + 1);

    snprintf(part->path + cut, W_KEY - cut, "%.*s", (int)other.size, other.bytes);
}

static void change(struct z_request *request, int64_t *zxid)
{
    struct z_part *part = &request->part[request->parts > 1 ? h_spoil_below(2) : 0];
    unsigned how = h_spoil_below(12);

    switch (how) {
    case 0:
    case 1:
    case 2:
        request->error = other_error();
        break;
    case 3:
        request->xid = h_spoil() < 128 ? last_xid : request->xid + 1 - (int32_t)h_spoil_below(3);
        break;
    case 4:
        *zxid = h_number();
        break;
    case 5:
        request->zxid = h_number();
        h_forged(request->zxid);
        break;
    case 6:
        request->owner = h_number();
        break;
    case 7:
        request->op = (int32_t)h_spoil_below(20);
        break;
    case 8:
        part->error = other_error();
        break;
    case 9:
        part->op = (int32_t)h_spoil_below(20);
        break;
    case 10:
        request->parts = request->op == Z_MULTI ? 1 + (int)h_spoil_below(Z_PARTS) : 0;
        break;
    default:
        change_path(part);
    }
}

void __wrap_z_answer(const struct z_request *request, int64_t zxid, const struct z_tree *tree)
{
    unsigned how = h_spoil();
    struct z_request copy;
    int64_t seen = zxid;

    h_said(zxid);
    h_said(request->zxid);
    h_said(request->session);
    if (how < UNTOUCHED) {
        __real_z_answer(request, zxid, tree);
    } else if (how < 232) {
        copy = *request;
        for (unsigned i = 0; i <= how % 4; i++)
            change(&copy, &seen);
        if (copy.op == Z_MULTI && copy.parts == 0)
            copy.parts = 1;
        __real_z_answer(&copy, seen, tree);
    } else if (how < 240) {
        __real_z_answer(request, zxid, tree);
        __real_z_answer(request, zxid, tree);
    } else if (how < 248) {
        h_hang_up(request->conn->wire);
    }
    last_xid = request->xid;
}

void __wrap_z_welcome(struct z_conn *conn, const struct z_session *session)
{
    unsigned how = h_spoil();
    struct z_session copy;

    if (how < 200 || !session) {
        __real_z_welcome(conn, how >= 248 ? NULL : session);
        return;
    }
    copy = *session;
    if (how & 1)
        copy.id = h_number();
    if (how & 2)
        copy.timeout = h_number();
    if (how & 4)
        h_hang_up(conn->wire);
    __real_z_welcome(conn, &copy);
}

/* ---- frames */

static void put_length(char *at, size_t length)
{
    for (int i = 0; i < HEAD; i++)
        at[i] = (char)(length >> (8 * (HEAD - 1 - i)));
}

/* A number of four bytes, or of eight, becomes another one. */
static void change_word(struct dli_buffer *bytes, unsigned how)
{
    size_t words = bytes->size / HEAD, size = how & 1 ? 8 : 4, at = words ? h_spoil() % words * HEAD : 0;
    uint64_t number = (uint64_t)h_number();

    if (how & 2 && at + size + 1 <= bytes->size)
        at++; /* behind a byte */
    for (size_t i = 0; i < size && at + size <= bytes->size; i++)
        bytes->bytes[at + i] = (char)(number >> (8 * (size - 1 - i)));
}

/* Bytes more or less in the last frame, whose length is right again. */
static void stretch(struct dli_buffer *bytes)
{
    struct dli_buffer made = {0};
    size_t at = h_spoil(), less = h_spoil_below(16);
    struct h_text more = h_text();

    if (bytes->size < HEAD)
        return;
    at = HEAD + at % (bytes->size - HEAD + 1);
    h_put(&made, bytes->bytes, at);
    h_put(&made, more.bytes, more.size);
    if (at + less < bytes->size)
        h_put(&made, bytes->bytes + at + less, bytes->size - at - less);
    put_length(made.bytes, made.size - HEAD);
    dli_buffer_free(bytes);
    *bytes = made;
}

/* A list of children that repeats one, many times. */
static void many_children(struct dli_buffer *bytes)
{
    enum { FRONT = 4 + 16 };
    struct dli_buffer made = {0};
    struct h_text name = h_text();
    size_t count = 1 + 16 * h_spoil();
    char word[HEAD];

    if (bytes->size < FRONT)
        return;
    h_put(&made, bytes->bytes, FRONT);
    put_length(word, count);
    h_put(&made, word, HEAD);
    for (size_t i = 0; i < count; i++) {
        put_length(word, name.size);
        h_put(&made, word, HEAD);
        h_put(&made, name.bytes, name.size);
    }
    put_length(made.bytes, made.size - HEAD);
    dli_buffer_free(bytes);
    *bytes = made;
}

static void spoil(struct w_wire *wire, struct dli_buffer *bytes)
{
    unsigned how = h_spoil();

    (void)wire;
    if (how < 160)
        change_word(bytes, how);
    else if (how < 230)
        stretch(bytes);
    else
        many_children(bytes);
}

static void unasked(struct w_wire *wire)
{
    struct z_conn *conn = wire->peer;
    const struct z_node *node = z.truth.nodes;
    char path[W_KEY];
    unsigned how = h_spoil();
    struct h_text other;

    if (!conn)
        return;
    for (unsigned i = how % 8; node && i > 0; i--)
        node = node->next;
    other = h_text();
    if (how < 160)
        snprintf(path, sizeof path, "%s", node ? node->path : "/");
    else
        snprintf(path, sizeof path, "%.*s", (int)other.size, other.bytes);
    z_tell(conn, (int32_t)h_spoil_below(6) - (how / 8 % 8 == 0), path);
}

/* ---- another client */

/* A node below or beside one of the library's, with a name that the input chooses; or one goes. */
static void tenant(void)
{
    struct z_part part = {.op = Z_CREATE, .version = -1};
    const struct z_node *node = z.truth.nodes;
    unsigned how = h_spoil();
    struct h_text more = h_text();
    size_t cut;

    for (unsigned i = how / 8 % 16; node && i > 0; i--)
        node = node->next;
    if (!node || (strcmp(node->path, "/") == 0 && how % 8 < 4))
        return;
    snprintf(part.path, sizeof part.path, "%s", node->path);
    cut = strlen(part.path);
    part.data.size = (int32_t)(more.size < Z_DATA ? more.size : Z_DATA);
    memcpy(part.data.bytes, more.bytes, (size_t)part.data.size);
    if (how % 8 == 0) {
        z_remove(part.path, -1, 1);
    } else if (how % 8 < 3) {
        z_set(&part);
    } else {
        if (how % 8 < 5 && strrchr(part.path, '/') != part.path) { /* beside it */
            cut = (size_t)(strrchr(part.path, '/') - part.path) + 1;
            if (how & 128)
                cut += h_spoil() % (strlen(part.path + cut) + 1);
        } else if (cut + 1 < W_KEY) {
            part.path[cut++] = '/';
        }
        snprintf(part.path + cut, W_KEY - cut, "%.*s", (int)strcspn(more.bytes, "/"), more.bytes);
        if (how & 64) {
            part.flags = 3;
            part.data.size = 0;
        }
        z_make(&part, how & 32 ? 0 : z.ids * 1000);
    }
}

/* ---- */

/* A token is the transaction that made its node, or was made up. */
static int granted(int64_t token)
{
    for (int i = 0; i < z.changes; i++)
        if (z.log[i].zxid == token)
            return 1;
    return h_was_forged(token);
}

static void begin(void)
{
    struct z_part part = {.op = Z_CREATE, .path = "/c"};

    last_xid = 0;
    z_make(&part, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const urls[] = {"zookeeper://127.0.0.1:1000,127.0.0.1:1001,127.0.0.1:1002",
                                       "zookeeper://127.0.0.1:1000",
                                       "zookeeper://u:" SECRET "@127.0.0.1:1000,127.0.0.1:1001",
                                       "zookeeper://127.0.0.1:1000,127.0.0.1:1001/c?namespace=n"};
    static const struct hostile_server zookeeper = {.model = &w_zookeeper,
                                                    .urls = urls,
                                                    .begin = begin,
                                                    .tenant = tenant,
                                                    .spoil = spoil,
                                                    .unasked = unasked,
                                                    .granted = granted};

    return hostile_run(&zookeeper, data, size);
}
