/*
 * fuzz_zookeeper.c: hostile members of ZooKeeper: replies and watch events, as frames one after the other. The first byte of an
 * input chooses what the frames are taken for; 0 tries each. What is read lies inside its frame, or in the room of its answer, and all
 * its bytes are touched. Numbers are in their ranges, children in order. What is refused leaves nothing behind.
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

static void greeting(struct dli_zk_text body)
{
    struct dli_zk_ticket ticket = {.id = 7};

    if (dli_zk_decode_connect(body, &ticket)) {
        REQUIRE(ticket.id == 7 && ticket.timeout == 0);
        return;
    }
    REQUIRE(ticket.id == 7 && ticket.timeout >= 0 && ticket.timeout <= DLI_ZK_TIMEOUT_MAX);
}

static void event(const struct frame *frame, const struct dli_zk_reply *reply)
{
    struct dli_zk_text path;
    int32_t type;

    if (dli_zk_decode_event(reply->body, &type, &path))
        return;
    touch(frame, path);
    REQUIRE(type >= 0 && type <= DLI_ZK_EVENT_CHILDREN);
}

/* A text of an answer lies in its room. */
static void touch_room(const struct dli_zk_answer *answer, struct dli_zk_text text)
{
    const struct frame room = {answer->room, answer->room_size};

    touch(&room, text);
}

static void check_children(const struct dli_zk_answer *answer)
{
    const struct dli_zk_children *all = &answer->children;

    for (int i = 0; i < all->count; i++) {
        const struct dli_zk_child *child = &all->child[i];

        touch_room(answer, child->name);
        dli_zk_is_owners(child->name, "c0ffee:1");
        REQUIRE(child->name.size <= DLI_ZK_NAME_MAX && child->seq >= 0 && *dli_zk_side_text(child->side));
        REQUIRE(i == 0 || all->child[i - 1].seq <= child->seq);
    }
}

static void check_answer(const struct dli_zk_answer *answer)
{
    const struct dli_zk_stat *stat = &answer->stat;

    REQUIRE(answer->seq >= -1);
    REQUIRE(stat->czxid >= 0 && stat->ctime >= 0 && stat->mtime >= 0);
    REQUIRE(stat->version >= DLI_ZK_RUN_OVER);
    REQUIRE(stat->ctime >> 53 == 0 && stat->mtime >> 53 == 0);
    REQUIRE(answer->data.size <= DLI_ZK_DATA_MAX);
    if (answer->data.size > 0) {
        touch_room(answer, answer->data);
        REQUIRE(answer->data.bytes[answer->data.size] == '\0');
    }
    check_children(answer);
}

/* The bytes as the answer to this request. */
static void answer_to(const struct dli_zk_ask *ask, const struct dli_zk_reply *reply)
{
    struct dli_zk_answer answer = {0}, nothing = {0};
    struct dli_buffer asked = {0};
    int failed;

    if (dli_zk_encode_ask(&asked, 1, ask))
        abort();
    failed = dli_zk_decode_answer(&asked, reply, &answer);
    REQUIRE(!failed || memcmp(&answer, &nothing, sizeof answer) == 0);
    REQUIRE(answer.room_size <= 3 * reply->body.size + 1);
    check_answer(&answer);
    dli_zk_answer_drop(&answer);
    dli_buffer_free(&asked);
}

static void answers(const struct dli_zk_reply *reply, int kind)
{
    const struct dli_zk_text path = {"/", 1};
    const struct dli_zk_ask parts[] = {
        {.op = DLI_ZK_CREATE, .path = path},
        {.op = DLI_ZK_CREATE, .path = path, .mine = 1},
        {.op = DLI_ZK_DELETE, .path = path},
        {.op = DLI_ZK_SET_DATA, .path = path},
    };
    const struct dli_zk_ask asks[KINDS][4] = {
        [3] = {{.op = DLI_ZK_CREATE, .path = path}, {.op = DLI_ZK_CREATE_CONTAINER, .path = path}},
        [4] = {{.op = DLI_ZK_GET_DATA, .path = path}},
        [5] = {{.op = DLI_ZK_GET_CHILDREN, .path = path}},
        [6] = {{.op = DLI_ZK_MULTI, .part = parts, .parts = 1},
               {.op = DLI_ZK_MULTI, .part = parts, .parts = 2},
               {.op = DLI_ZK_MULTI, .part = parts + 2, .parts = 2},
               {.op = DLI_ZK_MULTI, .part = parts, .parts = 4}},
        [7] = {{.op = DLI_ZK_EXISTS, .path = path}, {.op = DLI_ZK_SYNC, .path = path}},
    };

    for (int i = 0; i < 4 && asks[kind][i].op; i++)
        answer_to(&asks[kind][i], reply);
}

/* A reply: its head, then what belongs to its request. */
static void reply(const struct frame *frame, struct dli_zk_text body, int kind)
{
    struct dli_zk_reply head;

    if (kind == 1) {
        greeting(body);
        return;
    }
    if (dli_zk_decode_reply(body, &head))
        return;
    touch(frame, head.body);
    REQUIRE(head.body.size + 16 == frame->size);
    if (kind == 2)
        event(frame, &head);
    else
        answers(&head, kind);
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
    for (size_t left = size - 1; (length = dli_zk_decode_frame(bytes, left)) > 0; left -= (size_t)length) {
        REQUIRE(length >= HEAD && (size_t)length <= left);
        read_frame(bytes + HEAD, (size_t)length - HEAD, input[0] % KINDS);
        bytes += length;
    }
    return 0;
}
