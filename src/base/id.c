/*
 * id.c: numbers as text and ids of owners, see id.h.
 */
#include "id.h"

#include <string.h>

size_t dli_decimal(char *to, int64_t number)
{
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    char digits[20];
    size_t count = 0, size = 0;

    do
        digits[count++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        to[size++] = '-';
    while (count > 0)
        to[size++] = digits[--count];
    to[size] = '\0';
    return size;
}

void dli_uuid_in(char out[DLI_UUID_SIZE], const char *uuid, size_t space)
{
    static const char digits[] = "0123456789abcdef";

    memcpy(out, uuid, DLI_UUID_SIZE);
    for (int i = DLI_UUID_DIGITS - 1; i >= 0; i--, space /= 16)
        out[DLI_UUID_SPACE + i] = digits[space % 16];
}

int dli_uuid_same(const char *one, const char *other)
{
    size_t behind = DLI_UUID_SPACE + DLI_UUID_DIGITS;

    return memcmp(one, other, DLI_UUID_SPACE) == 0 && memcmp(one + behind, other + behind, DLI_UUID_SIZE - behind) == 0;
}

void dli_id(char out[DLI_OWNER_MAX], const char *uuid, int64_t number)
{
    memcpy(out, uuid, DLI_UUID_SIZE);
    out[DLI_UUID_SIZE] = ':';
    dli_decimal(out + DLI_UUID_SIZE + 1, number);
}
