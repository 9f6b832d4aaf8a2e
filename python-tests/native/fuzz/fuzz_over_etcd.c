/*
 * fuzz_over_etcd.c: the whole library over a hostile etcd: see hostile.h. Messages are changed field by field before they are
 * packed, calls are refused, answered twice, by another answer or never, and frames of HTTP/2 stand where nobody expects them.
 */
#include "../worlds/etcd.h"
#include "hostile.h"

enum { UNTOUCHED = 144, KEPT = 8, KEPT_SIZE = 1024, FRAME = 9, MANY = 2000 };

void __real_e_answer(struct e_call *call, const ProtobufCMessage *message, int over);
void __wrap_e_answer(struct e_call *call, const ProtobufCMessage *message, int over);

static struct {
    uint8_t bytes[KEPT_SIZE];
    size_t size;
} kept[KEPT]; /* answers of before */
static int kept_count;

/* ---- fields of messages */

static void *at(ProtobufCMessage *message, unsigned offset)
{
    return (char *)message + offset;
}

static void note_number(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *place = (const char *)message + field->offset;

    if (field->label != PROTOBUF_C_LABEL_REPEATED &&
        (field->type == PROTOBUF_C_TYPE_INT64 || field->type == PROTOBUF_C_TYPE_UINT64))
        h_said(*(const int64_t *)(const void *)place);
}

static void forge(int64_t *number)
{
    *number = h_number();
    h_forged(*number);
    h_forged(*number / 128); /* some numbers become tokens as they are */
}

static void change_number(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if (field->type == PROTOBUF_C_TYPE_INT64 || field->type == PROTOBUF_C_TYPE_UINT64)
        forge(at(message, field->offset));
    else
        *(int32_t *)at(message, field->offset) = (int32_t)h_number();
}

static void change_text(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    static char text[2048];
    struct h_text other = h_text();
    ProtobufCBinaryData *data = at(message, field->offset);

    if (field->type == PROTOBUF_C_TYPE_STRING) {
        snprintf(text, sizeof text, "%.*s", (int)other.size, other.bytes);
        *(char **)at(message, field->offset) = text;
    } else if (h_spoil() < 128 && data->len > 0) {
        data->len = h_spoil_below(2) ? data->len - 1 : h_spoil() % data->len;
    } else {
        *data = e_data_of(other.bytes, other.size);
    }
}

/* Fewer elements, none, others in the place of one, or a great many. */
static void change_count(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    static void *many[MANY];
    size_t *count = at(message, field->quantifier_offset), more;
    void ***all = at(message, field->offset);
    unsigned how = h_spoil_below(8);

    if (*count == 0 || field->type == PROTOBUF_C_TYPE_INT32)
        return;
    if (how < 2) {
        *count = how ? *count - 1 : 0;
    } else if (how < 4 && *count > 1) {
        size_t one = h_spoil() % *count, other = h_spoil() % *count;
        void *was = (*all)[one];

        (*all)[one] = (*all)[other];
        (*all)[other] = was;
    } else {
        more = how < 7 ? 1 + h_spoil_below(16) : how * (size_t)h_spoil();
        for (size_t i = 0; i < more; i++)
            many[i] = (*all)[i % *count];
        *all = many;
        *count = more;
    }
}

static void change_message(ProtobufCMessage *message, int depth);

/* An inner message goes, or is an empty one, or changes. */
static void change_inner(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, int depth)
{
    static union {
        ProtobufCMessage message;
        char room[512];
    } empty[4];
    static int used;
    ProtobufCMessage **inner = at(message, field->offset);
    int one_of = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    unsigned how = h_spoil_below(16);

    if (one_of && *(int *)at(message, field->quantifier_offset) != (int)field->id)
        how |= 8;
    if (how < 8 && *inner) {
        change_message(*inner, depth + 1);
    } else if (how < 12 && !one_of) {
        *inner = NULL;
    } else {
        ProtobufCMessage *other = &empty[used++ % 4].message;

        protobuf_c_message_init(field->descriptor, other);
        *inner = other;
        if (one_of)
            *(int *)at(message, field->quantifier_offset) = how == 15 ? 0 : (int)field->id;
    }
}

