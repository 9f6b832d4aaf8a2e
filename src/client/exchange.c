/*
 * exchange.c: exchanges of one entry with the server, from the caller's own thread or in the background. An entry has
 * at most one in flight. entry.mutex guards the pointer to its request; what it points to belongs to the thread that marked
 * the exchange sent, without the mutex. A request lives only while its exchange is in flight: a held lock has none. Without
 * memory for it the exchange fails with DLOCK_OUT_OF_MEMORY before it is sent, and the machine tries again as after any
 * other failure.
 */
#include "waitlist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

/* entry.mutex held: whether the answer is a grant whose token falls. The machine will give it back. */
static int falls(const struct dli_entry *entry)
{
    return dli_mutex_refuses(&entry->m, &entry->m.active->request->exchange.answer);
}

/*
 * entry.mutex held: keep the reason of a failure for all claims that end with it, as long as the machine counts with that
 * failure. Without memory the status must do.
 */
static void remember(struct dli_entry *entry, dlock_status status)
{
    const dlock_error *reason = entry->m.active->request->reason, *known = dli_entry_reason(entry);
    struct dli_aside *aside;

    if (status == DLOCK_OK && known && entry->m.active->failure == known->code)
        return;
    if (!reason || status == DLOCK_OK || reason->code != status) {
        dli_entry_forget_reason(entry);
        return;
    }
    if (!(aside = dli_entry_aside(entry)))
        return;
    if (!aside->reason)
        aside->reason = malloc(sizeof *aside->reason);
    if (aside->reason)
        *aside->reason = *reason;
}

/* The server's clock was set back. Logged once for each lease that this made longer. */
static void log_cut(const struct dli_entry *entry, int64_t cut)
{
    char text[DLI_EVENT_TEXT], name[128];

    dli_escape(name, sizeof name, entry->name.text, entry->name.size);
    snprintf(text, sizeof text, "lock %s: the server's clock was set back: %lld ms were cut off its holder's lease",
             name, (long long)cut / 1000);
    dli_events_log(&entry->client->events, DLOCK_SERVER_FORGOT, text);
}

/* entry.mutex held: the exchange is over. */
static void drop_request(struct dli_entry *entry)
{
    entry->client->store->ops->request_free(entry->m.active->request);
    entry->m.active->request = NULL;
}

/* entry.mutex held: give the answer to the machine, and count. That is the end of the request. */
static void digest(struct dli_entry *entry, int64_t now)
{
    struct dli_client *client = entry->client;
    const struct dli_request *request = entry->m.active->request;
    const struct dli_answer *answer = &request->exchange.answer;
    dlock_status status = falls(entry) ? DLOCK_SERVER_FORGOT : answer->status;

    if (falls(entry))
        dli_fail_forgot(request->reason, answer->token, entry->m.tokens.end - 1);
    if (answer->status == DLOCK_OK && answer->cut > 0)
        log_cut(entry, answer->cut);
    if (answer->status == DLOCK_OK && answer->got == DLI_TRY_GRANTED)
        dli_client_count(client, DLOCK_STAT_WIRE_GRANTS, 1);
    if (answer->status == DLOCK_OK && answer->released && !entry->m.active->leaving && !entry->m.active->drop.lingered)
        dli_client_count(client, DLOCK_STAT_UNDONE, 1);
    if (answer->status == DLOCK_OK && answer->released && entry->m.active->drop.lingered)
        dli_metrics_note(&client->metrics, DLI_HANDOVERS, entry->m.turns);
    dli_mutex_answer(&entry->m, answer, now);
    if (request->exchange.next.count && dli_mutex_owned(&entry->m) &&
        request->exchange.wish.want == entry->m.want.number)
        dli_turns_begin(entry, &request->exchange.next);
    remember(entry, status);
    dli_turn_ended(entry, answer, now);
    if (entry->parent)
        dli_waitlist_answered(entry, answer, now);
    drop_request(entry);
}

static void background_done(struct dli_request *request)
{
    struct dli_entry *entry = request->context;
    dlock_error *reason = request->reason;
    int64_t now = dli_now();

    dli_entry_lock(entry);
    entry->surplus++;
    digest(entry, now);
    free(reason);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}

/* The owners in the exchange. */
static void name_owners(const struct dli_entry *entry, const struct dli_wish *wish, struct dli_exchange *exchange)
{
    exchange->want[0] = exchange->drop[0] = exchange->under[0] = exchange->back[0] = '\0';
    if (wish->want)
        dli_entry_owner(entry, wish->want, exchange->want);
    if (wish->drop)
        dli_entry_owner(entry, wish->drop, exchange->drop);
    if (wish->first)
        memcpy(exchange->back, entry->aside->adoption->giver, DLI_OWNER_MAX);
    if (entry->parent && entry->under)
        dli_entry_owner(entry, entry->under, exchange->under);
}

