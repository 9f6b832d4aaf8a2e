/*
 * fuzz_zookeeper.c: hostile members of ZooKeeper: replies and watch events, as frames one after the other. The first byte of an
 * input chooses what the frames are taken for; 0 tries each. What is read lies inside its frame, and all its bytes are touched.
 * Children that stand in line are in order, and a number that is read can be written again.
 */
#include "fuzz.h"
#include "zookeeper/inner.h"

enum { KINDS = 8, HEAD = 4 };

/* Behind it there is nothing, so that AddressSanitizer sees a read too far. */
struct frame {
    char *bytes;
    size_t size;
};

static void touch(const struct frame *frame, struct dli_zk_text text)
{
    volatile char sink = 0;

    REQUIRE(text.size <= frame->size);
    REQUIRE(text.size == 0 || (text.bytes >= frame->bytes && text.bytes + text.size <= frame->bytes + frame->size));
    for (size_t i = 0; i < text.size; i++)
        sink = text.bytes[i];
    (void)sink;
}

static void greeting(const struct frame *frame, struct dli_zk_text body)
{
    struct dli_zk_ticket ticket = {.id = 0};

    (void)frame;
    if (dli_zk_decode_connect(body, &ticket) == 0 && ticket.timeout <= 0)
        REQUIRE(body.size >= 4 + 4 + 8 + 4);
}

static void event(const struct frame *frame, struct dli_zk_text body)
{
    struct dli_zk_text path;
    int32_t type;

    if (dli_zk_decode_event(body, &type, &path) == 0)
        touch(frame, path);
}

static void created(const struct frame *frame, struct dli_zk_text body)
{
    struct dli_zk_text path;
    struct dli_zk_stat stat;
    char again[16];
    int32_t seq;

    if (dli_zk_decode_created(body, &path, &stat))
        return;
    touch(frame, path);
    if (dli_zk_sequence(path, &seq))
        return;
    snprintf(again, sizeof again, "%010d", (int)seq);
    REQUIRE(seq >= 0 && path.size > 10 && memcmp(path.bytes + path.size - 10, again, 10) == 0);
}

static void data(const struct frame *frame, struct dli_zk_text body)
{
    struct dli_zk_text text;
    struct dli_zk_stat stat;

    if (dli_zk_decode_data(body, &text, &stat) == 0)
        touch(frame, text);
}

static void children(const struct frame *frame, struct dli_zk_text body)
{
    struct dli_zk_children all;

    if (dli_zk_children(body, &all))
        return;
    for (int i = 0; i < all.count; i++) {
        const struct dli_zk_child *child = &all.child[i];

        touch(frame, child->name);
        dli_zk_is_owners(child->name, "c0ffee:1");
        REQUIRE(child->side == 'l' || child->side == 'r' || child->side == 'w' || child->side == 'p');
        REQUIRE(i == 0 || all.child[i - 1].seq <= child->seq);
    }
    free(all.child);
}

static void multi(const struct frame *frame, struct dli_zk_text body)
{
    struct dli_zk_text rest = body;
    struct dli_zk_part part, first;
    size_t parts = 0;
    int got;

    while ((got = dli_zk_decode_part(&rest, &part)) > 0) {
        touch(frame, part.path);
        REQUIRE(++parts <= body.size);
    }
    REQUIRE((dli_zk_decode_multi(body, &first) < 0) == (got < 0));
    touch(frame, first.path);
}

static void names(const struct frame *frame, struct dli_zk_text body)
{
    struct dli_zk_text name;
    int32_t left;

    if (dli_zk_decode_count(&body, &left))
        return;
    for (; left > 0 && dli_zk_decode_name(&body, &name) == 0; left--)
        touch(frame, name);
}

/* A reply: its head, then what belongs to its request. */
static void reply(const struct frame *frame, struct dli_zk_text body, int kind)
{
    static void (*const kinds[KINDS])(const struct frame *, struct dli_zk_text) = {
        NULL, greeting, event, created, data, children, multi, names,
    };
    struct dli_zk_reply head;

    if (kind == 1) {
        greeting(frame, body);
        return;
    }
    if (dli_zk_decode_reply(body, &head))
        return;
    touch(frame, head.body);
    REQUIRE(head.body.size + 16 == frame->size);
    kinds[kind](frame, head.body);
}

static void read_frame(const char *bytes, size_t size, int kind)
{
    struct frame frame = {malloc(size + !size), size};

    if (!frame.bytes)
        abort();
    memcpy(frame.bytes, bytes, size);
    for (int i = 1; i < KINDS; i++)
        if (kind == 0 || kind == i)
            reply(&frame, (struct dli_zk_text){frame.bytes, size}, i);
    free(frame.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    const char *bytes = (const char *)input + 1;
    int64_t length;

    if (size == 0)
        return 0;
    for (size_t left = size - 1; (length = dli_zk_frame(bytes, left)) > 0; left -= (size_t)length) {
        REQUIRE(length >= HEAD && (size_t)length <= left);
        read_frame(bytes + HEAD, (size_t)length - HEAD, input[0] % KINDS);
        bytes += length;
    }
    return 0;
}
