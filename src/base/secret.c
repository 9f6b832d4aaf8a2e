/*
 * secret.c: see secret.h.
 *
 * The text is read in three ways: as it is, with percent escapes, with backslash escapes. A reading is a row of characters, each
 * with its place in the text. Each form of a secret is looked for in each reading. What is found is marked in the text.
 */
#include "secret.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

enum { TEXT_MAX = 1024 };                       /* dli_escape cuts at less */
enum { GRAM = 4, BASE64_RUN = 6, HEX_RUN = 8 }; /* characters of a form that are found */
enum { GRAMS = 4096, READINGS = 3 };

struct reading {
    size_t size;
    uint8_t byte[TEXT_MAX];
    uint16_t from[TEXT_MAX + 1]; /* the place of a character, and that behind the last one */
    uint8_t grams[GRAMS / 8];    /* which rows of four are there */
};

/* ---- readings */

static int hex(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = digit ? strchr(digits, digit >= 'A' && digit <= 'F' ? digit - 'A' + 'a' : digit) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* The number of so many hexadecimal digits, or -1. */
static int hex_number(const char *at, const char *end, int digits)
{
    int number = 0;

    if (end - at < digits)
        return -1;
    for (int i = 0; i < digits; i++) {
        int digit = hex(at[i]);

        if (digit < 0)
            return -1;
        number = number * 16 + digit;
    }
    return number;
}

/* A reader gives the character at a place, and how many bytes it takes. */
typedef size_t reader(const char *at, const char *end, int *byte);

static size_t as_it_is(const char *at, const char *end, int *byte)
{
    (void)end;
    *byte = (uint8_t)*at;
    return 1;
}

static size_t with_percents(const char *at, const char *end, int *byte)
{
    *byte = *at == '%' ? hex_number(at + 1, end, 2) : -1;
    return *byte < 0 ? as_it_is(at, end, byte) : 3;
}

/* \x41, A, \101, \" and the like. */
static size_t with_backslashes(const char *at, const char *end, int *byte)
{
    static const char letters[] = "abfnrtv", meant[] = "\a\b\f\n\r\t\v";
    const char *letter;
    int digits = end - at < 2 ? 0 : at[1] == 'x' ? 2 : at[1] == 'u' ? 4 : at[1] == 'U' ? 8 : 0;

    if (*at != '\\' || end - at < 2)
        return as_it_is(at, end, byte);
    if (digits && (*byte = hex_number(at + 2, end, digits)) >= 0) {
        *byte &= 0xff;
        return (size_t)digits + 2;
    }
    if (end - at >= 4 && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' && at[3] >= '0' && at[3] <= '7') {
        *byte = (at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0');
        return 4;
    }
    letter = strchr(letters, at[1]);
    *byte = letter && at[1] ? meant[letter - letters] : (uint8_t)at[1];
    return 2;
}

static unsigned gram(const uint8_t *at)
{
    return ((unsigned)at[0] * 31 + (unsigned)at[1] * 1021 + (unsigned)at[2] * 257 + (unsigned)at[3] * 8191) % GRAMS;
}

static void read_text(struct reading *reading, const char *text, size_t size, reader *read)
{
    const char *at = text, *end = text + size;
    int byte;

    reading->size = 0;
    memset(reading->grams, 0, sizeof reading->grams);
    while (at < end) {
        reading->from[reading->size] = (uint16_t)(at - text);
        at += read(at, end, &byte);
        reading->byte[reading->size++] = (uint8_t)byte;
    }
    reading->from[reading->size] = (uint16_t)size;
    for (size_t i = 0; i + GRAM <= reading->size; i++) {
        unsigned of = gram(reading->byte + i);

        reading->grams[of / 8] |= (uint8_t)(1U << of % 8);
    }
}

/* ---- forms of a secret */

struct form {
    const uint8_t *bytes;
    size_t size, run; /* run: so many in a row are found */
};

static void mark(const struct reading *reading, size_t from, size_t count, uint8_t *hidden)
{
    memset(hidden + reading->from[from], 1, (size_t)(reading->from[from + count] - reading->from[from]));
}

static size_t common(const struct reading *reading, size_t at, const struct form *form, size_t of)
{
    size_t length = 0;

    while (at + length < reading->size && of + length < form->size &&
           reading->byte[at + length] == form->bytes[of + length])
        length++;
    return length;
}

/* Mark what begins with the character of the form at this place. */
static void mark_runs(const struct reading *reading, const struct form *form, size_t of, uint8_t *hidden)
{
    for (size_t at = 0; at < reading->size; at++) {
        size_t length = reading->byte[at] == form->bytes[of] ? common(reading, at, form, of) : 0;

        if (length >= form->run)
            mark(reading, at, length, hidden);
    }
}

/* A text that was cut may end within the secret. */
static void mark_cut(const struct reading *reading, const struct form *form, uint8_t *hidden)
{
    for (size_t length = form->run - 1; length > 0; length--) {
        if (length > reading->size || common(reading, reading->size - length, form, 0) < length)
            continue;
        mark(reading, reading->size - length, length, hidden);
        return;
    }
}

static void find(const struct reading *reading, const struct form *form, int cut, uint8_t *hidden)
{
    for (size_t of = 0; of + form->run <= form->size; of++) {
        unsigned which = form->run < GRAM ? 0 : gram(form->bytes + of);

        if (form->run < GRAM || (reading->grams[which / 8] & 1U << which % 8))
            mark_runs(reading, form, of, hidden);
    }
    if (cut && form->size >= form->run)
        mark_cut(reading, form, hidden);
}

/* Base64 of the secret as it stands behind so many bytes (0 to 2) of something longer: only what does not depend on them. */
static size_t base64(uint8_t *out, const uint8_t *secret, size_t size, size_t behind, const char *last_two)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    size_t used = 0, bit = (6 - behind * 8 % 6) % 6;

    for (; bit + 6 <= size * 8; bit += 6) {
        unsigned pair = (unsigned)secret[bit / 8] << 8 | (bit / 8 + 1 < size ? secret[bit / 8 + 1] : 0U);
        unsigned six = pair >> (10 - bit % 8) & 63;

        out[used++] = (uint8_t)(six < 62 ? letters[six] : last_two[six - 62]);
    }
    return used;
}

static size_t hexadecimal(uint8_t *out, const uint8_t *secret, size_t size, const char *digits)
{
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = (uint8_t)digits[secret[i] >> 4];
        out[2 * i + 1] = (uint8_t)digits[secret[i] & 15];
    }
    return 2 * size;
}

