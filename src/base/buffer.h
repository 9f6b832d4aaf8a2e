/*
 * buffer.h: a growing buffer of bytes that are added at the end and taken off the front.
 */
#ifndef DLI_BASE_BUFFER_H
#define DLI_BASE_BUFFER_H

#include <stddef.h>

/* Zero it before first use. */
struct dli_buffer {
    char *bytes;
    size_t size, room;
};

/* Make room for size more bytes. 0, or -1 without memory. */
int dli_buffer_reserve(struct dli_buffer *buffer, size_t size);
int dli_buffer_add(struct dli_buffer *buffer, const void *bytes, size_t size); /* 0 or -1 without memory */
void dli_buffer_drop(struct dli_buffer *buffer, size_t size);                  /* take size bytes off the front */
void dli_buffer_free(struct dli_buffer *buffer);                               /* empty and free; usable again */

#endif
