/*
 * base.h: tests of parts of src/base that have no I/O, one function each. main.c runs them.
 */
#ifndef DLI_NATIVE_BASE_H
#define DLI_NATIVE_BASE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

void lists(void);
void numbers(void);
void secrets(void);
void texts(void);

#endif
