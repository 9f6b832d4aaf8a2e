/*
 * id.h: numbers as text, and the ids of owners: "<uuid of the client>:<grant number>".
 */
#ifndef DLI_BASE_ID_H
#define DLI_BASE_ID_H

#include <stddef.h>
#include <stdint.h>

enum { DLI_UUID_SIZE = 36, DLI_OWNER_MAX = 64 };

/* Write number in decimal, terminated; returns its length. to has room for 21 bytes. */
size_t dli_decimal(char *to, int64_t number);

/* Write an owner's id, terminated. uuid has DLI_UUID_SIZE bytes. */
void dli_id(char out[DLI_OWNER_MAX], const char *uuid, int64_t number);

#endif
