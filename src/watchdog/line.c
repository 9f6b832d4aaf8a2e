/*
 * line.c: what the subscriber hears, told to the machines. The hooks run on loop 0 without any mutex held.
 *
 * Own channel: "grant <number> <seq> <token> <lock>" for a mutex and "fair ..." for a fair lock, "open <number> <ms> <lock>"
 * and "gate <ms> <lock>". Redisson's channels: any message is a hint to look again. Messages that do not parse are dropped:
 * every waiter also looks for itself.
 *
 * The holds of a name listen to its channel together: the first one subscribes, the last one leaves. Waiters of a fair lock
 * have channels of their own.
 */
#include "client.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

enum { CHANNEL_MAX = 1200 };

/* The entry that counts who listens to the channel. */
static struct dli_entry *ear(struct dli_entry *entry)
{
    return entry->parent && !entry->kind->own_channel ? entry->parent : entry;
}

/* entry.mutex held: begin or end to listen. */
static void listen(struct dli_entry *entry, int on)
{
    struct dli_subscriber *subscriber = &entry->client->subscriber;
    char channel[CHANNEL_MAX];
    size_t size = entry->names.channel.size;

    memcpy(channel, entry->names.channel.text, size);
    if (entry->kind->own_channel) {
        entry->followed = on ? entry->m.want : entry->followed;
        channel[size++] = ':';
        dli_entry_owner(entry, entry->followed, channel + size);
        size += strlen(channel + size);
    }
    dli_subscriber_listen(subscriber, channel, size, on, &ear(entry)->listeners);
}

/* entry.mutex held: a channel that others listen to already may have had a message since the last look was sent. */
static void join(struct dli_entry *entry)
{
    int64_t since = __atomic_load_n(&ear(entry)->heard_at, __ATOMIC_ACQUIRE);

    if (!since)
        return;
    entry->m.listening = 1;
    if (since >= entry->m.sent_at)
        dli_mutex_look(&entry->m, dli_now());
}

/* What became of a gate before the line was up: who waits behind a holder of this process sends nothing that would meet it. */
struct dli_question {
    struct dli_call call;
    struct dli_entry *entry; /* with a ref */
    int64_t until;           /* what the machine believed then */
    int outdated;            /* a message came since */
};

static int encode_question(struct dli_call *call, int full)
{
    struct dli_question *question = DLI_OBJECT(call, struct dli_question, call);
    const char *words[2] = {"PTTL", question->entry->names.gate.text};

    (void)full;
    call->command.size = 0;
    return dli_encode_words(&call->command, 2, words);
}

static void question_free(struct dli_question *question)
{
    dli_buffer_free(&question->call.command);
    free(question);
}

static int64_t gate_end(int64_t ms, int64_t now)
{
    return dli_later(now, ms < DLI_NEVER / DLI_MS ? ms * DLI_MS : DLI_NEVER);
}

/* Gates are closed for a time: less than zero means that it is open. */
static int answer_question(struct dli_call *call, dlock_status status, int sent, const struct dli_reply *reply)
{
    struct dli_question *question = DLI_OBJECT(call, struct dli_question, call);
    struct dli_entry *entry = question->entry;
    int64_t now = dli_now();

    (void)sent;
    dli_entry_lock(entry);
    entry->question = NULL;
    entry->surplus++;
    if (status != DLOCK_OK || reply->type != DLI_REPLY_INTEGER) {
        entry->gate_asked = 0;
    } else if (!question->outdated && entry->m.gate_until == question->until) {
        dli_mutex_gate(&entry->m, reply->integer < 0 ? 0 : gate_end(reply->integer, now), now);
        dli_entry_pump(entry, now);
    }
    dli_entry_unlock(entry);
    question_free(question);
    return 0;
}

/* entry.mutex held. */
static void ask_for_gate(struct dli_entry *entry)
{
    struct dli_question *question = calloc(1, sizeof *question);

    if (!question)
        return;
    question->entry = entry;
    question->until = entry->m.gate_until;
    question->call.encode = encode_question;
    question->call.complete = answer_question;
    question->call.repeatable = 1;
    question->call.deadline = dli_now() + entry->rules.attempt;
    dli_entry_ref(entry);
    if (encode_question(&question->call, 0) || dli_pipe_push(&entry->loop->pipe, &question->call)) {
        entry->surplus++;
        question_free(question);
        return;
    }
    entry->question = question;
    dli_client_count(entry->client, DLOCK_STAT_COMMANDS, 1);
}

