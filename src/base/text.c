/*
 * text.c: see text.h. No state.
 */
#include "text.h"

#include <stdio.h>
#include <string.h>

struct dli_text dli_text_in(char *bytes, size_t room)
{
    if (room > 0)
        bytes[0] = '\0';
    return (struct dli_text){.bytes = bytes, .room = room};
}

/* So many bytes may follow those that are there. */
static size_t left_of(const struct dli_text *text)
{
    return text->room > text->size ? text->room - text->size - 1 : 0;
}

/* So many bytes were put, and as many of them as fit are there now. */
static void grow(struct dli_text *text, size_t size)
{
    size_t left = left_of(text);

    text->size += size < left ? size : left;
    if (__builtin_add_overflow(text->whole, size, &text->whole))
        text->whole = (size_t)-1;
}

void dli_text_add(struct dli_text *text, const char *bytes, size_t size)
{
    size_t left = left_of(text), fits = size < left ? size : left;

    if (fits > 0)
        memcpy(text->bytes + text->size, bytes, fits);
    grow(text, size);
    if (text->room > 0)
        text->bytes[text->size] = '\0';
}

void dli_text_vprint(struct dli_text *text, const char *format, va_list list)
{
    size_t left = text->room > text->size ? text->room - text->size : 0;
    int size = vsnprintf(left ? text->bytes + text->size : NULL, left, format, list);

    if (size < 0 && left > 0)
        text->bytes[text->size] = '\0';
    if (size < 0)
        text->whole += text->whole < (size_t)-1; /* it is not all there */
    else
        grow(text, (size_t)size);
}

void dli_text_print(struct dli_text *text, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    dli_text_vprint(text, format, list);
    va_end(list);
}

size_t dli_print(char *out, size_t room, const char *format, ...)
{
    struct dli_text text = dli_text_in(out, room);
    va_list list;

    va_start(list, format);
    dli_text_vprint(&text, format, list);
    va_end(list);
    if (!dli_text_cut(&text))
        return text.size;
    if (room > 0)
        out[0] = '\0';
    return 0;
}
