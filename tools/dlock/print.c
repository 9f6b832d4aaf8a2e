/*
 * print.c: text that is safe on a terminal, JSON, and times for people. See tool.h.
 */
#include "tool.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

/* The length of the UTF-8 character at bytes; 0 when there is none. Surrogates and overlong forms are none. */
static size_t character(const unsigned char *at, size_t left)
{
    size_t size = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;

    if (size == 0 || size > left)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
        (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return size;
}

static uint32_t decode(const unsigned char *at, size_t size)
{
    uint32_t code = size == 1 ? at[0] : at[0] & (0xffU >> (size + 1));

    for (size_t i = 1; i < size; i++)
        code = code << 6 | (at[i] & 0x3f);
    return code;
}

/* Control characters, also those of C1, which a terminal may obey, and those that turn the direction of text. */
static int control(const unsigned char *at, size_t size)
{
    uint32_t code = decode(at, size);

    return code < ' ' || (code >= 0x7f && code < 0xa0) || (code >= 0x202a && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

void tool_print_text(FILE *out, const char *bytes, size_t size)
{
    const unsigned char *at = (const unsigned char *)bytes, *end = at + size;

    while (at < end) {
        size_t length = character(at, (size_t)(end - at));

        if (length && !control(at, length)) {
            fwrite(at, 1, length, out);
            at += length;
        } else {
            fprintf(out, "\\x%02x", *at++);
        }
    }
}

/* How many places of a terminal a character takes. */
static int places(uint32_t code)
{
    static const uint32_t wide[][2] = {{0x1100, 0x115f},   {0x2e80, 0xa4cf},   {0xac00, 0xd7a3},  {0xf900, 0xfaff},
                                       {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
                                       {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

    if ((code >= 0x300 && code <= 0x36f) || (code >= 0x200b && code <= 0x200f) || (code >= 0xfe00 && code <= 0xfe0f))
        return 0;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (code >= wide[i][0] && code <= wide[i][1])
            return 2;
    return 1;
}

int tool_print_width(FILE *out, const char *bytes, size_t size, int width)
{
    const unsigned char *at = (const unsigned char *)bytes, *end = at + size;
    int used = 0;

    while (at < end) {
        size_t length = character(at, (size_t)(end - at));
        int plain = length && !control(at, length), more = plain ? places(decode(at, length)) : 4;

        if (used + more > width)
            break;
        used += more;
        tool_print_text(out, (const char *)at, plain ? length : 1);
        at += plain ? length : 1;
    }
    return used;
}

/* ---- JSON */

static int json_first = 1, json_depth;

static void json_comma(FILE *out)
{
    if (!json_first)
        fputs(", ", out);
    json_first = 0;
}

static void json_string(FILE *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);

    fputc('"', out);
    while (at < end) {
        size_t length = character(at, (size_t)(end - at));

        if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (*at < ' ' || *at == 0x7f)
            fprintf(out, "\\u%04x", *at);
        else if (length)
            fwrite(at, 1, length, out);
        else
            fputs("\\ufffd", out);
        at += length ? length : 1;
    }
    fputc('"', out);
}

static void json_key(FILE *out, const char *key)
{
    json_comma(out);
    fprintf(out, "\"%s\": ", key);
}

void tool_json_begin(FILE *out)
{
    if (json_depth++ > 0)
        json_comma(out);
    fputc('{', out);
    json_first = 1;
}

void tool_json_list(FILE *out, const char *key)
{
    json_key(out, key);
    fputc('[', out);
    json_first = 1;
}

void tool_json_list_end(FILE *out)
{
    fputc(']', out);
    json_first = 0;
}

void tool_json_text(FILE *out, const char *key, const char *bytes)
{
    json_key(out, key);
    json_string(out, bytes);
}

void tool_json_number(FILE *out, const char *key, int64_t value)
{
    json_key(out, key);
    fprintf(out, "%" PRId64, value);
}

void tool_json_flag(FILE *out, const char *key, int value)
{
    json_key(out, key);
    fputs(value ? "true" : "false", out);
}

void tool_json_null(FILE *out, const char *key)
{
    json_key(out, key);
    fputs("null", out);
}

void tool_json_known(FILE *out, const char *key, int64_t value)
{
    if (value < 0)
        tool_json_null(out, key);
    else
        tool_json_number(out, key, value);
}

void tool_json_end(FILE *out)
{
    fputc('}', out);
    if (--json_depth == 0)
        fputc('\n', out);
    json_first = json_depth == 0;
}

/* ---- times */

const char *tool_span(char text[TOOL_SPAN], int64_t ms)
{
    int64_t s = ms / 1000;

    if (ms < 0)
        snprintf(text, TOOL_SPAN, "-");
    else if (ms < 1000)
        snprintf(text, TOOL_SPAN, "%" PRId64 " ms", ms);
    else if (s < 60)
        snprintf(text, TOOL_SPAN, "%" PRId64 ".%" PRId64 " s", s, ms % 1000 / 100);
    else if (s < 3600)
        snprintf(text, TOOL_SPAN, "%" PRId64 " m %" PRId64 " s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text, TOOL_SPAN, "%" PRId64 " h %" PRId64 " m", s / 3600, s % 3600 / 60);
    else
        snprintf(text, TOOL_SPAN, "%" PRId64 " d %" PRId64 " h", s / 86400, s % 86400 / 3600);
    return text;
}

int64_t tool_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
