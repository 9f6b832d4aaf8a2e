/*
 * gate.c: asks the server whether the gate of a name is closed, in two cases. The subscription has come up: then what happened
 * before was not heard, and waiters behind a holder of this process send nothing that would meet a closed gate. Or a message says
 * that the gate has changed: anybody may have written it, so only the answer counts. entry.mutex guards a query.
 */
#include "waitlist.h"

#include <stdlib.h>

#include "sys/sys.h"

/* A flood of messages causes one question at a time for each name, and one each NEWS_PAUSE. */
enum { NEWS_PAUSE = 5 * DLI_MS };

/* A query that failed, maybe at once, is repeated after this. */
#define FAILED_PAUSE (1000 * DLI_MS)

struct dli_gate_query {
    struct dli_request *request;
    struct dli_entry *entry; /* with a ref */
    int64_t until;           /* what the machine believed at the query */
    int news;                /* a message is the reason: the answer is for all holds of the name */
    int outdated;            /* more has been heard of the gate since */
};

static void query_free(struct dli_gate_query *query)
{
    query->entry->client->store->ops->request_free(query->request);
    free(query);
}

/* ---- what is known of the gate */

void dli_gate_note(struct dli_entry *entry, int64_t until, int64_t now)
{
    if (dli_entry_gate_query(entry))
        dli_entry_gate_query(entry)->outdated = 1;
    dli_entry_gate(entry, until, now);
}

static void note_told(struct dli_entry *entry, int64_t now)
{
    dli_gate_note(entry, __atomic_load_n(&entry->parent->gate_told, __ATOMIC_RELAXED), now);
}

/* The caller holds no mutex. Only one query of a name is under way, so nobody else writes gate_told meanwhile. */
static void tell_holds(struct dli_entry *parent, int64_t until)
{
    __atomic_store_n(&parent->gate_told, until, __ATOMIC_RELAXED);
    dli_hold_each(parent, note_told);
}

static void repeat_later(struct dli_aside *aside, int news, int64_t now)
{
    aside->gate_again = now + FAILED_PAUSE;
    if (news)
        aside->gate_news = 1;
}

/* entry.mutex held. */
static void answered_now(const struct dli_gate_query *query, int64_t until, int64_t now)
{
    struct dli_entry *entry = query->entry;

    if (query->request->status != DLOCK_OK)
        repeat_later(entry->aside, query->news, now);
    else if (query->news || (!query->outdated && entry->m.active->gate_until == query->until))
        dli_entry_gate(entry, until, now);
    dli_entry_pump(entry, now);
}

static void answered(struct dli_request *request)
{
    struct dli_gate_query *query = request->context;
    struct dli_entry *entry = query->entry;
    int64_t now = dli_now(), until = request->gate_ms < 0 ? 0 : dli_after_ms(now, request->gate_ms);

    dli_entry_lock(entry);
    entry->aside->gate_query = NULL;
    answered_now(query, until, now);
    dli_entry_unlock(entry);
    if (query->news && entry->kind->per_owner && request->status == DLOCK_OK)
        tell_holds(entry, until);
    query_free(query);
    dli_entry_unref(entry);
}

/* ---- the query; entry.mutex held */

static struct dli_gate_query *query_new(struct dli_entry *entry, int news)
{
    struct dli_store *store = entry->client->store;
    struct dli_gate_query *query = calloc(1, sizeof *query);

    if (!query)
        return NULL;
    if (!(query->request = store->ops->request_new(store))) {
        free(query);
        return NULL;
    }
    query->entry = entry;
    query->until = entry->m.active->gate_until;
    query->news = news;
    query->request->verb = DLI_VERB_GATE_LEFT;
    query->request->kind = entry->kind;
    query->request->place = entry->place;
    query->request->repeatable = 1;
    query->request->deadline = dli_now() + entry->m.rules->attempt;
    query->request->done = answered;
    query->request->context = query;
    return query;
}

static void ask(struct dli_entry *entry, int news)
{
    struct dli_aside *aside = dli_entry_aside(entry);
    struct dli_gate_query *query = aside ? query_new(entry, news) : NULL;

    if (!query)
        return;
    dli_entry_ref(entry);
    if (entry->client->store->ops->push(dli_entry_loop(entry)->lane, query->request) != DLOCK_OK) {
        entry->surplus++;
        query_free(query);
        return;
    }
    aside->gate_query = query;
}

/* Query the gate once each time that the subscription has come up, while the gate matters here. */
static void follow_ups(struct dli_entry *entry)
{
    struct dli_client *client = entry->client;
    const struct dli_mutex *m = &entry->m;
    uint32_t ups;

    if (!m->holder || !(m->waiters > 0 || m->active->gate_until > 0 || dli_claim_linger(m->holder) > 0))
        return;
    client->store->ops->want(client->store, entry->place);
    ups = __atomic_load_n(&client->line_ups, __ATOMIC_RELAXED);
    if (dli_entry_gate_query(entry) || __atomic_load_n(&client->line, __ATOMIC_ACQUIRE) != DLI_LINE_READY ||
        entry->gate_query_ups == ups)
        return;
    entry->gate_query_ups = ups;
    ask(entry, 0);
}

/* Whether the gate matters here. Nobody looks through the holds of a name for that. */
static int matters(const struct dli_entry *entry)
{
    return entry->kind->per_owner || entry->m.holder || entry->m.waiters > 0 || entry->m.active->gate_until > 0;
}

void dli_gate_doubt(struct dli_entry *entry, int64_t now)
{
    struct dli_aside *aside = matters(entry) ? dli_entry_aside(entry) : NULL;

    (void)now;
    if (!aside)
        return;
    aside->gate_news = 1;
    if (aside->gate_query)
        aside->gate_query->outdated = 1;
}

int64_t dli_gate_alarm(const struct dli_entry *entry)
{
    const struct dli_aside *aside = entry->aside;

    if (!aside || aside->gate_query || entry->m.closed) /* nobody asks for a closed machine */
        return DLI_NEVER;
    if (aside->gate_again)
        return aside->gate_again;
    return aside->gate_news ? aside->gate_asked + NEWS_PAUSE : DLI_NEVER;
}

int dli_gate_rests(const struct dli_aside *aside, int64_t now)
{
    return aside->gate_news || aside->gate_again || (aside->gate_asked && now < aside->gate_asked + NEWS_PAUSE);
}

static void follow_news(struct dli_entry *entry)
{
    struct dli_aside *aside = entry->aside;
    int64_t now;

    if (dli_gate_alarm(entry) == DLI_NEVER || dli_gate_alarm(entry) > (now = dli_now()))
        return;
    if (aside->gate_again)
        entry->gate_query_ups = 0;
    aside->gate_again = 0;
    if (!aside->gate_news)
        return;
    aside->gate_news = 0;
    aside->gate_asked = now;
    if (matters(entry))
        ask(entry, 1);
}

void dli_gate_follow(struct dli_entry *entry)
{
    if (!dli_store_can(entry->client->store, DLI_CAN_GATE) || entry->m.closed)
        return;
    follow_news(entry);
    follow_ups(entry);
}
