/*
 * base.h: tests of parts of src/base that have no I/O, one function each. main.c runs them.
 */
#ifndef DLI_NATIVE_BASE_H
#define DLI_NATIVE_BASE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "require.h"

void lists(void);
void numbers(void);
void secrets(void);
void texts(void);

#endif