static void follow_gate(struct dli_entry *entry)
{
    struct dli_client *client = entry->client;
    const struct dli_mutex *m = &entry->m;

    if (!m->holder || m->closed || !(m->waiters > 0 || m->gate_until > 0))
        return;
    dli_subscriber_want(&client->subscriber);
    if (entry->question || __atomic_load_n(&client->line, __ATOMIC_ACQUIRE) != DLI_LINE_READY ||
        entry->gate_asked == __atomic_load_n(&client->line_ups, __ATOMIC_RELAXED))
        return;
    entry->gate_asked = __atomic_load_n(&client->line_ups, __ATOMIC_RELAXED);
    ask_for_gate(entry);
}

void dli_line_follow(struct dli_entry *entry)
{
    struct dli_client *client = entry->client;
    struct dli_mutex *m = &entry->m;

    if (m->needs_line && m->waiters > 0)
        dli_subscriber_want(&client->subscriber);
    m->needs_line = 0;
    if (entry->loop)
        follow_gate(entry);
    if (m->listen != m->follows && __atomic_load_n(&client->line, __ATOMIC_ACQUIRE) == DLI_LINE_READY) {
        m->follows = m->listen;
        listen(entry, m->listen);
        if (m->listen)
            join(entry);
    }
}

/* entry.mutex held: the subscription is gone, without a word from here. */
static void deafen(struct dli_entry *entry)
{
    if (entry->m.follows)
        dli_subscriber_forget(&entry->client->subscriber, &ear(entry)->listeners);
    __atomic_store_n(&ear(entry)->heard_at, 0, __ATOMIC_RELEASE);
    entry->m.follows = entry->m.listening = 0;
}

static void look_again(struct dli_entry *entry, int64_t now)
{
    deafen(entry);
    dli_mutex_look(&entry->m, now);
}

static void up(void *owner)
{
    struct dli_client *client = owner;

    __atomic_add_fetch(&client->line_ups, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&client->line, DLI_LINE_READY, __ATOMIC_RELEASE);
    dli_client_each(client, look_again);
}

static void down(void *owner)
{
    struct dli_client *client = owner;

    __atomic_store_n(&client->line, DLI_LINE_BROKEN, __ATOMIC_RELEASE);
    dli_client_each(client, look_again);
}

typedef void visit_fn(struct dli_entry *entry, int64_t now);