static void change_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, int depth)
{
    size_t count;

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        count = *(size_t *)at(message, field->quantifier_offset);
        if (count > 0 && field->type == PROTOBUF_C_TYPE_MESSAGE && h_spoil() < 170)
            change_message((*(ProtobufCMessage ***)at(message, field->offset))[h_spoil() % count], depth + 1);
        else
            change_count(message, field);
    } else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        change_inner(message, field, depth);
    } else if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES) {
        change_text(message, field);
    } else {
        change_number(message, field);
    }
}

static void change_message(ProtobufCMessage *message, int depth)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;

    if (type->n_fields > 0 && depth < 8)
        change_field(message, &type->fields[h_spoil() % type->n_fields], depth);
}

enum { DEEPEST = 16 };

/* Whether messages are in messages further than any true one: what was changed may be a part of itself. */
static int is_deep(const ProtobufCMessage *message, int depth)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;

    for (unsigned i = 0; depth < DEEPEST && i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        const char *base = (const char *)message;
        const void *where = base + field->offset;
        int one_of = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;

        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t count = *(const size_t *)(const void *)(base + field->quantifier_offset);
            ProtobufCMessage *const *all = *(ProtobufCMessage *const *const *)where;

            for (size_t j = 0; j < count && j < DEEPEST; j++)
                if (is_deep(all[j], depth + 1))
                    return 1;
        } else if ((!one_of || *(const int *)(const void *)(base + field->quantifier_offset) == (int)field->id) &&
                   *(ProtobufCMessage *const *)where && is_deep(*(ProtobufCMessage *const *)where, depth + 1)) {
            return 1;
        }
    }
    return depth >= DEEPEST;
}

static void note_numbers(const ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++)
        note_number(message, &message->descriptor->fields[i]);
}

/* ---- answers */

static void keep(const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);

    if (size > KEPT_SIZE)
        return;
    kept[kept_count % KEPT].size = size;
    protobuf_c_message_pack(message, kept[kept_count++ % KEPT].bytes);
}

static void answer_raw(struct e_call *call, int over)
{
    uint8_t bytes[64];
    size_t size = h_spoil_below(sizeof bytes);

    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)h_spoil();
    h_garbled();
    e_send(call, bytes, size, over);
}

static void refuse(struct e_call *call)
{
    static const struct {
        int code;
        const char *text;
    } usual[] = {{5, "etcdserver: requested lease not found"},
                 {11, "etcdserver: mvcc: required revision has been compacted"},
                 {16, "etcdserver: invalid auth token"},
                 {7, "etcdserver: permission denied"},
                 {3, "etcdserver: user name is empty"},
                 {14, "etcdserver: no leader"},
                 {8, "etcdserver: mvcc: database space exceeded"},
                 {9, "etcdserver: authentication is not enabled"}};
    static char text[2048];
    unsigned how = h_spoil(), code = h_spoil();
    struct h_text other;

    if (how < 160) {
        e_refuse(call, code < 128 ? usual[how % 8].code : (int)code % 20, usual[how % 8].text);
        return;
    }
    other = h_text();
    snprintf(text, sizeof text, "%.*s", (int)strcspn(other.bytes, "\r\n"), other.bytes);
    e_refuse(call, (int)code % 20, text);
}

/* The server goes on with its watches meanwhile, so that a stream must not end here. */
static int streams(const struct e_call *call)
{
    return strstr(call->path, "Watch") || strstr(call->path, "KeepAlive");
}

static void other_answer(struct e_call *call, const ProtobufCMessage *message, int over, unsigned how)
{
    switch (how % 8) {
    case 0: /* twice */
        __real_e_answer(call, message, 0);
        __real_e_answer(call, message, over);
        break;
    case 1: /* one of before */
        if (kept_count > 0) {
            unsigned which = h_spoil() % (kept_count < KEPT ? (unsigned)kept_count : KEPT);

            h_garbled();
            e_send(call, kept[which].bytes, kept[which].size, over);
        }
        break;
    case 2:
        answer_raw(call, over);
        break;
    case 3: /* never */
        break;
    case 4: /* it does not end */
        __real_e_answer(call, message, 0);
        break;
    case 5:
        h_hang_up(call->wire);
        __real_e_answer(call, message, over);
        break;
    default:
        if (!streams(call))
            refuse(call);
    }
}