/* entry.mutex held: make the request for the exchange, and mark it sent. 0, or -1 without memory. */
static int prepare(struct dli_entry *entry, const struct dli_wish *wish, int64_t now)
{
    struct dli_store *store = entry->client->store;
    struct dli_request *request = entry->m.active->request = store->ops->request_new(store);

    if (entry->parent)
        dli_waitlist_sent(entry, wish->want);
    dli_mutex_sent(&entry->m, wish, now);
    if (!request)
        return -1;
    request->verb = DLI_VERB_EXCHANGE;
    request->kind = entry->kind;
    request->place = entry->place;
    request->repeatable = 1;
    request->above = dli_mutex_owned(&entry->m) || entry->m.forgot ? 0 : entry->m.tokens.end;
    request->context = entry;
    request->exchange.wish = *wish;
    if (wish->want && wish->mode != DLI_MODE_TRY)
        request->exchange.proof = dli_proof(&entry->client->secret, wish->want, wish->seq);
    request->exchange.keep_ms = entry->m.rules->keep_ms;
    request->exchange.delay = entry->m.rules->delay;
    request->exchange.lives = entry->m.rules->lives;
    name_owners(entry, wish, &request->exchange);
    if (entry->parent)
        dli_turns_tell(entry, &request->exchange);
    if (wish->want && entry->parent)
        __atomic_store_n(&entry->wanted, wish->want, __ATOMIC_RELAXED);
    return 0;
}

/* entry.mutex held: without memory the exchange that was marked sent has not left. */
static void unsent(struct dli_entry *entry, dlock_status status, int64_t now)
{
    struct dli_answer answer = {.status = status};

    dli_entry_forget_reason(entry);
    dli_mutex_answer(&entry->m, &answer, now);
    if (entry->parent)
        dli_waitlist_answered(entry, &answer, now);
}

/*
 * entry.mutex held: the same for a push. background_done gets the answer, also the failure to send. 0; -1: there was no
 * memory, and the machine has that answer.
 */
static int prepare_push(struct dli_entry *entry, const struct dli_wish *wish, int64_t now, int direct)
{
    struct dli_request *request;

    if (prepare(entry, wish, now)) {
        unsent(entry, DLOCK_OUT_OF_MEMORY, now);
        return -1;
    }
    request = entry->m.active->request;
    request->direct = direct;
    request->deadline = now + wish->attempt;
    request->done = background_done;
    if ((request->reason = malloc(sizeof *request->reason)))
        request->reason->code = DLOCK_OK;
    dli_entry_ref(entry);
    return 0;
}

static dlock_status push(struct dli_entry *entry, struct dli_request *request)
{
    if (__atomic_load_n(&dli_entry_loop(entry)->stop,
                        __ATOMIC_ACQUIRE)) /* abandoned: refuse, however far the loop has got */
        return DLOCK_CLOSED;
    return entry->client->store->ops->push(dli_entry_loop(entry)->lane, request);
}

/* entry.mutex held: when the push has failed, answer the exchange at once. */
static void pushed(struct dli_entry *entry, dlock_status status, int64_t now)
{
    if (status == DLOCK_OK)
        return;
    free(entry->m.active->request->reason);
    drop_request(entry);
    entry->surplus++;
    unsent(entry, status, now);
}

void dli_exchange_submit(struct dli_entry *entry, const struct dli_wish *wish, int64_t now)
{
    if (prepare_push(entry, wish, now, 0) == 0)
        pushed(entry, push(entry, entry->m.active->request), now);
}

void dli_exchange_direct(struct dli_entry *entry, int64_t now)
{
    struct dli_request *request;
    struct dli_wish wish;
    dlock_status status;

    dli_waitlist_settle(entry, now);
    if (!dli_entry_loop(entry) ||
        !dli_mutex_wish(&entry->m, __atomic_load_n(&entry->client->line, __ATOMIC_ACQUIRE), now, &wish))
        return;
    if (prepare_push(entry, &wish, now, 1))
        return;
    request = entry->m.active->request;
    dli_entry_unlock(entry);
    status = push(entry, request);
    dli_entry_lock(entry);
    pushed(entry, status, dli_now());
}

/* entry.mutex held, released meanwhile: one exchange of drive. */
static void execute(struct dli_entry *entry, int64_t deadline, dlock_error *reason)
{
    struct dli_request *request = entry->m.active->request;

    request->deadline = deadline;
    request->done = NULL;
    request->reason = reason;
    dli_entry_unlock(entry);
    entry->client->store->ops->execute(dli_entry_loop(entry)->lane, request);
    dli_entry_lock(entry);
}

int64_t dli_exchange_drive(struct dli_entry *entry, struct dli_claim *claim, int64_t now, dlock_error *reason)
{
    struct dli_client *client = entry->client;
    struct dli_answer *answer;
    struct dli_wish wish;
    int hurried;

    dli_waitlist_settle(entry, now);
    while ((claim->state == DLI_CLAIM_WAITING || claim->state == DLI_CLAIM_LEAVING) &&
           dli_mutex_wish(&entry->m, __atomic_load_n(&client->line, __ATOMIC_ACQUIRE), now, &wish)) {
        if (prepare(entry, &wish, now)) {
            dli_fail(reason, DLOCK_OUT_OF_MEMORY, "no memory for the command");
            unsent(entry, DLOCK_OUT_OF_MEMORY, now);
            return now;
        }
        hurried = claim->patient && claim->until < now + wish.attempt;
        execute(entry, dli_earlier(now + wish.attempt, claim->until), reason);
        now = dli_now();
        answer = &entry->m.active->request->exchange.answer;
        answer->hurried = hurried && now >= claim->until && answer->status == DLOCK_UNREACHABLE;
        digest(entry, now);
    }
    return now;
}
