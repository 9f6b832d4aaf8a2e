/*
 * exchange.c: exchanges of one entry with the server, from the caller's own thread or in the background. One is in flight
 * per entry at most, so entry.call, wish and answer belong to whoever marked it sent, without the mutex.
 */
#include "client.h"

#include <string.h>

#include "sys/sys.h"

void dli_carry(struct dli_client *client, struct dli_loop *loop, struct dli_call *call)
{
    dli_client_count(client, DLOCK_STAT_COMMANDS, 1);
    call->fallback = call->repeated = 0;
    if (__atomic_load_n(&loop->pipe.load, __ATOMIC_RELAXED) == 0 && dli_private_call(&client->private_conns, call)) {
        if (call->fallback)
            dli_client_count(client, DLOCK_STAT_SCRIPT_RELOADS, 1);
        return;
    }
    call->sleeps = 1;
    if (dli_pipe_push(&loop->pipe, call) == 0)
        dli_pipe_wait(&loop->pipe, call);
    else
        call->complete(call, DLOCK_CLOSED, 0, NULL);
}

static int encode(struct dli_call *call, int full)
{
    struct dli_entry *entry = DLI_OBJECT(call, struct dli_entry, call);
    struct dli_speech speech;

    speech.kind = entry->kind;
    speech.names = &entry->names;
    speech.wish = &entry->wish;
    speech.keep_ms = entry->rules.keep_ms;
    speech.delay = entry->rules.delay;
    speech.under[0] = '\0';
    if (entry->wish.want)
        dli_entry_owner(entry, entry->wish.want, speech.want);
    if (entry->wish.drop)
        dli_entry_owner(entry, entry->wish.drop, speech.drop);
    if (entry->under) {
        const char *suffix = dli_kind_find(DLOCK_KIND_WRITE)->suffix;

        dli_entry_owner(entry, entry->under, speech.under);
        memcpy(speech.under + strlen(speech.under), suffix, strlen(suffix) + 1);
    }
    call->command.size = 0;
    return dli_encode_exchange(&call->command, full, &speech);
}

/* What came of the call, into entry.answer. */
static int understand(struct dli_call *call, dlock_status status, int sent, const struct dli_reply *reply)
{
    struct dli_entry *entry = DLI_OBJECT(call, struct dli_entry, call);

    if (status == DLOCK_OK)
        dli_decode_exchange(reply, &entry->wish, &entry->answer, call->why);
    else
        entry->answer = (struct dli_answer){.status = status, .sent = sent};
    entry->answer.repeated = call->repeated;
    if (call->repeated && entry->wish.drop)
        entry->answer.released = 1;
    return status == DLOCK_OK && entry->answer.status == DLOCK_PROTOCOL_ERROR ? -1 : 0;
}

/* entry.mutex held: let the machine have entry.answer, and count. */
static void digest(struct dli_entry *entry, int64_t now)
{
    struct dli_client *client = entry->client;
    const struct dli_answer *answer = &entry->answer;

    if (answer->status == DLOCK_OK && answer->got == DLI_TRY_GRANTED)
        dli_client_count(client, DLOCK_STAT_WIRE_GRANTS, 1);
    if (answer->status == DLOCK_OK && answer->released && !entry->m.leaving)
        dli_client_count(client, DLOCK_STAT_UNDONE, 1);
    dli_mutex_answer(&entry->m, answer, now);
}

static int background_done(struct dli_call *call, dlock_status status, int sent, const struct dli_reply *reply)
{
    struct dli_entry *entry = DLI_OBJECT(call, struct dli_entry, call);
    int64_t now = dli_now();
    int result = understand(call, status, sent, reply);

    dli_entry_lock(entry);
    entry->surplus++;
    digest(entry, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    return result;
}

/* entry.mutex held: mark the exchange sent and encode it. 0, or -1 without memory (the machine was told). */
static int prepare(struct dli_entry *entry, const struct dli_wish *wish, int64_t now)
{
    entry->wish = *wish;
    if (wish->want)
        __atomic_store_n(&entry->wanted, wish->want, __ATOMIC_RELAXED);
    entry->call.encode = encode;
    entry->call.repeatable = 1;
    entry->call.fallback = entry->call.repeated = 0;
    entry->call.why = NULL;
    dli_mutex_sent(&entry->m, wish, now);
    if (encode(&entry->call, 0) == 0)
        return 0;
    entry->answer = (struct dli_answer){.status = DLOCK_OUT_OF_MEMORY};
    dli_mutex_answer(&entry->m, &entry->answer, now);
    return -1;
}

void dli_exchange_submit(struct dli_entry *entry, const struct dli_wish *wish, int64_t now)
{
    if (prepare(entry, wish, now))
        return;
    entry->call.deadline = now + wish->attempt;
    entry->call.complete = background_done;
    entry->call.sleeps = 0;
    dli_entry_ref(entry);
    dli_client_count(entry->client, DLOCK_STAT_COMMANDS, 1);
    if (dli_pipe_push(&entry->loop->pipe, &entry->call) == 0)
        return;
    entry->surplus++;
    entry->answer = (struct dli_answer){.status = DLOCK_CLOSED};
    dli_mutex_answer(&entry->m, &entry->answer, now);
}

void dli_exchange_drive(struct dli_entry *entry, struct dli_claim *claim, dlock_error *why)
{
    struct dli_client *client = entry->client;
    struct dli_wish wish;
    int64_t now = dli_now();

    while ((claim->state == DLI_CLAIM_WAITING || claim->state == DLI_CLAIM_LEAVING) &&
           dli_mutex_wish(&entry->m, __atomic_load_n(&client->line, __ATOMIC_ACQUIRE), now, &wish)) {
        if (prepare(entry, &wish, now))
            return;
        entry->call.deadline = now + wish.attempt < claim->until ? now + wish.attempt : claim->until;
        entry->call.complete = understand;
        entry->call.why = why;
        dli_entry_unlock(entry);
        dli_carry(client, entry->loop, &entry->call);
        dli_entry_lock(entry);
        now = dli_now();
        digest(entry, now);
    }
}