void __wrap_e_answer(struct e_call *call, const ProtobufCMessage *message, int over)
{
    unsigned how = h_spoil();

    note_numbers(message);
    if (how < UNTOUCHED) {
        keep(message);
        __real_e_answer(call, message, over);
    } else if (how < 232) {
        for (unsigned i = 0; i <= how % 4; i++)
            change_message((ProtobufCMessage *)(uintptr_t)message, 0);
        if (!is_deep(message, 0))
            __real_e_answer(call, message, over);
    } else {
        other_answer(call, message, over, how);
    }
}

/* ---- frames */

static void put_frame(struct dli_buffer *bytes, int32_t stream, unsigned type, unsigned flags, const void *load,
                      size_t size)
{
    uint8_t head[FRAME] = {(uint8_t)(size >> 16),   (uint8_t)(size >> 8),   (uint8_t)size,
                           (uint8_t)type,           (uint8_t)flags,         (uint8_t)((uint32_t)stream >> 24),
                           (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};

    h_put(bytes, head, FRAME);
    h_put(bytes, load, size);
}

static const struct {
    unsigned type, flags;
    const char *load;
    size_t size;
} frames[] = {
    {1, 5, "\x88", 1}, /* headers, the end: status 200 and no more */
    {1, 5, "\x8e", 1}, /* 500 */
    {1, 4, "\x8d", 1}, /* 404, not the end */
    {1, 5,
     "\x00\x0bgrpc-status\x01"
     "0",
     14},
    {1, 5,
     "\x00\x0bgrpc-status\x02"
     "16",
     15},
    {1, 5,
     "\x00\x0bgrpc-status\x14"
     "99999999999999999999",
     33},
    {1, 5,
     "\x00\x0bgrpc-status\x01"
     "5\x00\x0cgrpc-message\x0c%53%ff%zz%1%",
     40},
    {1, 4,
     "\x88\x5f\x0a"
     "text/plain",
     13},
    {0, 1, "", 0},                      /* data, the end */
    {0, 0, "\x01\x00\x00\x00\x01x", 6}, /* a compressed message */
    {0, 0, "\x00\xff\xff\xff\xff", 5},  /* a huge one */
    {0, 0, "\x00\x00\x40\x00\x01", 5},
    {3, 0, "\x00\x00\x00\x00", 4},         /* reset */
    {3, 0, "\x00\x00\x00\x0b", 4},         /* calm down */
    {4, 0, "\x00\x03\x00\x00\x00\x00", 6}, /* settings: no streams */
    {4, 0, "\x00\x04\x00\x00\x00\x00", 6}, /* no window */
    {4, 0, "\x00\x05\x00\x00\x00\x01", 6},
    {4, 0, "\x00\x01\x00\x00\x00\x00", 6},
    {5, 4, "\x00\x00\x00\x02\x88", 5}, /* a push */
    {6, 0, "12345678", 8},             /* ping */
    {6, 1, "12345678", 8},
    {7, 0, "\x00\x00\x00\x00\x00\x00\x00\x00", 8}, /* go away */
    {7, 0, "\x7f\xff\xff\xff\x00\x00\x00\x0btoo_many_pings", 22},
    {7, 0, "\x00\x00\x00\x01\x00\x00\x00\x00", 8},
    {8, 0, "\x7f\xff\xff\xff", 4}, /* window */
    {8, 0, "\x00\x00\x00\x00", 4},
    {9, 4, "\x88", 1}, /* continuation */
    {2, 0, "\x00\x00\x00\x01\x10", 5},
    {16, 0, "", 0},
};

static void put_known_frame(struct dli_buffer *bytes)
{
    unsigned which = h_spoil() % (sizeof frames / sizeof frames[0]), stream = h_spoil();
    int32_t on =
        frames[which].type >= 4 && frames[which].type != 9 && stream < 240 ? 0 : (int32_t)(1 + 2 * (stream % 32));

    put_frame(bytes, stream >= 250 ? (int32_t)(stream % 3) : on, frames[which].type, frames[which].flags,
              frames[which].load, frames[which].size);
}

static void put_raw_frame(struct dli_buffer *bytes)
{
    uint8_t load[64];
    unsigned type = h_spoil_below(12), flags = h_spoil(), stream = h_spoil();
    size_t size = h_spoil_below(sizeof load);

    for (size_t i = 0; i < size; i++)
        load[i] = (uint8_t)h_spoil();
    put_frame(bytes, (int32_t)stream, type, flags, load, size);
}

/* The frame at a place in bytes, or 0. */
static size_t frame_at(const struct dli_buffer *bytes, unsigned which)
{
    size_t at = 0, next = 0;

    for (unsigned i = 0; i <= which; i++) {
        const uint8_t *head = (const uint8_t *)bytes->bytes + next;

        if (next + FRAME > bytes->size)
            return at;
        at = next;
        next += FRAME + ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]);
    }
    return at;
}

