/*
 * fuzz_reader.c: hostile servers against the reply reader. The first byte of an input chooses how the rest is cut into
 * chunks. Every reply is walked, its bounds are checked and all its bytes are touched. After an error the reader is
 * reset and must work again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "redis/codec/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth)
        abort();
}

struct walk {
    size_t nodes, bytes;
};

static void touch(struct walk *walk, const struct dli_reply *reply)
{
    volatile char sink = 0;
    require(reply->size <= DLI_REPLY_BULK);
    for (size_t i = 0; i < reply->size; i++)
        sink = reply->text[i];
    (void)sink;
    require(reply->text[reply->size] == '\0');
    walk->bytes += reply->size;
}

static void visit(struct walk *walk, const struct dli_reply *reply, int depth)
{
    walk->nodes++;
    switch (reply->type) {
    case DLI_REPLY_NIL:
    case DLI_REPLY_INTEGER:
        break;
    case DLI_REPLY_TEXT:
    case DLI_REPLY_ERROR:
        touch(walk, reply);
        break;
    case DLI_REPLY_ARRAY:
        require(depth < DLI_REPLY_DEPTH);
        for (size_t i = 0; i < reply->size; i++)
            visit(walk, &reply->items[i], depth + 1);
        break;
    default:
        abort();
    }
}

/* Read all complete replies. 0 or -1. */
static int drain(struct dli_reader *reader)
{
    const struct dli_reply *reply;
    int found;
    while ((found = dli_reader_next(reader, &reply)) == 1) {
        struct walk walk = {0};
        visit(&walk, reply, 0);
        require(walk.nodes <= DLI_REPLY_ELEMENTS + 1 && walk.bytes <= DLI_REPLY_BYTES);
    }
    require(found < 0 || dli_reader_left(reader) <= DLI_REPLY_BULK + 64);
    return found;
}

static void check_reset(struct dli_reader *reader)
{
    const struct dli_reply *reply = NULL;
    dli_reader_reset(reader);
    require(dli_reader_feed(reader, "*1\r\n:7\r\n", 8) == 0 && dli_reader_next(reader, &reply) == 1);
    require(reply && reply->size == 1 && reply->items[0].integer == 7 && dli_reader_left(reader) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct dli_reader *reader = dli_reader_new();
    if (!reader)
        return 0;
    uint32_t random = data[0] * 2654435761u + 1;
    size_t longest = data[0] % 8 == 0 ? size : (size_t)1 << data[0] % 8;
    for (size_t at = 1, piece; at < size; at += piece) {
        random = random * 1664525 + 1013904223;
        piece = 1 + (random >> 8) % longest;
        if (piece > size - at)
            piece = size - at;
        if (dli_reader_feed(reader, (const char *)data + at, piece) || drain(reader))
            check_reset(reader);
    }
    dli_reader_free(reader);
    return 0;
}
