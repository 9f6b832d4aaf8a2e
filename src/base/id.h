/*
 * id.h: numbers as text, and the ids of owners: "<uuid of the client>:<grant number>".
 *
 * The uuid is one of version 8. The three hex digits behind the 8 are not random: for a lock in a namespace they are the size of
 * the namespace with its colon, else 0. By them a script finds the client's channel in the lock's name.
 */
#ifndef DLI_BASE_ID_H
#define DLI_BASE_ID_H

#include <stddef.h>
#include <stdint.h>

enum { DLI_UUID_SIZE = 36, DLI_OWNER_MAX = 64 };

/* Write number in decimal, terminated; returns its length. to has room for 21 bytes. */
size_t dli_decimal(char *to, int64_t number);

/* Write a client's uuid, not terminated, as it is for locks in a namespace of so many bytes. */
enum { DLI_UUID_SPACE = 15, DLI_UUID_DIGITS = 3 };
void dli_uuid_in(char out[DLI_UUID_SIZE], const char *uuid, size_t space);

/* Whether two uuids are of one client, in whatever namespaces. Only the first DLI_UUID_SIZE bytes count. */
int dli_uuid_same(const char *one, const char *other);

/* Write an owner's id, terminated. uuid has DLI_UUID_SIZE bytes; it is that for the lock's namespace. */
void dli_id(char out[DLI_OWNER_MAX], const char *uuid, int64_t number);

#endif