static void spoil(struct w_wire *wire, struct dli_buffer *bytes)
{
    struct dli_buffer made = {0};
    unsigned how = h_spoil();
    size_t at = frame_at(bytes, how / 4 % 8);

    (void)wire;
    if (how % 4 == 3 && at + FRAME <= bytes->size) { /* its length, type, flags or stream */
        bytes->bytes[at + h_spoil_below(FRAME)] = (char)h_spoil();
        return;
    }
    h_put(&made, bytes->bytes, at);
    if (how % 4 == 0)
        put_raw_frame(&made);
    else
        put_known_frame(&made);
    if (how % 4 != 2) /* before it; else instead of it and what follows */
        h_put(&made, bytes->bytes + at, bytes->size - at);
    dli_buffer_free(bytes);
    *bytes = made;
}

static void unasked(struct w_wire *wire)
{
    struct dli_buffer bytes = {0};

    h_garbled();
    if (h_spoil() < 200)
        put_known_frame(&bytes);
    else
        put_raw_frame(&bytes);
    w_reply(wire, bytes.bytes, bytes.size);
    dli_buffer_free(&bytes);
}

/* ---- another client */

/* A key that is like one of the library's, or below it, or beside it. */
static void tenant(void)
{
    char name[W_KEY];
    struct e_key *key = e.keys;
    struct h_text more = h_text();
    unsigned how = h_spoil();
    int64_t revision = e.revision + 1;
    size_t size, cut;

    for (unsigned i = how / 8 % 8; key && i > 0; i--)
        key = key->next;
    if (!key)
        return;
    if (how % 8 == 0) {
        e_delete((struct e_bytes){key->name, key->size}, (struct e_bytes){NULL, 0}, revision);
    } else if (how % 8 < 4) { /* its value */
        key = e_put((struct e_bytes){key->name, key->size}, how % 8 == 1 ? 0 : key->lease, revision);
        key->value_size = more.size < E_VALUE ? more.size : E_VALUE;
        memcpy(key->value, more.bytes, key->value_size);
    } else {
        cut = how % 8 == 4 ? key->size : how % 8 == 5 && key->size > 16 ? key->size - 16 : h_spoil() % (key->size + 1);
        size = more.size < W_KEY - 1 - cut ? more.size : W_KEY - 1 - cut;
        memcpy(name, key->name, cut);
        memcpy(name + cut, more.bytes, size);
        if (cut + size > 0)
            e_put((struct e_bytes){name, cut + size}, how % 8 == 6 ? key->lease : 0, revision);
    }
    e_commit(revision);
}

/* ---- */

/* A token is the revision that made its key, and a turn; or it was made up. */
static int granted(int64_t token)
{
    for (int i = 0; i < e.events; i++)
        if (e.history[i].revision == token / 128)
            return 1;
    return h_was_forged(token / 128) || h_was_forged(token);
}

static void begin(void)
{
    kept_count = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const urls[] = {"etcd://127.0.0.1:1000,127.0.0.1:1001,127.0.0.1:1002", "etcd://127.0.0.1:1000",
                                       "etcd://u:" SECRET "@127.0.0.1:1000,127.0.0.1:1001",
                                       "etcd://127.0.0.1:1000,127.0.0.1:1001?namespace=n"};
    static const struct hostile_server etcd = {.model = &w_etcd,
                                               .urls = urls,
                                               .begin = begin,
                                               .tenant = tenant,
                                               .spoil = spoil,
                                               .unasked = unasked,
                                               .granted = granted};

    return hostile_run(&etcd, data, size);
}