/* entry comes with a ref, which goes. */
static void call_on(struct dli_entry *entry, visit_fn *visit)
{
    int64_t now = dli_now();

    dli_entry_lock(entry);
    entry->surplus++;
    visit(entry, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}

/* A name's entry with its ref, and its holds. */
static void call_on_all(struct dli_entry *entry, visit_fn *visit)
{
    if (entry->kind->per_owner)
        dli_hold_each(entry, visit);
    call_on(entry, visit);
}

/* The number at the end of ":<our uuid>:<number>", and the size without it; 0 when the channel is not one waiter's. */
static int64_t waiter_of(const struct dli_client *client, const char *channel, size_t *size)
{
    size_t at = *size, power = 1;
    int64_t value = 0;

    for (; at > 0 && channel[at - 1] >= '0' && channel[at - 1] <= '9' && *size - at < 18; power *= 10)
        value += (int64_t)power * (channel[--at] - '0');
    if (at < DLI_UUID_SIZE + 3 || channel[at - 1] != ':' || channel[at - DLI_UUID_SIZE - 2] != ':' ||
        memcmp(channel + at - DLI_UUID_SIZE - 1, client->uuid, DLI_UUID_SIZE) != 0)
        return 0;
    *size = at - DLI_UUID_SIZE - 2;
    return value;
}

/* The entries of one kind whose channel this is: T(N) is the same text for "x" and "{x}". */
static void each_of_kind(struct dli_client *client, const struct dli_kind *kind, const char *channel, size_t size,
                         visit_fn *visit)
{
    size_t skip = strcspn(kind->channel, "@="), end = strlen(kind->channel) - skip - 1;
    int64_t number = kind->own_channel ? waiter_of(client, channel, &size) : 0;

    if (kind->family != kind->id || (kind->own_channel && !number) || size <= skip + end ||
        memcmp(channel, kind->channel, skip) != 0)
        return;
    for (size_t bare = 0; bare < 2; bare++) {
        struct dli_entry *entry, *hold;

        if (bare && (size < skip + 3 || channel[skip] != '{' || channel[size - 1] != '}'))
            return;
        entry = dli_entry_find(client, kind->id, channel + skip + bare, size - skip - end - 2 * bare);
        if (!entry)
            continue;
        if (!kind->own_channel) {
            call_on_all(entry, visit);
            continue;
        }
        if ((hold = dli_hold_of_number(entry, number)))
            call_on(hold, visit);
        dli_entry_unref(entry);
    }
}

static void each_of_channel(struct dli_client *client, const char *channel, size_t size, visit_fn *visit)
{
    const struct dli_kind *kind;

    for (size_t i = 0; (kind = dli_kind_at(i)); i++)
        each_of_kind(client, kind, channel, size, visit);
}

static void now_listening(struct dli_entry *entry, int64_t now)
{
    __atomic_store_n(&ear(entry)->heard_at, now, __ATOMIC_RELEASE);
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
    deafen(entry);
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

/* The entry that a message for grant number id of a lock is for, with a ref. */
static struct dli_entry *meant(struct dli_client *client, int32_t family, int64_t id, const char *name, size_t size)
{
    struct dli_entry *entry = dli_entry_find(client, family, name, size), *hold;

    if (!entry || !entry->kind->per_owner)
        return entry;
    hold = dli_hold_of_number(entry, id);
    dli_entry_unref(entry);
    return hold;
}

static void granted(struct dli_client *client, int32_t family, const char *at, const char *end)
{
    int64_t id = number(&at, end), seq = number(&at, end), token = number(&at, end), now = dli_now();
    struct dli_entry *entry;

    if (id < 0 || seq < 0 || token < 0 || !(entry = meant(client, family, id, at, (size_t)(end - at))))
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

    if (id < 0 || ms < 0 || ms > 1000 || !(entry = dli_entry_find(client, DLOCK_KIND_MUTEX, at, (size_t)(end - at))))
        return;
    dli_entry_lock(entry);
    entry->surplus++;
    if (entry->m.want == id)
        dli_mutex_look(&entry->m, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}

static void hear_of_gate(struct dli_entry *entry, int64_t now)
{
    if (entry->question)
        entry->question->outdated = 1;
    dli_mutex_gate(&entry->m, entry->client->gate_until, now);
}

/* For a mutex or a fair lock: the others look for themselves. */
static void gate(struct dli_client *client, const char *at, const char *end)
{
    static const int32_t family[] = {DLOCK_KIND_MUTEX, DLOCK_KIND_FAIR};
    int64_t ms = number(&at, end);

    client->gate_until = ms > 0 ? gate_end(ms, dli_now()) : 0;
    for (size_t i = 0; ms >= 0 && i < 2; i++) {
        struct dli_entry *entry = dli_entry_find(client, family[i], at, (size_t)(end - at));

        if (entry)
            call_on_all(entry, hear_of_gate);
    }
}

static void message(void *owner, const char *channel, size_t channel_size, const char *text, size_t size)
{
    struct dli_client *client = owner;
    const char *end = text + size;

    if (channel_size != strlen(client->channel) || memcmp(channel, client->channel, channel_size) != 0)
        each_of_channel(client, channel, channel_size, released);
    else if (size > 6 && memcmp(text, "grant ", 6) == 0)
        granted(client, DLOCK_KIND_MUTEX, text + 6, end);
    else if (size > 5 && memcmp(text, "fair ", 5) == 0)
        granted(client, DLOCK_KIND_FAIR, text + 5, end);
    else if (size > 5 && memcmp(text, "gate ", 5) == 0)
        gate(client, text + 5, end);
    else if (size > 5 && memcmp(text, "open ", 5) == 0)
        opened(client, text + 5, end);
}

const struct dli_subscriber_hooks dli_line_hooks = {up, down, listens, deaf, message};
