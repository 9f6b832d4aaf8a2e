/*
 * words.c: see words.h.
 */
#include "words.h"

#include <string.h>

static int hex(char digit)
{
    return digit <= '9' ? digit - '0' : (digit & 0x5f) - 'A' + 10;
}

static size_t decode(char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++) {
        if (*from == '%' && from[1]) {
            *to++ = (char)(hex(from[1]) << 4 | hex(from[2]));
            from += 2;
        } else if (*from != '%') {
            *to++ = *from;
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

int split(char *line, struct word *words)
{
    static char nothing[1];
    char *rest = NULL;
    int count = 0;

    for (char *text = strtok_r(line, " \n", &rest); text && count < WORDS; text = strtok_r(NULL, " \n", &rest)) {
        words[count].text = text;
        words[count++].size = decode(text);
    }
    for (int i = count; i <= WORDS; i++)
        words[i] = (struct word){nothing, 0};
    return count;
}
