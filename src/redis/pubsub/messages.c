/*
 * messages.c: finds the locks that a message concerns and calls the hooks, see messages.h. No state.
 */
#include "messages.h"

#include <stdio.h>
#include <string.h>

#include "redis/codec/codec.h"

void dli_own_channel(char out[DLI_OWN_CHANNEL_MAX], const char *uuid)
{
    snprintf(out, DLI_OWN_CHANNEL_MAX, "dlock_client:%s", uuid);
}

/* ---- channels */

/*
 * The number at the end of ":<our uuid>:<number>"; *size becomes the size without it. 0: not the channel of one of our
 * waiters.
 */
static int64_t waiter_of(const char *uuid, const char *channel, size_t *size)
{
    size_t at = *size, power = 1;
    int64_t value = 0;

    for (; at > 0 && channel[at - 1] >= '0' && channel[at - 1] <= '9' && *size - at < 18; power *= 10)
        value += (int64_t)power * (channel[--at] - '0');
    if (at < DLI_UUID_SIZE + 3 || channel[at - 1] != ':' || channel[at - DLI_UUID_SIZE - 2] != ':' ||
        memcmp(channel + at - DLI_UUID_SIZE - 1, uuid, DLI_UUID_SIZE) != 0)
        return 0;
    *size = at - DLI_UUID_SIZE - 2;
    return value;
}

typedef void target_fn(void *owner, const struct dli_message_target *target);

/*
 * Call visit for the locks of one kind that have this channel. T(N) is the same text for "x" and "{x}": both names count.
 */
static void each_of_kind(const struct dli_store *store, const struct dli_wire *wire, const char *channel, size_t size,
                         target_fn *visit)
{
    const struct dli_kind *kind = dli_kind_find(wire->id);
    size_t skip = strcspn(wire->channel, "@="), end = strlen(wire->channel) - skip - 1;
    int64_t number = kind->own_channel ? waiter_of(store->uuid, channel, &size) : 0;

    if (kind->family != kind->id || (kind->own_channel && !number) || size <= skip + end ||
        memcmp(channel, wire->channel, skip) != 0)
        return;
    for (size_t bare = 0; bare < 2; bare++) {
        struct dli_message_target target = {kind->id, channel + skip + bare, size - skip - end - 2 * bare, number};

        if (bare && (size < skip + 3 || channel[skip] != '{' || channel[size - 1] != '}'))
            return;
        visit(store->owner, &target);
    }
}

void dli_message_channel(const struct dli_store *store, const char *channel, size_t size, target_fn *visit)
{
    const struct dli_wire *wire;

    for (size_t i = 0; (wire = dli_wire_at(i)); i++)
        each_of_kind(store, wire, channel, size, visit);
}

/* ---- messages on the own channel */

/* Read a decimal number and the space behind it. -1: there is none. */
static int64_t number(const char **at, const char *end)
{
    int64_t value = 0;
    const char *start = *at;

    while (*at < end && **at >= '0' && **at <= '9' && value < INT64_MAX / 10 - 1)
        value = value * 10 + (*(*at)++ - '0');
    if (*at == start || *at == end || **at != ' ')
        return -1;
    (*at)++;
    return value;
}

/* Read the waiters that are next, and the space behind them. 0: they are not there. */
static int next(const char **at, const char *end, struct dli_next *out)
{
    const char *space = memchr(*at, ' ', (size_t)(end - *at)), *from = *at;

    if (!space)
        return 0;
    *at = space + 1;
    return dli_next_read(out, from, (size_t)(space - from));
}

/*
 * A grant. Whoever may publish to our channel may have written it: without the proof of the place it is nothing. The number of
 * tokens follows the first token. A fair lock's says who is next, with a token for each.
 */
static void granted(const struct dli_store *store, int32_t family, const char *at, const char *end)
{
    int64_t id = number(&at, end);
    struct dli_pushed grant = {0};
    struct dli_message_target target;
    uint64_t proof;

    if (id <= 0 || !dli_ticket_read(&at, end, &grant.seq, &proof) || proof != dli_proof(store->secret, id, grant.seq))
        return;
    grant.token = number(&at, end);
    grant.tokens = number(&at, end);
    if (family == DLOCK_KIND_FAIR && (!next(&at, end, &grant.next) || grant.next.count != grant.tokens - 1))
        return;
    target = (struct dli_message_target){family, at, (size_t)(end - at), id};
    if (grant.token > 0 && grant.tokens > 0)
        store->hooks->granted(store->owner, &target, &grant);
}

/* Kinds with a line on the server: those whose waiters are granted the lock, and those whose processes are called. */
static const int32_t lined[] = {DLOCK_KIND_MUTEX, DLOCK_KIND_FAIR};
static const int32_t called[] = {DLOCK_KIND_WRITE, DLOCK_KIND_SEMAPHORE, DLOCK_KIND_PERMIT_SEMAPHORE};

/* The lock of this name may be free. A message does not say which of the kinds it is. id: of a waiter, or 0. */
static void hint_each(const struct dli_store *store, const int32_t *kinds, size_t count, const char *at,
                      const char *end, int64_t id)
{
    for (size_t i = 0; i < count; i++) {
        struct dli_message_target target = {kinds[i], at, (size_t)(end - at), id};

        store->hooks->hint(store->owner, &target);
    }
}

/* A turn of foreign clients ends soon, or the first in line were dead. */
static void opened(const struct dli_store *store, const char *at, const char *end)
{
    int64_t id = number(&at, end), ms = number(&at, end);

    if (id > 0 && ms >= 0 && ms <= 1000)
        hint_each(store, lined, sizeof lined / sizeof lined[0], at, end, id);
}

/*
 * A gate was closed or opened, it says: mutex and fair lock of that name query it. Other kinds query the gate themselves.
 */
static void gate(const struct dli_store *store, const char *at, const char *end)
{
    int64_t ms = number(&at, end);

    for (size_t i = 0; ms >= 0 && i < 2; i++) {
        struct dli_message_target target = {lined[i], at, (size_t)(end - at), 0};

        store->hooks->gate(store->owner, &target, -1);
    }
}

void dli_message_dispatch(const struct dli_store *store, int own, const char *channel, size_t channel_size,
                          const char *text, size_t size)
{
    const char *end = text + size;

    if (!own && size == 2 && memcmp(text, "00", 2) == 0)
        return; /* sent after a "1" that was received: see rw.lua */
    if (!own)
        dli_message_channel(store, channel, channel_size, store->hooks->hint);
    else if (size > 6 && memcmp(text, "grant ", 6) == 0)
        granted(store, DLOCK_KIND_MUTEX, text + 6, end);
    else if (size > 5 && memcmp(text, "fair ", 5) == 0)
        granted(store, DLOCK_KIND_FAIR, text + 5, end);
    else if (size > 5 && memcmp(text, "free ", 5) == 0)
        hint_each(store, called, sizeof called / sizeof called[0], text + 5, end, 0);
    else if (size > 5 && memcmp(text, "gate ", 5) == 0)
        gate(store, text + 5, end);
    else if (size > 5 && memcmp(text, "open ", 5) == 0)
        opened(store, text + 5, end);
}
