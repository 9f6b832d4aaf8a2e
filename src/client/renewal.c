/*
 * renewal.c: the watchdog's hooks: which holds are due for renewal, the row of each, and its result. Also the end of a
 * watchdog thread. Mutexes: see core.h.
 *
 * A queued renewal has a ref on its entry. The machine is marked renewing: it queues no second renewal of a grant.
 */
#include <string.h>

#include "multi.h"
#include "sys/sys.h"

/*
 * A timer fires up to a sixteenth of its delay early (watchdog/timers.h), and a renewal is set for a third of its period.
 * It goes out when the timer fires: to wait for the rest would take more timers.
 */
static int64_t due_by(const struct dli_entry *entry, int64_t now)
{
    int64_t period = dli_mutex_period(&entry->m);

    return period == DLI_NEVER ? now : now + period / 48;
}

void dli_renewal_queue(struct dli_entry *entry)
{
    struct dli_mutex *m = &entry->m;
    struct dli_due due = {
        .hold = entry,
        .kind = entry->kind,
        .place = entry->place,
        .number = m->want.number,
        .lease = m->grant.lease,
        .limit = m->grant.limit,
        .attempt = entry->m.rules->attempt,
        .last = m->tokens.end - 1,
        .lasts = dli_mutex_period(m),
        .tries = m->renewing.failures,
        .soon = m->renewing.confirm || (m->renewing.failures && !entry->apart),
        .most = entry->apart ? 1 : DLI_RENEW_MAX,
    };

    if (dli_renew_queue(dli_entry_loop(entry), &due)) {
        dli_mutex_renewed(m, m->want.number, -1, m->grant.lease, m->grant.stamp, dli_now());
        return;
    }
    dli_mutex_renewing(m);
    dli_entry_ref(entry);
}

/*
 * Whether the machine still wants the queued renewal: not when the lock was released or extended meanwhile. Then the
 * ref is dropped. Late renewals are counted.
 */
static int still_wanted(const struct dli_due *due, int64_t now)
{
    struct dli_entry *entry = due->hold;
    int64_t delay;
    int wanted, late;

    dli_entry_lock(entry);
    wanted = entry->m.renewing.in_flight && entry->m.want.number == due->number;
    if (wanted && due_by(entry, now) < entry->m.renewing.at) {
        wanted = entry->m.renewing.in_flight = 0;
        dli_entry_pump(entry, now);
    }
    delay = now - entry->m.renewing.at;
    late = wanted && now > entry->m.grant.stamp + dli_mutex_period(&entry->m) / 2 && !entry->m.renewing.failures &&
           !entry->m.renewing.confirm;
    if (!wanted)
        entry->surplus++;
    dli_entry_unlock(entry);
    if (wanted)
        dli_metrics_note(&entry->client->metrics, DLI_RENEWAL_DELAY, delay > 0 ? delay : 0);
    if (late)
        dli_client_count(entry->client, DLOCK_STAT_RENEWALS_LATE, 1);
    return wanted;
}

static int fill_row(const struct dli_due *due, int64_t now, struct dli_renewal *row)
{
    const struct dli_entry *entry = due->hold;

    if (!still_wanted(due, now))
        return 0;
    row->kind = due->kind;
    row->place = due->place;
    row->lease = due->lasts + entry->m.rules->delay;
    row->delay = entry->m.rules->delay;
    row->permits = entry->m.rules->permits;
    row->last = due->last;
    row->changed = due->soon;
    row->since = 0;
    dli_entry_owner(entry, due->number, row->owner);
    return 1;
}

static void renewed(const struct dli_due *due, int kept, int64_t stamp, int64_t now)
{
    struct dli_entry *entry = due->hold;

    if (kept == 1 && due->limit != DLI_NEVER)
        dli_metrics_note(&entry->client->metrics, DLI_RENEWAL_LEFT, due->limit - now);
    dli_entry_lock(entry);
    entry->surplus++;
    dli_mutex_renewed(&entry->m, due->number, kept, due->lease, stamp, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}

/* A lock that is refused alone shares no request until one of its renewals is accepted. The refusal is logged once. */
static void alone(const struct dli_due *due, int refused, dlock_status status, const dlock_error *reason)
{
    struct dli_entry *entry = due->hold;
    char text[DLI_EVENT_TEXT];
    dlock_error said;
    int news;

    dli_entry_lock(entry);
    news = refused && !entry->apart;
    entry->apart = refused != 0;
    dli_entry_unlock(entry);
    if (!news)
        return;
    dli_lock_report(entry, status, reason, &said);
    dli_escape(text, sizeof text, said.message, strlen(said.message));
    dli_events_log(&entry->client->events, status, text);
}

static void drop(const struct dli_due *due)
{
    dli_entry_unref(due->hold);
}

static int64_t leaving(void *owner, int64_t now)
{
    return dli_client_leaving(owner, now);
}

static void ended(void *owner)
{
    dli_client_thread_ended(owner);
    dli_client_unref(owner);
}

static void tick(struct dli_timer *timer, int64_t now)
{
    struct dli_entry *entry = DLI_OBJECT(timer, struct dli_entry, timer);

    dli_entry_lock(entry);
    entry->timer_at = DLI_NEVER;
    entry->surplus++;
    dli_mutex_tick(&entry->m, now);
    if (dli_mutex_renewal(&entry->m, due_by(entry, now)))
        dli_renewal_queue(entry);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}

static void fire(struct dli_timer *timer, int64_t now)
{
    static void (*const by_sort[])(struct dli_timer * timer, int64_t now) = {
        [DLI_TIMER_ENTRY] = tick,
        [DLI_TIMER_WAIT] = dli_waiter_overtime,
        [DLI_TIMER_RUN] = dli_run_go_on,
    };

    by_sort[timer->sort](timer, now);
}

const struct dli_watchdog_hooks dli_client_watchdog_hooks = {
    .row = fill_row,
    .renewed = renewed,
    .alone = alone,
    .drop = drop,
    .alarm = leaving,
    .fire = fire,
    .ended = ended,
};
