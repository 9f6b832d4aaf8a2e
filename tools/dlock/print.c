/*
 * print.c: text that is safe on a terminal, and times for people. See tool.h.
 */
#include "tool.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/printable.h"

size_t tool_escape(char *out, size_t room, const char *bytes, size_t size)
{
    int marks = DLI_MARKS_NONE;
    size_t used = 0;

    while (size > 0) {
        size_t length = dli_printable(bytes, size, &marks), more = length ? length : 4;

        if (used + more + 1 > room)
            break;
        if (length)
            memcpy(out + used, bytes, length);
        else
            snprintf(out + used, room - used, "\\x%02x", (unsigned char)*bytes);
        used += more;
        bytes += length ? length : 1;
        size -= length ? length : 1;
    }
    if (room > 0)
        out[used] = '\0';
    return used;
}

void tool_print_text(FILE *out, const char *bytes, size_t size)
{
    int marks = DLI_MARKS_NONE;

    while (size > 0) {
        size_t length = dli_printable(bytes, size, &marks);

        if (length)
            fwrite(bytes, 1, length, out);
        else
            fprintf(out, "\\x%02x", (unsigned char)*bytes);
        bytes += length ? length : 1;
        size -= length ? length : 1;
    }
}

/* How many places of a terminal a character takes. The ranges are those of Unicode 14 that are wide or full-width. */
static int places(uint32_t code)
{
    static const uint32_t wide[][2] = {
        {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},   {0x23f0, 0x23f0},
        {0x23f3, 0x23f3},   {0x25fd, 0x25fe},   {0x2614, 0x2615},   {0x2648, 0x2653},   {0x267f, 0x267f},
        {0x2693, 0x2693},   {0x26a1, 0x26a1},   {0x26aa, 0x26ab},   {0x26bd, 0x26be},   {0x26c4, 0x26c5},
        {0x26ce, 0x26ce},   {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x26f2, 0x26f3},   {0x26f5, 0x26f5},
        {0x26fa, 0x26fa},   {0x26fd, 0x26fd},   {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},
        {0x274c, 0x274c},   {0x274e, 0x274e},   {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},
        {0x27b0, 0x27b0},   {0x27bf, 0x27bf},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2b55, 0x2b55},
        {0x2e80, 0x303e},   {0x3041, 0x3247},   {0x3250, 0x4dbf},   {0x4e00, 0xa4c6},   {0xa960, 0xa97c},
        {0xac00, 0xd7a3},   {0xf900, 0xfad9},   {0xfe10, 0xfe6b},   {0xff01, 0xff60},   {0xffe0, 0xffe6},
        {0x16fe0, 0x18d08}, {0x1aff0, 0x1b2fb}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e},
        {0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c}, {0x1f37e, 0x1f393},
        {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0}, {0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e},
        {0x1f440, 0x1f440}, {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f54e}, {0x1f550, 0x1f567},
        {0x1f57a, 0x1f57a}, {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5},
        {0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d2}, {0x1f6d5, 0x1f6df}, {0x1f6eb, 0x1f6ec}, {0x1f6f4, 0x1f6fc},
        {0x1f7e0, 0x1f7f0}, {0x1f90c, 0x1f93a}, {0x1f93c, 0x1f945}, {0x1f947, 0x1f9ff}, {0x1fa70, 0x1faf6},
        {0x20000, 0x2ebe0}, {0x2f800, 0x2fa1d}, {0x30000, 0x3134a},
    };
    size_t low = 0, high = sizeof wide / sizeof wide[0];

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (code < wide[middle][0])
            high = middle;
        else if (code > wide[middle][1])
            low = middle + 1;
        else
            return dli_is_mark(code) ? 0 : 2;
    }
    return dli_is_mark(code) ? 0 : 1;
}

int tool_print_width(FILE *out, const char *bytes, size_t size, int width)
{
    int used = 0, marks = DLI_MARKS_NONE;

    while (size > 0) {
        uint32_t code = 0;
        size_t length = dli_printable(bytes, size, &marks);
        int more = length && dli_utf8(bytes, size, &code) ? places(code) : 4;

        if (used + more > width)
            break;
        used += more;
        if (length)
            fwrite(bytes, 1, length, out);
        else
            fprintf(out, "\\x%02x", (unsigned char)*bytes);
        bytes += length ? length : 1;
        size -= length ? length : 1;
    }
    return used;
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
