/*
 * take.h: numbers and texts off the front of bytes that may be anything. Each returns 0, or -1 when there is not enough.
 */
#ifndef DLI_ZOOKEEPER_CODEC_TAKE_H
#define DLI_ZOOKEEPER_CODEC_TAKE_H

#include <string.h>

#include "codec.h"

static inline int dli_zk_take(struct dli_zk_text *from, void *to, size_t size)
{
    if (from->size < size)
        return -1;
    if (to)
        memcpy(to, from->bytes, size);
    from->bytes += size;
    from->size -= size;
    return 0;
}

static inline int dli_zk_take_int(struct dli_zk_text *from, int32_t *value)
{
    unsigned char bytes[4];
    uint32_t all = 0;

    if (dli_zk_take(from, bytes, sizeof bytes))
        return -1;
    for (int i = 0; i < 4; i++)
        all = all << 8 | bytes[i];
    *value = (int32_t)all;
    return 0;
}

static inline int dli_zk_take_long(struct dli_zk_text *from, int64_t *value)
{
    int32_t high, low;

    if (dli_zk_take_int(from, &high) || dli_zk_take_int(from, &low))
        return -1;
    *value = (int64_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
    return 0;
}

/* A length of -1 is no text, which is the empty one to us. */
static inline int dli_zk_take_text(struct dli_zk_text *from, struct dli_zk_text *text)
{
    int32_t size;

    if (dli_zk_take_int(from, &size) || size < -1)
        return -1;
    *text = (struct dli_zk_text){from->bytes, size < 0 ? 0 : (size_t)size};
    return dli_zk_take(from, NULL, text->size);
}

/* ---- line.c */

/* The children in a reply, with their names copied, as the children of *answer, which is empty. 0, -1, -2 without memory. */
int dli_zk_take_children(struct dli_zk_text body, struct dli_zk_answer *answer);

/* The number that a server has put behind the path of a node. -1: it has run over. */
int32_t dli_zk_take_sequence(struct dli_zk_text digits);

#endif
