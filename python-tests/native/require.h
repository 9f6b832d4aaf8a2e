/*
 * require.h: for programs that test a part of the library from inside. What is not so is printed, and ends the program with 1.
 */
#ifndef DLI_NATIVE_REQUIRE_H
#define DLI_NATIVE_REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
