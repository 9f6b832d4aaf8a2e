/*
 * buffer.c: see buffer.h.
 */
#include "buffer.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 1024, KEEP_ROOM = 64 * 1024 };

int dli_buffer_reserve(struct dli_buffer *buffer, size_t size)
{
    size_t needed, room = buffer->room ? buffer->room : FIRST_ROOM;
    if (__builtin_add_overflow(buffer->size, size, &needed))
        return -1;
    while (room < needed) {
        if (__builtin_mul_overflow(room, 2, &room))
            return -1;
    }
    if (room == buffer->room)
        return 0;
    char *bytes = realloc(buffer->bytes, room);
    if (!bytes)
        return -1;
    buffer->bytes = bytes;
    buffer->room = room;
    return 0;
}

int dli_buffer_add(struct dli_buffer *buffer, const void *bytes, size_t size)
{
    if (dli_buffer_reserve(buffer, size))
        return -1;
    if (size > 0)
        memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
    return 0;
}

void dli_buffer_drop(struct dli_buffer *buffer, size_t size)
{
    buffer->size -= size;
    if (buffer->size > 0)
        memmove(buffer->bytes, buffer->bytes + size, buffer->size);
    else if (buffer->room > KEEP_ROOM)
        dli_buffer_free(buffer);
}

void dli_buffer_free(struct dli_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct dli_buffer){0};
}
