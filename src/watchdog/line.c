/*
 * line.c: what the subscriber hears, told to the machines. The hooks run on loop 0 without any mutex held.
 *
 * Own channel: "grant <number> <seq> <token> <lock>" and "open <number> <ms> <lock>". Redisson's channels: any message is
 * a hint to look again. Messages that do not parse are dropped: every waiter also looks for itself.
 */
#include "client.h"

#include <string.h>

#include "sys/sys.h"

void dli_line_follow(struct dli_entry *entry)
{
    struct dli_client *client = entry->client;
    struct dli_mutex *m = &entry->m;

    if (m->needs_line && m->waiters > 0)
        dli_subscriber_want(&client->subscriber);
    m->needs_line = 0;
    if (m->listen != m->follows && __atomic_load_n(&client->line, __ATOMIC_ACQUIRE) == DLI_LINE_READY) {
        m->follows = m->listen;
        dli_subscriber_listen(&client->subscriber, entry->names.channel, entry->names.channel_size, m->listen);
    }
}

static void look_again(struct dli_entry *entry, int64_t now)
{
    entry->m.follows = entry->m.listening = 0;
    dli_mutex_look(&entry->m, now);
}

static void up(void *owner)
{
    struct dli_client *client = owner;

    __atomic_store_n(&client->line, DLI_LINE_READY, __ATOMIC_RELEASE);
    dli_client_each(client, look_again);
}

static void down(void *owner)
{
    struct dli_client *client = owner;

    __atomic_store_n(&client->line, DLI_LINE_BROKEN, __ATOMIC_RELEASE);
    dli_client_each(client, look_again);
}

/* The entries whose channel this is: T(N) is the same text for "x" and "{x}". visit under entry.mutex. */
static void each_of_channel(struct dli_client *client, const char *channel, size_t size,
                            void (*visit)(struct dli_entry *entry, int64_t now))
{
    static const char prefix[] = "redisson_lock__channel:";
    size_t skip = sizeof prefix - 1;

    if (size <= skip || memcmp(channel, prefix, skip) != 0)
        return;
    for (int bare = 0; bare < 2; bare++) {
        struct dli_entry *entry;
        int64_t now = dli_now();

        if (bare && (size < skip + 3 || channel[skip] != '{' || channel[size - 1] != '}'))
            return;
        entry = dli_entry_find(client, channel + skip + bare, size - skip - 2 * (size_t)bare);
        if (!entry)
            continue;
        dli_entry_lock(entry);
        entry->surplus++;
        visit(entry, now);
        dli_entry_pump(entry, now);
        dli_entry_unlock(entry);
    }
}

static void now_listening(struct dli_entry *entry, int64_t now)
{
    if (entry->m.listen) {
        entry->m.listening = 1;
        dli_mutex_look(&entry->m, now);
    }
}

static void listens(void *owner, const char *channel, size_t size)
{
    each_of_channel(owner, channel, size, now_listening);
}

/* Two locks may share a channel: who still wants to listen asks again. */
static void not_listening(struct dli_entry *entry, int64_t now)
{
    (void)now;
    entry->m.follows = entry->m.listening = 0;
}

static void deaf(void *owner, const char *channel, size_t size)
{
    each_of_channel(owner, channel, size, not_listening);
}

static void released(struct dli_entry *entry, int64_t now)
{
    dli_mutex_look(&entry->m, now);
}

/* A positive decimal number and the space behind it; -1 when there is none. */
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

static void granted(struct dli_client *client, const char *at, const char *end)
{
    int64_t id = number(&at, end), seq = number(&at, end), token = number(&at, end), now = dli_now();
    struct dli_entry *entry;

    if (id < 0 || seq < 0 || token < 0 || !(entry = dli_entry_find(client, at, (size_t)(end - at))))
        return;
    dli_entry_lock(entry);
    entry->surplus++;
    if (!entry->m.owned) {
        dli_mutex_pushed(&entry->m, id, seq, token, now);
        if (entry->m.owned)
            dli_client_count(client, DLOCK_STAT_PUSHED_GRANTS, 1);
    }
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}

static void opened(struct dli_client *client, const char *at, const char *end)
{
    int64_t id = number(&at, end), ms = number(&at, end), now = dli_now();
    struct dli_entry *entry;

    if (id < 0 || ms < 0 || ms > 1000 || !(entry = dli_entry_find(client, at, (size_t)(end - at))))
        return;
    dli_entry_lock(entry);
    entry->surplus++;
    if (entry->m.want == id)
        dli_mutex_look(&entry->m, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}

static void message(void *owner, const char *channel, size_t channel_size, const char *text, size_t size)
{
    struct dli_client *client = owner;
    const char *end = text + size;

    if (channel_size != strlen(client->channel) || memcmp(channel, client->channel, channel_size) != 0)
        each_of_channel(client, channel, channel_size, released);
    else if (size > 6 && memcmp(text, "grant ", 6) == 0)
        granted(client, text + 6, end);
    else if (size > 5 && memcmp(text, "open ", 5) == 0)
        opened(client, text + 5, end);
}

const struct dli_subscriber_hooks dli_line_hooks = {up, down, listens, deaf, message};
