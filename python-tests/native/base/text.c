/*
 * text.c: base/text.h. Each room is exactly as large as is said: a sanitizer sees the byte behind it, and so does the guard here.
 */
#include "base.h"

#include <string.h>

#include "base/text.h"

enum { ROOM = 12, GUARD = 0x5a };

static const char all[] = "0123456789abcdefghij";

/* What is in the room, and behind it. */
static void check(const char *room, size_t size, const struct dli_text *text, size_t whole)
{
    size_t fits = size == 0 ? 0 : whole < size - 1 ? whole : size - 1;

    REQUIRE(text->size == fits && text->whole == whole);
    REQUIRE(dli_text_cut(text) == (whole > fits));
    REQUIRE(size == 0 || (memcmp(room, all, fits) == 0 && room[fits] == '\0'));
    for (size_t i = size; i < ROOM + 4; i++)
        REQUIRE(room[i] == GUARD);
}

/* The first bytes of all in two pieces, by both ways of writing. */
static void in_pieces(size_t size, size_t first, size_t second)
{
    char room[ROOM + 4];
    struct dli_text text;

    for (int way = 0; way < 4; way++) {
        memset(room, GUARD, sizeof room);
        text = dli_text_in(room, size);
        if (way & 1)
            dli_text_add(&text, all, first);
        else
            dli_text_print(&text, "%.*s", (int)first, all);
        if (way & 2)
            dli_text_add(&text, all + first, second);
        else
            dli_text_print(&text, "%.*s", (int)second, all + first);
        check(room, size, &text, first + second);
    }
}

/* All, or nothing. */
static void at_once(size_t size, size_t length)
{
    char room[ROOM + 4];
    int fits = length < size;

    memset(room, GUARD, sizeof room);
    REQUIRE(dli_print(room, size, "%.*s", (int)length, all) == (fits ? length : 0));
    REQUIRE(size == 0 || (fits ? strncmp(room, all, length) == 0 && room[length] == '\0' : room[0] == '\0'));
    for (size_t i = size; i < sizeof room; i++)
        REQUIRE(room[i] == GUARD);
}

void texts(void)
{
    for (size_t size = 0; size <= ROOM; size++)
        for (size_t first = 0; first <= 10; first++) {
            for (size_t second = 0; second <= 10; second++)
                in_pieces(size, first, second);
            at_once(size, first);
            at_once(size, first + 10);
        }
}
