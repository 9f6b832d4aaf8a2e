/*
 * messages.c: finds the locks that a message concerns and calls the hooks, see messages.h. No state.
 */
#include "messages.h"

#include <string.h>

#include "redis/codec/codec.h"

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
        !dli_uuid_same(channel + at - DLI_UUID_SIZE - 1, uuid))
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

/* ---- the grammar of messages on the own channel: the scripts write them, and only this reads them */

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
 * A grant: the number of tokens follows the first token. A fair lock's says who is next, with a token for each.
 */
static int read_grant(const char **at, const char *end, struct dli_message *out)
{
    struct dli_pushed *grant = &out->grant;

    out->what = DLI_MESSAGE_GRANT;
    out->id = number(at, end);
    if (out->id <= 0 || !dli_ticket_read(at, end, &grant->seq, &out->proof))
        return -1;
    grant->token = number(at, end);
    grant->tokens = number(at, end);
    if (out->family == DLOCK_KIND_FAIR && (!next(at, end, &grant->next) || grant->next.count != grant->tokens - 1))
        return -1;
    return grant->token > 0 && grant->tokens > 0 ? 0 : -1;
}

static int read_mutex_grant(const char **at, const char *end, struct dli_message *out)
{
    out->family = DLOCK_KIND_MUTEX;
    return read_grant(at, end, out);
}

static int read_fair_grant(const char **at, const char *end, struct dli_message *out)
{
    out->family = DLOCK_KIND_FAIR;
    return read_grant(at, end, out);
}

static int read_free(const char **at, const char *end, struct dli_message *out)
{
    (void)at, (void)end;
    out->what = DLI_MESSAGE_FREE;
    return 0;
}

static int read_gate(const char **at, const char *end, struct dli_message *out)
{
    out->what = DLI_MESSAGE_GATE;
    return number(at, end) >= 0 ? 0 : -1;
}

static int read_open(const char **at, const char *end, struct dli_message *out)
{
    int64_t ms;

    out->what = DLI_MESSAGE_OPEN;
    out->id = number(at, end);
    ms = number(at, end);
    return out->id > 0 && ms >= 0 && ms <= 1000 ? 0 : -1;
}

static const struct {
    const char *verb;
    int (*read)(const char **at, const char *end, struct dli_message *out); /* what stands before the name */
} forms[] = {{"grant ", read_mutex_grant},
             {"fair ", read_fair_grant},
             {"free ", read_free},
             {"gate ", read_gate},
             {"open ", read_open}};

int dli_message_read(const char *text, size_t size, struct dli_message *out)
{
    const char *end = text + size;

    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t verb = strlen(forms[i].verb);
        const char *at = text + verb;

        if (size <= verb || memcmp(text, forms[i].verb, verb) != 0)
            continue;
        if (forms[i].read(&at, end, out))
            return -1;
        out->name = at;
        out->size = (size_t)(end - at);
        return 0;
    }
    return -1;
}

/* ---- what they mean */

/* Whoever may publish to our channel may have written it: without the proof of the place it is nothing. */
static void granted(const struct dli_store *store, const struct dli_message *message)
{
    struct dli_message_target target = {message->family, message->name, message->size, message->id};

    if (message->proof == dli_proof(store->secret, message->id, message->grant.seq))
        store->hooks->granted(store->owner, &target, &message->grant);
}

/* Kinds with a line on the server: those whose waiters are granted the lock, and those whose processes are called. */
static const int32_t lined[] = {DLOCK_KIND_MUTEX, DLOCK_KIND_FAIR};
static const int32_t called[] = {DLOCK_KIND_WRITE, DLOCK_KIND_SEMAPHORE, DLOCK_KIND_PERMIT_SEMAPHORE};

/* The lock of this name may be free. A message does not say which of the kinds it is. id: of a waiter, or 0. */
static void hint_each(const struct dli_store *store, const int32_t *kinds, size_t count,
                      const struct dli_message *message)
{
    for (size_t i = 0; i < count; i++) {
        struct dli_message_target target = {kinds[i], message->name, message->size, message->id};

        (message->id ? store->hooks->rumour : store->hooks->hint)(store->owner, &target);
    }
}

/*
 * A gate was closed or opened, it says: mutex and fair lock of that name query it. Other kinds query the gate themselves.
 */
static void gate(const struct dli_store *store, const struct dli_message *message)
{
    for (size_t i = 0; i < sizeof lined / sizeof lined[0]; i++) {
        struct dli_message_target target = {lined[i], message->name, message->size, 0};

        store->hooks->gate(store->owner, &target, -1);
    }
}

static void dispatch_own(const struct dli_store *store, const struct dli_ear *own, const char *text, size_t size)
{
    struct dli_message message;

    if (dli_message_read(text, size, &message) || message.size <= own->space ||
        memcmp(message.name, dli_ear_space(own), own->space) != 0)
        return;
    switch (message.what) {
    case DLI_MESSAGE_GRANT:
        granted(store, &message);
        break;
    case DLI_MESSAGE_FREE:
        hint_each(store, called, sizeof called / sizeof called[0], &message);
        break;
    case DLI_MESSAGE_GATE:
        gate(store, &message);
        break;
    case DLI_MESSAGE_OPEN: /* a turn of foreign clients ends soon, or the first in line were dead */
        hint_each(store, lined, sizeof lined / sizeof lined[0], &message);
        break;
    }
}

void dli_message_dispatch(const struct dli_store *store, const struct dli_ear *own, const char *channel,
                          size_t channel_size, const char *text, size_t size)
{
    if (own)
        dispatch_own(store, own, text, size);
    else if (size != 2 || memcmp(text, "00", 2) != 0) /* "00" is sent after a "1" that was received: see rw.lua */
        dli_message_channel(store, channel, channel_size, store->hooks->hint);
}
