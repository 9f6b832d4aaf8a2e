/*
 * ears.c: see ears.h.
 */
#include "ears.h"

#include <stdlib.h>
#include <string.h>

void dli_ears_init(struct dli_ears *ears, const char *uuid)
{
    pthread_mutex_init(&ears->mutex, NULL);
    ears->first = ears->last = NULL;
    ears->uuid = uuid;
}

void dli_ears_fini(struct dli_ears *ears)
{
    struct dli_ear *ear;

    while ((ear = ears->first)) {
        ears->first = ear->next;
        free(ear);
    }
    pthread_mutex_destroy(&ears->mutex);
}

struct dli_ear *dli_ears_next(const struct dli_ears *ears, const struct dli_ear *ear)
{
    return __atomic_load_n(ear ? &ear->next : &ears->first, __ATOMIC_ACQUIRE);
}

static int is_there(const struct dli_ears *ears, const char *lock, size_t space)
{
    const struct dli_ear *ear = dli_ears_next(ears, NULL);

    while (ear && (ear->space != space || memcmp(dli_ear_space(ear), lock, space) != 0))
        ear = dli_ears_next(ears, ear);
    return ear != NULL;
}

static struct dli_ear *ear_new(const struct dli_ears *ears, const char *lock, size_t space)
{
    size_t size = DLI_EAR_HEAD + space + DLI_UUID_SIZE;
    struct dli_ear *ear = malloc(sizeof *ear + size + 1);

    if (!ear)
        return NULL;
    *ear = (struct dli_ear){NULL, space, size};
    memcpy(ear->name, "dlock_client:", DLI_EAR_HEAD);
    memcpy(ear->name + DLI_EAR_HEAD, lock, space);
    dli_uuid_in(ear->name + DLI_EAR_HEAD + space, ears->uuid, space);
    ear->name[size] = '\0';
    return ear;
}

int dli_ears_add(struct dli_ears *ears, const char *lock, size_t space)
{
    struct dli_ear *ear = NULL;

    if (is_there(ears, lock, space))
        return 0;
    pthread_mutex_lock(&ears->mutex);
    if (!is_there(ears, lock, space) && (ear = ear_new(ears, lock, space))) {
        __atomic_store_n(ears->last ? &ears->last->next : &ears->first, ear, __ATOMIC_RELEASE);
        ears->last = ear;
    }
    pthread_mutex_unlock(&ears->mutex);
    return ear != NULL;
}

const struct dli_ear *dli_ears_find(const struct dli_ears *ears, const char *channel, size_t size)
{
    const struct dli_ear *ear = dli_ears_next(ears, NULL);

    while (ear && (ear->size != size || memcmp(ear->name, channel, size) != 0))
        ear = dli_ears_next(ears, ear);
    return ear;
}
