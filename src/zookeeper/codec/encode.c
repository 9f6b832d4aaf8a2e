/*
 * encode.c: requests as bytes, see codec.h.
 */
#include <string.h>

#include "codec.h"

enum { ALL_RIGHTS = 31 };

/* A frame in the making. failed: there was no memory, and the frame will not be sent. */
struct frame {
    struct dli_buffer *out;
    size_t begin;
    int failed;
};

static void put_bytes(struct frame *frame, const void *bytes, size_t size)
{
    if (!frame->failed && size > 0)
        frame->failed = dli_buffer_add(frame->out, bytes, size) != 0;
}

static void write_int(unsigned char to[4], int32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)((uint32_t)value >> (24 - 8 * i));
}

static void put_int(struct frame *frame, int32_t value)
{
    unsigned char bytes[4];

    write_int(bytes, value);
    put_bytes(frame, bytes, sizeof bytes);
}

static void put_long(struct frame *frame, int64_t value)
{
    put_int(frame, (int32_t)((uint64_t)value >> 32));
    put_int(frame, (int32_t)(uint32_t)(uint64_t)value);
}

static void put_text(struct frame *frame, struct dli_zk_text text)
{
    put_int(frame, (int32_t)text.size);
    put_bytes(frame, text.bytes, text.size);
}

static void put_string(struct frame *frame, const char *text)
{
    put_text(frame, (struct dli_zk_text){text, strlen(text)});
}

static void put_flag(struct frame *frame, int flag)
{
    char byte = (char)(flag != 0);

    put_bytes(frame, &byte, 1);
}

static struct frame begin(struct dli_buffer *out)
{
    struct frame frame = {.out = out, .begin = out->size};

    put_int(&frame, 0);
    return frame;
}

static int end(struct frame *frame)
{
    if (frame->failed)
        frame->out->size = frame->begin;
    else
        write_int((unsigned char *)frame->out->bytes + frame->begin, (int32_t)(frame->out->size - frame->begin - 4));
    return frame->failed ? -1 : 0;
}

int dli_zk_encode_connect(struct dli_buffer *out, const struct dli_zk_ticket *ticket, int64_t zxid)
{
    struct frame frame = begin(out);

    put_int(&frame, 0); /* the protocol's version */
    put_long(&frame, zxid);
    put_int(&frame, ticket->timeout);
    put_long(&frame, ticket->id);
    put_text(&frame, (struct dli_zk_text){ticket->password, sizeof ticket->password});
    put_flag(&frame, 0); /* a member that can only be read is of no use */
    return end(&frame);
}

int dli_zk_encode_auth(struct dli_buffer *out, const char *user, const char *password)
{
    struct frame frame = begin(out);

    put_int(&frame, DLI_ZK_XID_AUTH);
    put_int(&frame, DLI_ZK_AUTH);
    put_int(&frame, 0);
    put_string(&frame, "digest");
    put_int(&frame, (int32_t)(strlen(user) + 1 + strlen(password)));
    put_bytes(&frame, user, strlen(user));
    put_bytes(&frame, ":", 1);
    put_bytes(&frame, password, strlen(password));
    return end(&frame);
}

static void put_node(struct frame *frame, const struct dli_zk_ask *ask)
{
    put_text(frame, ask->data);
    put_int(frame, 1); /* one rule */
    put_int(frame, ALL_RIGHTS);
    put_string(frame, ask->mine ? "auth" : "world");
    put_string(frame, ask->mine ? "" : "anyone");
    put_int(frame, (int32_t)ask->flags);
}

static void put_what(struct frame *frame, const struct dli_zk_ask *ask)
{
    if (ask->op != DLI_ZK_CLOSE && ask->op != DLI_ZK_MULTI)
        put_text(frame, ask->path);
    switch (ask->op) {
    case DLI_ZK_CREATE:
    case DLI_ZK_CREATE_CONTAINER:
        put_node(frame, ask);
        break;
    case DLI_ZK_SET_DATA:
        put_text(frame, ask->data);
        put_int(frame, ask->version);
        break;
    case DLI_ZK_DELETE:
        put_int(frame, ask->version);
        break;
    case DLI_ZK_EXISTS:
    case DLI_ZK_GET_DATA:
    case DLI_ZK_GET_CHILDREN:
        put_flag(frame, ask->watch);
        break;
    default:
        break;
    }
}

static void put_part(struct frame *frame, int32_t op, int last)
{
    put_int(frame, op);
    put_flag(frame, last);
    put_int(frame, -1);
}

int dli_zk_encode_ask(struct dli_buffer *out, int32_t xid, const struct dli_zk_ask *ask)
{
    struct frame frame = begin(out);

    put_int(&frame, xid);
    put_int(&frame, ask->op);
    put_what(&frame, ask);
    for (int i = 0; i < ask->parts; i++) {
        put_part(&frame, ask->part[i].op, 0);
        put_what(&frame, &ask->part[i]);
    }
    if (ask->op == DLI_ZK_MULTI)
        put_part(&frame, -1, 1);
    return end(&frame);
}
