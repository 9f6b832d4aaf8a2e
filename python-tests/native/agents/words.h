/*
 * words.h: the lines that the tests send to their C programs: words between blanks, %XX for any byte, "%" alone for the
 * empty word.
 */
#ifndef WORDS_H
#define WORDS_H

#include <stddef.h>

enum { WORDS = 64 };

struct word {
    char *text;
    size_t size;
};

/* Take line apart, in place; how many words there are. Behind the last one come empty ones: words has room for WORDS + 1. */
int split(char *line, struct word *words);

#endif
