/*
 * waiter.c: claims and their callers: waking a caller, or telling the event queue or a run. entry.mutex is held,
 * except in dli_waiter_new, dli_waiter_unref and the functions that read an event.
 */
#include "multi.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

struct dli_notice *dli_notice_new(int64_t wait)
{
    struct dli_notice *notice = malloc(sizeof *notice);

    if (!notice)
        return NULL;
    notice->reason = NULL;
    notice->wait = NULL;
    if (wait == DLI_NEVER)
        return notice;
    if (!(notice->wait = malloc(sizeof *notice->wait))) {
        free(notice);
        return NULL;
    }
    notice->wait->waiter = NULL;
    return notice;
}

void dli_notice_free(struct dli_notice *notice)
{
    if (!notice)
        return;
    free(notice->wait);
    free(notice->reason);
    free(notice);
}

static struct dli_waiter *waiter_of(struct dli_link *link)
{
    return DLI_OBJECT(link, struct dli_waiter, claim.link);
}

/* Drop a ref. 1 when it was the last. */
static int drop_ref(struct dli_waiter *waiter)
{
    if (__atomic_sub_fetch(&waiter->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return 0;
    dli_waiter_uncount(waiter);
    free((struct dli_limits *)waiter->claim.limits);
    dli_notice_free(dli_waiter_notice(waiter));
    free(waiter);
    return 1;
}

void dli_waiter_unref(struct dli_waiter *waiter)
{
    struct dli_entry *entry = waiter->entry;

    if (!drop_ref(waiter))
        return;
    dli_entry_unref(entry);
}

void dli_waiter_unref_locked(struct dli_waiter *waiter)
{
    struct dli_entry *entry = waiter->entry;

    if (drop_ref(waiter))
        entry->surplus++;
}

static void describe(char text[DLI_EVENT_TEXT], const struct dli_waiter *waiter, const char *what)
{
    dlock_error whole;
    char name[120];

    dli_escape(name, sizeof name, waiter->entry->name.text, waiter->entry->name.size);
    dli_fail(&whole, DLOCK_OK, "lock '%s' at %s: %s", name, waiter->entry->client->store->text, what);
    dli_escape(text, DLI_EVENT_TEXT, whole.message, strlen(whole.message));
}

static void describe_end(char text[DLI_EVENT_TEXT], const struct dli_notice *notice)
{
    dlock_status status = (dlock_status)notice->shot.field[DLOCK_FIELD_STATUS];

    describe(text, notice->waiter, notice->reason ? notice->reason->message : dli_status_find(status)->text);
}

static void read_notice(struct dli_node *node, struct dlock_event *event)
{
    struct dli_notice *notice = DLI_OBJECT(node, struct dli_notice, shot.node);
    struct dli_waiter *waiter = notice->waiter;

    dli_snapshot_read(&notice->shot, event);
    if (event->field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_AT_RISK) {
        __atomic_store_n(&waiter->risk_queued, 0, __ATOMIC_RELEASE);
        describe(event->text, waiter, "renewal fails, the lock will be lost unless the server answers in time");
    } else {
        describe_end(event->text, notice);
    }
    dli_notice_free(notice);
    dli_waiter_unref(waiter);
}

/* The fields that do not depend on the time. The others are -1. */
static void identify(int64_t field[DLOCK_FIELD_COUNT], const struct dli_waiter *waiter, int64_t type, int64_t status)
{
    const struct dli_claim *claim = &waiter->claim;

    for (int i = 0; i < DLOCK_FIELD_COUNT; i++)
        field[i] = -1;
    field[DLOCK_FIELD_TYPE] = type;
    field[DLOCK_FIELD_STATUS] = status;
    field[DLOCK_FIELD_TAG] = waiter->tag;
    field[DLOCK_FIELD_LOCK_ID] = waiter->entry->id;
    field[DLOCK_FIELD_OWNER] = claim->owner;
    field[DLOCK_FIELD_TOKEN] = claim->token > 0 ? claim->token : -1;
    field[DLOCK_FIELD_CAUSE] = claim->cause;
}

/*
 * LOST, or the end of a release. What such a claim says of itself does not change any more, so its reader needs no mutex.
 * Only a lost claim has a cause.
 */
static void read_last(struct dli_node *node, struct dlock_event *event)
{
    static const char *const cause[] = {"", "the lease ended before it could be renewed",
                                        "it was taken away on the server", "max_hold_ms is over",
                                        "the client was closed"};
    struct dli_waiter *waiter = DLI_OBJECT(node, struct dli_waiter, last);
    const struct dli_claim *claim = &waiter->claim;

    if (claim->cause)
        identify(event->field, waiter, DLOCK_EVENT_LOST, DLOCK_LOST);
    else
        identify(event->field, waiter, DLOCK_EVENT_RELEASED + (claim->result != DLOCK_OK), claim->result);
    event->field[DLOCK_FIELD_HELD_FOR_MS] = claim->after_hold;
    event->field[DLOCK_FIELD_WAITERS] = claim->waiters;
    describe(event->text, waiter, claim->cause ? cause[claim->cause] : dli_status_find(claim->result)->text);
    dli_waiter_unref(waiter);
}

int dli_waiter_is_loss(const struct dli_node *node)
{
    return node->read == read_last && DLI_OBJECT(node, struct dli_waiter, last)->claim.cause;
}

dlock_status dli_waiter_overdue(const struct dli_waiter *waiter)
{
    if (waiter->claim.state == DLI_CLAIM_LEAVING)
        return DLOCK_UNKNOWN_OUTCOME;
    if (waiter->entry->m.active->failure != DLOCK_OK)
        return waiter->entry->m.active->failure;
    if (waiter->claim.patient)
        return DLOCK_TIMED_OUT;
    return waiter->entry->m.active->sent.in_flight ? DLOCK_UNREACHABLE
                                                   : DLOCK_BUSY; /* a mere try waits for one answer only */
}

struct dli_waiter *dli_waiter_new(struct dli_entry *entry)
{
    struct dli_waiter *waiter = malloc(sizeof *waiter); /* glibc's calloc bypasses the cache of the thread */

    if (!waiter)
        return NULL;
    *waiter = (struct dli_waiter){.entry = entry, .refs = 2};
    dli_entry_ref(entry);
    dli_list_init(&waiter->claim.link);
    dli_list_init(&waiter->claim.report);
    waiter->notice = NULL;
    return waiter;
}

/* Make a notice one of the waiter's. */
static void take_notice(struct dli_notice *notice, struct dli_waiter *waiter)
{
    notice->waiter = waiter;
    notice->shot.node.read = read_notice;
    notice->shot.data = NULL;
    notice->shot.size = 0;
}

static void fill(int64_t field[DLOCK_FIELD_COUNT], const struct dli_waiter *waiter, int64_t type, int64_t status,
                 int64_t now)
{
    const struct dli_mutex *m = &waiter->entry->m;
    const struct dli_claim *claim = &waiter->claim;
    int64_t until = claim->state == DLI_CLAIM_HELD ? dli_mutex_sure_until(m) : DLI_NEVER;

    identify(field, waiter, type, status);
    if (until != DLI_NEVER)
        field[DLOCK_FIELD_REMAINING_MS] = until > now ? (until - now) / DLI_MS : 0;
    if (claim->held_since)
        field[DLOCK_FIELD_HELD_FOR_MS] = (now - claim->held_since) / DLI_MS;
    field[DLOCK_FIELD_WAITERS] = m->waiters;
}

/* Post a node that is filled in. 0: it is not in the queue. */
static int post(struct dli_waiter *waiter, struct dli_node *node, int may_drop)
{
    int posted;

    __atomic_add_fetch(&waiter->refs, 1, __ATOMIC_RELAXED);
    posted = dli_events_post(&waiter->entry->client->events, node, may_drop);
    if (!posted)
        __atomic_sub_fetch(&waiter->refs, 1, __ATOMIC_RELAXED);
    return posted;
}

/* The node of the last event, filled in. */
static struct dli_node *last(struct dli_waiter *waiter, int64_t now)
{
    struct dli_claim *claim = &waiter->claim;

    claim->after_hold = claim->held_since ? (now - claim->held_since) / DLI_MS : -1;
    waiter->last.read = read_last;
    waiter->last_used = 1;
    claim->waiters = waiter->entry->m.waiters;
    return &waiter->last;
}

/* Dropped and counted without memory, like an event without room. */
static void post_risk(struct dli_waiter *waiter, int64_t now)
{
    struct dli_notice *notice;

    if (__atomic_load_n(&waiter->risk_queued, __ATOMIC_ACQUIRE))
        return;
    if (!(notice = dli_notice_new(DLI_NEVER))) {
        dli_events_count_dropped(&waiter->entry->client->events);
        return;
    }
    take_notice(notice, waiter);
    fill(notice->shot.field, waiter, DLOCK_EVENT_AT_RISK, DLOCK_OK, now);
    __atomic_store_n(&waiter->risk_queued, 1, __ATOMIC_RELAXED);
    if (post(waiter, &notice->shot.node, 1))
        return;
    waiter->risk_queued = 0;
    dli_notice_free(notice);
}

static int releasing(const struct dli_claim *claim)
{
    return claim->state == DLI_CLAIM_DONE && claim->held_since != 0;
}

/* The wait of a claim has ended, and was not measured yet. */
static void measure_wait(struct dli_client *client, struct dli_waiter *waiter, int64_t now)
{
    const struct dli_claim *claim = &waiter->claim;

    if (!waiter->asked_at || (claim->state == DLI_CLAIM_DONE && claim->held_since))
        return;
    dli_metrics_note(&client->metrics, claim->result == DLOCK_OK ? DLI_WAIT_GRANTED : DLI_WAIT_ENDED,
                     now - waiter->asked_at);
    waiter->asked_at = 0;
}

/* The release of an inner level, whose claim has no token, is not counted. */
static void count_end(struct dli_client *client, const struct dli_waiter *waiter)
{
    const struct dli_claim *claim = &waiter->claim;
    int submitted = waiter->notify == DLI_NOTIFY_QUEUE || waiter->notify == DLI_NOTIFY_RUN;

    if (claim->state == DLI_CLAIM_HELD) {
        dli_client_count(client, DLOCK_STAT_ACQUIRED, 1);
        if (claim->handed)
            dli_client_count(client, DLOCK_STAT_HANDOVERS, 1);
    } else if (submitted && releasing(claim) && claim->result == DLOCK_OK && claim->token > 0) {
        dli_client_count(client, DLOCK_STAT_RELEASED, 1);
    }
}

/* Keep the reason for the event: when it is read, the entry may have had another exchange. */
static void copy_reason(struct dli_notice *notice, const struct dli_waiter *waiter)
{
    const dlock_error *reason = dli_entry_reason(waiter->entry);

    if (!reason || reason->code != waiter->claim.result)
        return;
    if ((notice->reason = malloc(sizeof *reason)))
        *notice->reason = *reason;
}

/* The notice of a call that has ended, filled in. NULL: a release, which has no text of its own or no memory for it. */
static struct dli_notice *notice_of(struct dli_waiter *waiter, int64_t now)
{
    int64_t type = releasing(&waiter->claim) ? DLOCK_EVENT_RELEASED : DLOCK_EVENT_ACQUIRED;
    int failed = waiter->claim.result != DLOCK_OK;
    struct dli_notice *notice = dli_waiter_notice(waiter);

    if (!notice && failed)
        notice = dli_notice_new(DLI_NEVER);
    if (!notice)
        return NULL;
    waiter->notice = NULL;
    take_notice(notice, waiter);
    if (failed)
        copy_reason(notice, waiter);
    fill(notice->shot.field, waiter, type + failed, waiter->claim.result, now);
    return notice;
}

/*
 * Post the promised event. That of the grant may still be in the queue when the lock is released, so it has a notice. The
 * end of a release is the last event of its claim: it was not lost, so that node is free.
 */
static void notify_queue(struct dli_waiter *waiter, int64_t now)
{
    struct dli_notice *notice = notice_of(waiter, now);
    struct dli_node *node = notice ? &notice->shot.node : last(waiter, now);

    waiter->notify = DLI_NOTIFY_NOBODY;
    __atomic_add_fetch(&waiter->refs, 1, __ATOMIC_RELAXED);
    if (dli_events_keep(&waiter->entry->client->events, node))
        return;
    __atomic_sub_fetch(&waiter->refs, 1, __ATOMIC_RELAXED);
    dli_notice_free(notice);
}

/* A caller that is woken now would block on entry.mutex. So one wake-up is delayed until the mutex is released. */
static void wake(struct dli_waiter *waiter)
{
    struct dli_entry *entry = waiter->entry;
    struct dli_store *store = entry->client->store;

    if (waiter->sleeping == DLI_LISTENING)
        store->ops->ring(store);
    else if (entry->woken)
        dli_futex_wake(&waiter->settled, -1); /* the acquiring thread may not have woken up before another releases */
    else
        entry->woken = &waiter->settled;
}

/* A caller that was granted the lock goes on without the mutex while the grant is sure; see acquire.c. */
static void notify_caller(struct dli_waiter *waiter, int granted)
{
    if (granted)
        waiter->sure_until = dli_mutex_sure_until(&waiter->entry->m);
    waiter->notify = DLI_NOTIFY_NOBODY;
    __atomic_store_n(&waiter->settled, granted ? DLI_SETTLED_GRANTED : DLI_SETTLED_ENDED, __ATOMIC_RELEASE);
    if (waiter->sleeping != DLI_AWAKE)
        wake(waiter);
}

/* The step of a run has ended. */
static void end_step(struct dli_waiter *waiter, int64_t now)
{
    struct dli_run *run = waiter->run;

    dli_waiter_unlimit(waiter);
    dli_notice_free(dli_waiter_notice(waiter));
    waiter->notice = NULL;
    waiter->notify = DLI_NOTIFY_NOBODY;
    waiter->tag = 0;
    dli_run_member_ended(run, waiter->entry, waiter->claim.result, now);
}

static void settle(struct dli_waiter *waiter, int64_t now)
{
    int granted = waiter->claim.state == DLI_CLAIM_HELD;

    measure_wait(waiter->entry->client, waiter, now);
    count_end(waiter->entry->client, waiter);
    if (waiter->notify == DLI_NOTIFY_QUEUE) {
        dli_waiter_unlimit(waiter);
        notify_queue(waiter, now);
    } else if (waiter->notify == DLI_NOTIFY_RUN) {
        end_step(waiter, now);
    } else if (waiter->notify == DLI_NOTIFY_CALLER) {
        notify_caller(waiter, granted);
    }
    if (granted)
        return;
    dli_waiter_resume(waiter);
    dli_waiter_unref_locked(waiter);
}

void dli_waiter_deliver(struct dli_entry *entry, int64_t now)
{
    struct dli_link *link;

    while ((link = dli_ring_pop(&entry->m.reports))) {
        struct dli_waiter *waiter = DLI_OBJECT(link, struct dli_waiter, claim.report);
        int what = waiter->claim.reports;

        waiter->claim.reports = 0;
        if (what & DLI_REPORT_AT_RISK)
            post_risk(waiter, now);
        if (what & DLI_REPORT_LOST) {
            dli_waiter_resume(waiter);
            dli_client_count(entry->client, DLOCK_STAT_LOST, 1);
            dli_metrics_hold(&entry->client->metrics, now - waiter->claim.held_since, entry->m.turns);
            post(waiter, last(waiter, now), 0);
        }
    }
    while ((link = dli_ring_pop(&entry->m.done)))
        settle(waiter_of(link), now);
}
