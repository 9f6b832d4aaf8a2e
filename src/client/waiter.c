/*
 * waiter.c: claims and their callers: waking a caller, or telling the event queue or a run. entry.mutex is held,
 * except in dli_waiter_new, dli_waiter_unref, wait_over (which takes it) and the functions that read an event.
 */
#include "multi.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

static struct dli_waiter *waiter_of(struct dli_link *link)
{
    return DLI_OBJECT(link, struct dli_waiter, claim.link);
}

/* Drop a ref. 1 when it was the last. */
static int drop_ref(struct dli_waiter *waiter)
{
    if (__atomic_sub_fetch(&waiter->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return 0;
    free(waiter->reason);
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

/* The same under entry.mutex: the entry's ref is dropped when the mutex is released. */
static void unref_locked(struct dli_waiter *waiter)
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

/* waiter.reason belongs to a failure, of which there is at most one. It may be set while a success is read. */
static void read_end(struct dli_waiter *waiter, const struct dli_node *node, char text[DLI_EVENT_TEXT])
{
    dlock_status status = (dlock_status)node->field[DLOCK_FIELD_STATUS];

    describe(text, waiter,
             status != DLOCK_OK && waiter->reason ? waiter->reason->message : dli_status_find(status)->text);
    dli_waiter_unref(waiter);
}

static void read_acquired(struct dli_node *node, char text[DLI_EVENT_TEXT])
{
    read_end(DLI_OBJECT(node, struct dli_waiter, acquired), node, text);
}

static void read_released(struct dli_node *node, char text[DLI_EVENT_TEXT])
{
    read_end(DLI_OBJECT(node, struct dli_waiter, released), node, text);
}

static void read_lost(struct dli_node *node, char text[DLI_EVENT_TEXT])
{
    static const char *const cause[] = {"", "the lease ended before it could be renewed",
                                        "it was taken away on the server", "max_hold_ms is over",
                                        "the client was closed"};
    struct dli_waiter *waiter = DLI_OBJECT(node, struct dli_waiter, lost);

    describe(text, waiter, cause[node->field[DLOCK_FIELD_CAUSE]]);
    dli_waiter_unref(waiter);
}

static void read_risk(struct dli_node *node, char text[DLI_EVENT_TEXT])
{
    struct dli_waiter *waiter = DLI_OBJECT(node, struct dli_waiter, risk);

    describe(text, waiter, "renewal fails, the lock will be lost unless the server answers in time");
    dli_waiter_unref(waiter);
}

dlock_status dli_waiter_overdue(const struct dli_waiter *waiter)
{
    if (waiter->claim.state == DLI_CLAIM_LEAVING)
        return DLOCK_UNKNOWN_OUTCOME;
    if (waiter->entry->m.probe.failure != DLOCK_OK)
        return waiter->entry->m.probe.failure;
    if (waiter->claim.patient)
        return DLOCK_TIMED_OUT;
    return waiter->entry->m.sent.in_flight ? DLOCK_UNREACHABLE : DLOCK_BUSY; /* a mere try waits for one answer only */
}

static void wait_over(struct dli_timer *timer, int64_t now)
{
    struct dli_waiter *waiter = DLI_OBJECT(timer, struct dli_waiter, timer);
    struct dli_entry *entry = waiter->entry;

    dli_entry_lock(entry);
    if (now < waiter->claim.until && waiter->claim.state == DLI_CLAIM_WAITING) {
        if (!dli_loop_set_timer(entry->loop, timer, waiter->claim.until, now))
            unref_locked(waiter);
        dli_entry_unlock(entry);
        return;
    }
    if (waiter->claim.state == DLI_CLAIM_WAITING)
        dli_mutex_give_up(&entry->m, &waiter->claim, dli_waiter_overdue(waiter), now);
    dli_entry_pump(entry, now);
    unref_locked(waiter);
    dli_entry_unlock(entry);
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
    dli_list_init(&waiter->timer.link);
    dli_list_init(&waiter->acquired.link);
    dli_list_init(&waiter->released.link);
    dli_list_init(&waiter->lost.link);
    dli_list_init(&waiter->risk.link);
    waiter->timer.fire = wait_over;
    waiter->acquired.read = read_acquired;
    waiter->released.read = read_released;
    waiter->lost.read = read_lost;
    waiter->risk.read = read_risk;
    return waiter;
}

static void fill(int64_t field[DLOCK_FIELD_COUNT], const struct dli_waiter *waiter, int64_t type, int64_t status,
                 int64_t now)
{
    const struct dli_mutex *m = &waiter->entry->m;
    const struct dli_claim *claim = &waiter->claim;
    int64_t until = claim->state == DLI_CLAIM_HELD ? dli_mutex_sure_until(m) : DLI_NEVER;

    field[DLOCK_FIELD_TYPE] = type;
    field[DLOCK_FIELD_STATUS] = status;
    field[DLOCK_FIELD_TAG] = waiter->tag;
    field[DLOCK_FIELD_LOCK_ID] = waiter->entry->id;
    field[DLOCK_FIELD_OWNER] = claim->owner;
    field[DLOCK_FIELD_TOKEN] = claim->token > 0 ? claim->token : -1;
    field[DLOCK_FIELD_REMAINING_MS] = -1;
    if (until != DLI_NEVER)
        field[DLOCK_FIELD_REMAINING_MS] = until > now ? (until - now) / DLI_MS : 0;
    field[DLOCK_FIELD_CAUSE] = claim->cause;
    field[DLOCK_FIELD_HELD_FOR_MS] = claim->held_since ? (now - claim->held_since) / DLI_MS : -1;
    field[DLOCK_FIELD_WAITERS] = m->waiters;
    field[DLOCK_FIELD_FOREIGN] = field[DLOCK_FIELD_VALUE] = -1;
}

static void post(struct dli_waiter *waiter, struct dli_node *node, int64_t type, int64_t status, int64_t now)
{
    int64_t field[DLOCK_FIELD_COUNT];

    fill(field, waiter, type, status, now);
    __atomic_add_fetch(&waiter->refs, 1, __ATOMIC_RELAXED);
    if (!dli_events_post(&waiter->entry->client->events, node, field, type == DLOCK_EVENT_AT_RISK))
        __atomic_sub_fetch(&waiter->refs, 1, __ATOMIC_RELAXED);
}

static int releasing(const struct dli_claim *claim)
{
    return claim->state == DLI_CLAIM_DONE && claim->held_since != 0;
}

/* The release of an inner level, whose claim has no token, is not counted. */
static void count_end(struct dli_client *client, const struct dli_waiter *waiter)
{
    const struct dli_claim *claim = &waiter->claim;
    int submitted = waiter->notify == DLI_NOTIFY_QUEUE || waiter->notify == DLI_NOTIFY_RUN;

    if (claim->state == DLI_CLAIM_HELD) {
        dli_client_count(client, DLOCK_STAT_ACQUIRED, 1);
        dli_client_count(client, DLOCK_STAT_HANDOVERS, claim->handed);
    } else if (submitted && releasing(claim) && claim->result == DLOCK_OK && claim->token > 0) {
        dli_client_count(client, DLOCK_STAT_RELEASED, 1);
    }
}

/* Keep the reason for the event: when it is read, the entry may have had another exchange. */
static void copy_reason(struct dli_waiter *waiter)
{
    const dlock_error *reason = waiter->entry->reason;

    if (!reason || reason->code != waiter->claim.result || waiter->reason)
        return;
    if ((waiter->reason = malloc(sizeof *reason)))
        *waiter->reason = *reason;
}

/*
 * Post the promised event. The event of the grant may still be in the queue when the lock is released, so the release
 * has a node of its own.
 */
static void notify_queue(struct dli_waiter *waiter, int64_t now)
{
    int release = releasing(&waiter->claim);
    struct dli_node *node = release ? &waiter->released : &waiter->acquired;
    int64_t type = release ? DLOCK_EVENT_RELEASED : DLOCK_EVENT_ACQUIRED;

    if (waiter->claim.result != DLOCK_OK) {
        type++;
        copy_reason(waiter);
    }
    fill(node->field, waiter, type, waiter->claim.result, now);
    waiter->notify = DLI_NOTIFY_NOBODY;
    __atomic_add_fetch(&waiter->refs, 1, __ATOMIC_RELAXED);
    if (!dli_events_keep(&waiter->entry->client->events, node))
        __atomic_sub_fetch(&waiter->refs, 1, __ATOMIC_RELAXED);
}

/* A caller that is woken now would block on entry.mutex. So one wake-up is delayed until the mutex is released. */
static void wake(struct dli_waiter *waiter)
{
    struct dli_entry *entry = waiter->entry;

    if (entry->woken)
        dli_futex_wake(&waiter->settled, 1);
    else
        entry->woken = &waiter->settled;
}

static void stop_wait(struct dli_waiter *waiter)
{
    if (waiter->entry->loop && dli_loop_stop_timer(waiter->entry->loop, &waiter->timer))
        unref_locked(waiter);
}

/* A caller that was granted the lock goes on without the mutex while the grant is sure; see acquire.c. */
static void notify_caller(struct dli_waiter *waiter, int granted)
{
    if (granted)
        waiter->sure_until = dli_mutex_sure_until(&waiter->entry->m);
    waiter->notify = DLI_NOTIFY_NOBODY;
    __atomic_store_n(&waiter->settled, granted ? DLI_SETTLED_GRANTED : DLI_SETTLED_ENDED, __ATOMIC_RELEASE);
    if (waiter->sleeping)
        wake(waiter);
}

static void settle(struct dli_waiter *waiter, int64_t now)
{
    int granted = waiter->claim.state == DLI_CLAIM_HELD;

    count_end(waiter->entry->client, waiter);
    if (waiter->notify == DLI_NOTIFY_QUEUE) {
        stop_wait(waiter);
        notify_queue(waiter, now);
    } else if (waiter->notify == DLI_NOTIFY_RUN) {
        stop_wait(waiter);
        waiter->notify = DLI_NOTIFY_NOBODY;
        dli_run_member_ended(waiter->run, waiter->entry, waiter->claim.result, now);
    } else if (waiter->notify == DLI_NOTIFY_CALLER) {
        notify_caller(waiter, granted);
    }
    if (!granted)
        unref_locked(waiter);
}

void dli_waiter_deliver(struct dli_entry *entry, int64_t now)
{
    struct dli_link *link;

    while ((link = dli_list_pop(&entry->m.reports))) {
        struct dli_waiter *waiter = DLI_OBJECT(link, struct dli_waiter, claim.report);
        int what = waiter->claim.reports;

        waiter->claim.reports = 0;
        if (what & DLI_REPORT_AT_RISK)
            post(waiter, &waiter->risk, DLOCK_EVENT_AT_RISK, DLOCK_OK, now);
        if (what & DLI_REPORT_LOST) {
            dli_client_count(entry->client, DLOCK_STAT_LOST, 1);
            post(waiter, &waiter->lost, DLOCK_EVENT_LOST, DLOCK_LOST, now);
        }
    }
    while ((link = dli_list_pop(&entry->m.done)))
        settle(waiter_of(link), now);
}
