/*
 * next.c: which waiters of this process follow one another in the line of a fair lock, as text. See fair_line.lua. No
 * state.
 */
#include "commands.h"

#include "base/id.h"

const char *dli_next_write(char out[DLI_NEXT_TEXT], const struct dli_next *next)
{
    char *at = out;

    for (int i = 0; i < next->count; i++) {
        at += dli_decimal(at, next->number[i]);
        *at++ = ',';
    }
    *at = '\0';
    return out;
}

/* The number at *at, which moves behind the comma that follows. 0: there is none. */
static int64_t read_one(const char **at, const char *end)
{
    int64_t value = 0;

    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        if (value > INT64_MAX / 10 - 1)
            return 0;
        value = value * 10 + (**at - '0');
    }
    if (*at < end && **at != ',')
        return 0;
    *at += *at < end;
    return value;
}

int dli_next_read(struct dli_next *next, const char *text, size_t size)
{
    const char *end = text + size;

    next->count = 0;
    if (size == 1 && *text == ',')
        return 1;
    while (text < end) {
        int64_t number = read_one(&text, end);

        if (number <= 0 || next->count == DLI_NEXT_MAX) {
            next->count = 0;
            return 0;
        }
        next->number[next->count++] = number;
    }
    return 1;
}

int dli_next_decode(const struct dli_reply *reply, const struct dli_answer *answer, struct dli_next *next)
{
    const struct dli_reply *text = reply->type == DLI_REPLY_ARRAY && reply->size > 3 ? &reply->items[3] : NULL;

    if (answer->got != DLI_TRY_GRANTED || !text || text->type != DLI_REPLY_TEXT)
        return 1;
    return dli_next_read(next, text->text, text->size) && next->count == answer->tokens - 1;
}
