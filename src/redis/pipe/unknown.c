/*
 * unknown.c: see unknown.h.
 */
#include "unknown.h"

#include <string.h>

/* The hash of the script in a command, or NULL. */
static const char *hash_of(const struct dli_buffer *command)
{
    static const char size[] = "$40\r\n";
    const size_t ahead = sizeof "*12345\r\n$7\r\nEVALSHA\r\n$40\r\n";
    const char *at =
        command->size < ahead + DLI_SCRIPT_HASH ? NULL : memmem(command->bytes, ahead, size, sizeof size - 1);

    return at ? at + sizeof size - 1 : NULL;
}

static int find(const struct dli_unknown *unknown, const char *hash)
{
    for (int i = 0; i < DLI_UNKNOWN_MOST; i++)
        if (memcmp(unknown->hash[i], hash, DLI_SCRIPT_HASH) == 0)
            return i;
    return -1;
}

int dli_unknown_coming(struct dli_unknown *unknown, struct dli_call *call)
{
    const char *hash = hash_of(&call->command);
    int at = hash ? find(unknown, hash) : -1;

    if (at >= 0 && !call->refused) {
        call->refused = 1;
        return 1;
    }
    if (at < 0 && hash) {
        at = unknown->next;
        unknown->next = (at + 1) % DLI_UNKNOWN_MOST;
        memcpy(unknown->hash[at], hash, DLI_SCRIPT_HASH);
    }
    call->loads = at + 1;
    return 0;
}

void dli_unknown_over(struct dli_unknown *unknown, struct dli_call *call)
{
    if (call->loads)
        unknown->hash[call->loads - 1][0] = '\0';
    call->loads = 0;
}

void dli_unknown_forget(struct dli_unknown *unknown)
{
    for (int i = 0; i < DLI_UNKNOWN_MOST; i++)
        unknown->hash[i][0] = '\0';
}
