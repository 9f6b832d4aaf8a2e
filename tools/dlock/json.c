/*
 * json.c: JSON objects, one a line. See tool.h.
 *
 * What people are not shown as it is (printable.h) is written as \uNNNN, so a line is safe on a terminal, too, and gives
 * the exact text back. Bytes that are no UTF-8 become U+FFFD each; then KEY_hex beside KEY has all bytes.
 */
#include <inttypes.h>
#include <string.h>

#include "base/printable.h"
#include "tool.h"

static int json_first = 1, json_depth;

static void json_comma(FILE *out)
{
    if (!json_first)
        fputs(", ", out);
    json_first = 0;
}

/* \uNNNN, in two halves beyond the first 65,536. */
static void json_code(FILE *out, uint32_t code)
{
    if (code >= 0x10000)
        fprintf(out, "\\u%04x\\u%04x", 0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
    else
        fprintf(out, "\\u%04x", code);
}

/* Returns whether all of it is UTF-8. */
static int json_string(FILE *out, const char *at)
{
    int marks = DLI_MARKS_NONE, good = 1;
    size_t left = strlen(at);

    fputc('"', out);
    while (left > 0) {
        uint32_t code = 0xfffd;
        size_t length = dli_utf8(at, left, &code), size = length ? length : 1;

        good &= length > 0;
        if (code == '"' || code == '\\')
            fprintf(out, "\\%c", (int)code);
        else if (dli_printable(at, left, &marks))
            fwrite(at, 1, length, out);
        else
            json_code(out, code);
        at += size;
        left -= size;
    }
    fputc('"', out);
    return good;
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
    if (json_string(out, bytes))
        return;
    json_comma(out);
    fprintf(out, "\"%s_hex\": \"", key);
    for (; *bytes; bytes++)
        fprintf(out, "%02x", (unsigned char)*bytes);
    fputc('"', out);
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
