/*
 * list.c: the names that a server knows, a part at a time, by SCAN. A name is known while its token counter exists. No
 * state.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "list.h"

#define COUNTER "redisson_lock_token:"

enum { AT_ONCE = 100 }; /* keys that the server looks at: less than 0.1 ms */

int dli_encode_list(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct dli_args args;
    char at[24];

    (void)full;
    snprintf(at, sizeof at, "%llu", (unsigned long long)request->list.at);
    dli_args_clear(&args);
    dli_args_text(&args, "SCAN");
    dli_args_text(&args, at);
    dli_args_text(&args, "MATCH");
    dli_args_text(&args, COUNTER "*");
    dli_args_text(&args, "COUNT");
    dli_args_number(&args, AT_ONCE);
    return dli_args_finish(&args, out);
}

/* The name N of a counter's key, whose end is T(N). *size is 0 when the key belongs to no name. */
static const char *name_of(const struct dli_reply *key, size_t *size)
{
    size_t prefix = strlen(COUNTER);
    const char *name;

    *size = 0;
    if (key->type != DLI_REPLY_TEXT || key->size <= prefix || memchr(key->text, '\0', key->size))
        return NULL;
    name = key->text + prefix;
    *size = key->size - prefix;
    if (*size >= 2 && name[0] == '{' && name[*size - 1] == '}' && !memchr(name + 1, '{', *size - 1)) {
        name++;
        *size -= 2;
    }
    if (*size > DLI_NAME_MAX)
        *size = 0;
    return name;
}

static int decode_at(const struct dli_reply *at, uint64_t *out)
{
    char text[24], *end;

    if (at->type != DLI_REPLY_TEXT || at->size == 0 || at->size >= sizeof text)
        return 0;
    memcpy(text, at->text, at->size);
    text[at->size] = '\0';
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end;
}

static char *copy_names(const struct dli_reply *keys, size_t *ret_size)
{
    size_t room = 1, all = 0;
    char *names;

    for (size_t i = 0; i < keys->size; i++)
        room += keys->items[i].type == DLI_REPLY_TEXT ? keys->items[i].size + 1 : 0;
    if (!(names = malloc(room)))
        return NULL;
    for (size_t i = 0; i < keys->size; i++) {
        size_t size;
        const char *name = name_of(&keys->items[i], &size);

        if (size == 0)
            continue;
        memcpy(names + all, name, size);
        all += size;
        names[all++] = '\0';
    }
    *ret_size = all;
    return names;
}

dlock_status dli_decode_list(const struct dli_reply *reply, struct dli_request *request)
{
    uint64_t at;

    free(request->list.names); /* of a request that was sent again */
    request->list.names = NULL;
    request->list.size = 0;
    if (reply->type != DLI_REPLY_ARRAY || reply->size != 2 || !decode_at(&reply->items[0], &at) ||
        reply->items[1].type != DLI_REPLY_ARRAY)
        return dli_fail(request->reason, DLOCK_PROTOCOL_ERROR, "the server sent a reply that SCAN cannot give");
    if (!(request->list.names = copy_names(&reply->items[1], &request->list.size)))
        return dli_fail(request->reason, DLOCK_OUT_OF_MEMORY, "no memory for the names");
    request->list.at = at;
    return DLOCK_OK;
}
