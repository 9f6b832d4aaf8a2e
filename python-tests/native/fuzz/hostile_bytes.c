/*
 * hostile_bytes.c: what becomes of the bytes of a hostile server on their way: see hostile.h. The linker puts it before w_reply.
 */
#include "hostile.h"

enum { UNTOUCHED = 160, RAW = 24 };

void __real_w_reply(struct w_wire *wire, const void *bytes, size_t size);
void __wrap_w_reply(struct w_wire *wire, const void *bytes, size_t size);

void h_put(struct dli_buffer *bytes, const void *more, size_t size)
{
    if (size > 0 && dli_buffer_add(bytes, more, size))
        abort();
}

static void hang_up(void *what, int64_t number)
{
    struct w_wire *wire = what;

    if (number != INT64_MIN && wire->open)
        w_hang_up(wire);
}

void h_hang_up(struct w_wire *wire)
{
    w_at(w.now, hang_up, wire, 0);
}

static size_t place_in(const struct dli_buffer *bytes)
{
    size_t place = h_spoil();

    if (bytes->size > 256)
        place = place << 8 | h_spoil();
    return bytes->size ? place % bytes->size : 0;
}

/* size bytes at a place become as many others. */
static void replace(struct dli_buffer *bytes, size_t at, size_t size, unsigned others)
{
    struct dli_buffer made = {0};

    h_put(&made, bytes->bytes, at);
    while (others-- > 0) {
        char one = (char)h_spoil();

        h_put(&made, &one, 1);
    }
    if (at + size < bytes->size)
        h_put(&made, bytes->bytes + at + size, bytes->size - at - size);
    dli_buffer_free(bytes);
    *bytes = made;
}

static void spoil(struct w_wire *wire, struct dli_buffer *bytes, unsigned how)
{
    size_t at;

    h_garbled();
    switch (how) {
    case 0: /* another byte */
        at = place_in(bytes);
        replace(bytes, at, 1, 1);
        break;
    case 1: /* cut short, and it may end there */
        at = place_in(bytes);
        replace(bytes, at, bytes->size, 0);
        if (h_spoil() & 1)
            h_hang_up(wire);
        break;
    case 2: /* bytes less, bytes more */
        at = place_in(bytes);
        replace(bytes, at, h_spoil_below(9), h_spoil_below(9));
        break;
    case 3: /* something else */
        replace(bytes, 0, bytes->size, h_spoil_below(RAW));
        break;
    default:
        hostile->spoil(wire, bytes);
    }
}

void __wrap_w_reply(struct w_wire *wire, const void *bytes, size_t size)
{
    struct dli_buffer copy = {0};
    unsigned how = h_spoil();

    if (how < UNTOUCHED) {
        __real_w_reply(wire, bytes, size);
        return;
    }
    h_put(&copy, bytes, size);
    if (how < UNTOUCHED + 8) { /* lost */
        dli_buffer_free(&copy);
    } else if (how < UNTOUCHED + 16) { /* twice */
        h_put(&copy, bytes, size);
    } else if (how < UNTOUCHED + 24) {
        h_hang_up(wire);
    } else if (how < UNTOUCHED + 32) { /* never again */
        wire->silent = 1;
    } else {
        spoil(wire, &copy, how % 8);
    }
    if (copy.size > 0)
        __real_w_reply(wire, copy.bytes, copy.size);
    dli_buffer_free(&copy);
}
