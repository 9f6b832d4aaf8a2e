/*
 * text.h: text in a room of fixed size. It is always terminated, never leaves its room, and knows when it was cut.
 *
 * What snprintf returns is the size that a text would have had, not the one it has. Nothing but text.c uses it (./dev lint).
 */
#ifndef DLI_BASE_TEXT_H
#define DLI_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* Made by dli_text_in. */
struct dli_text {
    char *bytes;
    size_t size;  /* of what is there, without the terminator */
    size_t whole; /* of all that was put, may be more than size; no offset */
    size_t room;
};

/* Begin an empty text. room 0: nothing is written, and only the size of the whole is found out. */
struct dli_text dli_text_in(char *bytes, size_t room);

/* Put something at the end, as much as fits. */
void dli_text_add(struct dli_text *text, const char *bytes, size_t size);
void dli_text_print(struct dli_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void dli_text_vprint(struct dli_text *text, const char *format, va_list list) __attribute__((format(printf, 2, 0)));

/* Whether something did not fit. */
static inline int dli_text_cut(const struct dli_text *text)
{
    return text->whole > text->size;
}

/* Write all of it, terminated, and return its size; or, if it does not fit, nothing: out is "" then, and 0 returned. */
size_t dli_print(char *out, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
