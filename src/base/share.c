/*
 * share.c: see share.h.
 */
#include "share.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { COMPARED = 8 };

struct share {
    struct dli_link link;
    int64_t users;
    int64_t bytes[]; /* aligned */
};

static struct share *find(const struct dli_link *list, const void *bytes, size_t size)
{
    int compared = 0;

    for (struct dli_link *link = list->next; link != list && compared < COMPARED; link = link->next) {
        struct share *share = DLI_OBJECT(link, struct share, link);

        if (memcmp(share->bytes, bytes, size) == 0)
            return share;
        compared++;
    }
    return NULL;
}

const void *dli_share_get(struct dli_link *list, const void *bytes, size_t size)
{
    struct share *share = find(list, bytes, size);

    if (!share) {
        if (!(share = malloc(sizeof *share + size)))
            return NULL;
        memcpy(share->bytes, bytes, size);
        share->users = 0;
        dli_list_append(list->next, &share->link); /* in front */
    }
    share->users++;
    return share->bytes;
}

void dli_share_put(const void *copy)
{
    struct share *share = DLI_OBJECT(copy, struct share, bytes);

    if (--share->users > 0)
        return;
    dli_list_remove(&share->link);
    free(share);
}
