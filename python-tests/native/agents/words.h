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

/* Split line in place; returns the number of words. Empty words follow the last one: words has room for WORDS + 1. */
int split(char *line, struct word *words);

#endif