/* room: for the other forms, or NULL without memory. */
static void find_forms(const struct reading *reading, const char *secret, int cut, uint8_t *room, uint8_t *hidden)
{
    size_t size = strlen(secret);
    const uint8_t *bytes = (const uint8_t *)secret;
    struct form form = {bytes, size, size < GRAM ? size : GRAM};

    find(reading, &form, cut, hidden);
    if (!room)
        return;
    form.bytes = room;
    form.run = BASE64_RUN;
    for (size_t i = 0; i < 6; i++) {
        form.size = base64(room, bytes, size, i / 2, i % 2 ? "-_" : "+/");
        find(reading, &form, cut, hidden);
    }
    form.run = HEX_RUN;
    for (int i = 0; i < 2; i++) {
        form.size = hexadecimal(room, bytes, size, i ? "0123456789ABCDEF" : "0123456789abcdef");
        find(reading, &form, cut, hidden);
    }
}

/* ---- the text */

static size_t without(char clean[TEXT_MAX * 3], const char *text, size_t size, const uint8_t *hidden)
{
    size_t used = 0;

    for (size_t i = 0; i < size; i++) {
        if (!hidden[i])
            clean[used++] = text[i];
        else if (i == 0 || !hidden[i - 1])
            for (int star = 0; star < 3; star++)
                clean[used++] = '*';
    }
    return used;
}

static void find_secret(const struct dli_said *said, const char *secret, uint8_t *hidden)
{
    static reader *const readers[READINGS] = {as_it_is, with_percents, with_backslashes};
    static const char marks[READINGS] = {0, '%', '\\'};
    uint8_t *room = malloc(2 * strlen(secret) + 1);
    struct reading reading;

    for (int i = 0; i < READINGS; i++) {
        if (marks[i] && !memchr(said->bytes, marks[i], said->size))
            continue;
        read_text(&reading, said->bytes, said->size, readers[i]);
        find_forms(&reading, secret, said->cut, room, hidden);
    }
    if (room)
        explicit_bzero(room, 2 * strlen(secret) + 1);
    free(room);
}

const char *dli_mask(char *out, size_t out_size, const struct dli_said *said, const char *const *secret, size_t secrets)
{
    size_t size = said->size < TEXT_MAX ? said->size : TEXT_MAX;
    struct dli_said text = {said->bytes, size, said->cut || size < said->size};
    uint8_t hidden[TEXT_MAX] = {0};
    char clean[TEXT_MAX * 3];

    for (size_t i = 0; i < secrets && size > 0; i++)
        if (secret[i] && secret[i][0])
            find_secret(&text, secret[i], hidden);
    return dli_escape(out, out_size, clean, without(clean, said->bytes, size, hidden));
}
