/*
 * acquire.c: blocking acquire and release, and their in-memory forms. Mutexes: see core.h.
 *
 * A caller first sends what the machine wants from its own thread (exchange.c). Only when that has not settled its
 * claim does it sleep, and the watchdog takes over. The caller whose grant comes from the store receives the store's messages
 * meanwhile, where the store allows that. A sleeper that is granted the lock does not take entry.mutex: the thread that
 * handed the lock over may need it again at once.
 */
#include "acquire.h"
#include "waitlist.h"

#include <stdlib.h>

#include "sys/sys.h"

/* The limits that the terms set. 0: waiter has them, if there are any. -1: there is no memory for them. */
static int set_limits(struct dli_waiter *waiter, const struct dli_terms *terms)
{
    struct dli_limits *limits;

    if (terms->max_hold == DLI_NEVER && terms->min_hold == 0 && terms->linger == 0)
        return 0;
    if (!(limits = malloc(sizeof *limits)))
        return -1;
    *limits = (struct dli_limits){terms->max_hold, terms->min_hold, terms->linger};
    waiter->claim.limits = limits;
    return 0;
}

struct dli_waiter *dli_acquire_waiter(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner,
                                      int64_t wait, int64_t now)
{
    struct dli_waiter *waiter = dli_waiter_new(entry);
    int64_t attempt = dli_lease_attempt(terms->lease, entry->m.rules->attempt);

    if (waiter && set_limits(waiter, terms)) {
        dli_waiter_unref(waiter);
        dli_waiter_unref(waiter);
        waiter = NULL;
    }
    if (!waiter)
        return NULL;
    waiter->claim.owner = owner;
    waiter->claim.lease = terms->lease;
    waiter->claim.renew = terms->renew != 0;
    waiter->claim.patient = wait > 0;
    waiter->claim.until = dli_later(now, wait > 0 ? wait : attempt);
    return waiter;
}

void dli_acquire_asked(struct dli_waiter *waiter, int64_t now)
{
    waiter->asked_at = now;
    dli_metrics_asked(&waiter->entry->client->metrics);
}

/*
 * Microseconds. A signal that comes before the sleep does not end it. Callers that want to know of signals therefore
 * wake up this often.
 */
static const int64_t attention = 1000000;

void dli_acquire_expect(struct dli_waiter *waiter)
{
    waiter->notify = DLI_NOTIFY_CALLER;
    __atomic_store_n(&waiter->settled, 0, __ATOMIC_RELAXED);
    waiter->sleeping = DLI_AWAKE;
}

dlock_status dli_acquire_result(const struct dli_waiter *waiter)
{
    return waiter->claim.state == DLI_CLAIM_DONE ? waiter->claim.result : DLOCK_OK;
}

/*
 * entry.mutex held: how to sleep. The caller that gets the next grant from the store listens for it. Others are woken from
 * within this process.
 */
static int way_to_sleep(const struct dli_waiter *waiter)
{
    const struct dli_mutex *m = &waiter->entry->m;
    struct dli_store *store = waiter->entry->client->store;

    if (store->ops->may_listen && waiter->claim.state == DLI_CLAIM_WAITING && !m->holder && !m->parked &&
        m->active->waiting.next == &waiter->claim.link && store->ops->may_listen(store))
        return DLI_LISTENING;
    return DLI_ASLEEP;
}

/* Without the mutex. */
static int sleep_on(struct dli_waiter *waiter, int how, int64_t limit, int interruptible)
{
    struct dli_store *store = waiter->entry->client->store;

    if (how == DLI_LISTENING)
        return store->ops->listen(store, limit == DLI_NEVER ? -1 : limit);
    if (interruptible || limit != DLI_NEVER)
        return dli_futex_wait(&waiter->settled, 0, limit == DLI_NEVER ? -1 : limit);
    dli_futex_sleep(&waiter->settled, 0);
    return DLI_WAIT_WOKEN;
}

/* Without the mutex. */
static int granted_for_sure(const struct dli_waiter *waiter)
{
    return __atomic_load_n(&waiter->settled, __ATOMIC_ACQUIRE) == DLI_SETTLED_GRANTED && dli_now() < waiter->sure_until;
}

/* A thread has released what was granted, or nothing was. */
static int is_released(const struct dli_waiter *waiter)
{
    return waiter->claim.state == DLI_CLAIM_LEAVING || waiter->claim.state == DLI_CLAIM_DONE;
}

int dli_acquire_over(const struct dli_waiter *waiter, int releasing)
{
    return waiter->settled || (!releasing && is_released(waiter));
}

/*
 * entry.mutex held, released meanwhile: sleep until it is over, and give up when its time is over. DLOCK_INTERRUPTED when
 * the caller wants to know of signals, and one came or may have come before the sleep; the claim goes on. *sure: the claim
 * was granted, and the mutex is not held any more.
 */
static dlock_status await(struct dli_waiter *waiter, int releasing, int interruptible, int *sure)
{
    struct dli_entry *entry = waiter->entry;

    while (!dli_acquire_over(waiter, releasing)) {
        int64_t until = waiter->claim.until, limit = until;
        int how, woken;

        if (interruptible && until - dli_now() > attention)
            limit = dli_now() + attention;
        how = way_to_sleep(waiter);
        waiter->sleeping = how == DLI_LISTENING ? DLI_LISTENING : DLI_ASLEEP;
        dli_entry_unlock(entry);
        woken = sleep_on(waiter, how, limit, interruptible);
        if ((*sure = granted_for_sure(waiter)))
            return DLOCK_OK;
        dli_entry_lock(entry);
        if (dli_acquire_over(waiter, releasing))
            break; /* sleeping may be that of a thread that releases the claim */
        waiter->sleeping = DLI_AWAKE;
        if (dli_now() >= until) {
            dli_mutex_give_up(&entry->m, &waiter->claim, dli_waiter_overdue(waiter), dli_now());
            dli_entry_pump(entry, dli_now());
        } else if (interruptible && (woken == DLI_WAIT_SIGNAL || dli_now() >= limit)) {
            return DLOCK_INTERRUPTED;
        }
    }
    return dli_acquire_result(waiter);
}

dlock_status dli_acquire_receive(struct dli_waiter *waiter, int64_t *token)
{
    struct dli_entry *entry = waiter->entry;
    int64_t now = dli_now();

    dli_mutex_tick(&entry->m, now);
    if (is_released(waiter))
        return DLOCK_LOST; /* another thread of its owner has released it; the answer to that may be due yet */
    waiter->notify = DLI_NOTIFY_NOBODY;
    waiter->settled = 0;
    if (waiter->claim.state != DLI_CLAIM_HELD) {
        struct dli_claim *ended;

        dli_mutex_release(&entry->m, waiter->claim.owner, now, now, 0, &ended);
        dli_entry_pump(entry, now);
        if (ended)
            dli_waiter_unref(waiter);
        return DLOCK_LOST;
    }
    *token = waiter->claim.token;
    return DLOCK_OK;
}

dlock_status dli_acquire_enter(struct dli_entry *entry, struct dli_waiter *fresh, int64_t now,
                               struct dli_waiter **waiter, int64_t *token)
{
    struct dli_claim *claim = dli_mutex_acquire(&entry->m, &fresh->claim, now);
    struct dli_waiter *found = DLI_OBJECT(claim, struct dli_waiter, claim);
    int64_t until = fresh->claim.until;

    *waiter = NULL;
    entry->reserved = 0;
    dli_hold_begins(entry);
    if (found == fresh) {
        dli_acquire_asked(fresh, now);
        dli_acquire_expect(fresh);
        *waiter = fresh;
        return DLOCK_OK;
    }
    dli_waiter_unref(fresh);
    dli_waiter_unref(fresh);
    if (claim->state == DLI_CLAIM_HELD) {
        claim->count -= dli_waiter_resume(found);
        *token = claim->token;
        return DLOCK_OK;
    }
    if (!dli_waiter_resume(found))
        return DLOCK_INVALID_ARGUMENT;
    claim->until = until;
    dli_acquire_expect(found);
    __atomic_add_fetch(&found->refs, 1, __ATOMIC_RELAXED);
    *waiter = found;
    return DLOCK_OK;
}

dlock_status dli_acquire_report(const struct dli_entry *entry, dlock_status status, dlock_error *reason)
{
    const dlock_error *known = dli_entry_reason(entry);

    if (status != DLOCK_OK && reason && reason->code != status && known && known->code == status)
        *reason = *known;
    return status;
}

/* A hold of a semaphore, which another thread of its owner has released in place of its own, whatever came of that. */
static int is_taken(const struct dli_waiter *waiter)
{
    return waiter->entry->kind->slots && is_released(waiter) && waiter->claim.token > 0;
}

dlock_status dli_acquire_answer(struct dli_waiter *waiter, dlock_status status, int64_t *token, dlock_error *reason)
{
    if (is_taken(waiter)) {
        *token = waiter->claim.token;
        return DLOCK_NOT_HELD;
    }
    if (status == DLOCK_OK && !waiter->entry->m.rules->momentary)
        status = dli_acquire_receive(waiter, token);
    return dli_acquire_report(waiter->entry, status, reason);
}

dlock_status dli_acquire(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t wait,
                         const uint32_t *cancelled, int64_t *token, dlock_error *reason)
{
    int64_t now = dli_now();
    struct dli_waiter *fresh = dli_acquire_waiter(entry, terms, owner, wait, now), *waiter;
    dlock_status status;
    int sure = 0;

    if (!fresh) {
        dli_hold_refused(entry);
        return DLOCK_OUT_OF_MEMORY;
    }
    dli_events_trim(&entry->client->events, dli_waiter_is_loss);
    fresh->claim.bound = owner < 0; /* negative: the owner is this thread */
    dli_entry_lock(entry);
    status = dli_acquire_enter(entry, fresh, now, &waiter, token);
    if (waiter) {
        if (cancelled && __atomic_load_n(cancelled, __ATOMIC_ACQUIRE))
            dli_mutex_give_up(&entry->m, &waiter->claim, DLOCK_CANCELLED, now);
        now = dli_exchange_drive(entry, &waiter->claim, now, reason);
        dli_entry_pump(entry, now);
        status = await(waiter, 0, terms->interruptible, &sure);
        if (sure)
            *token = waiter->claim.token;
        else if (status == DLOCK_INTERRUPTED)
            dli_waiter_interrupt(waiter, dli_now());
        else
            status = dli_acquire_answer(waiter, status, token, reason);
    }
    if (!sure)
        dli_entry_unlock(entry);
    if (waiter)
        dli_waiter_unref(waiter);
    return status == DLOCK_NOT_HELD ? dli_hold_swapped(entry, owner) : status;
}

/* entry.mutex held: count a claim whose release ended in memory with status, and drop its ref. */
static void finish_in_memory(struct dli_entry *entry, struct dli_claim *ended, dlock_status status)
{
    if (!ended || ended->state != DLI_CLAIM_DONE)
        return;
    dli_client_count(entry->client, DLOCK_STAT_RELEASED, status == DLOCK_OK);
    dli_waiter_unref(DLI_OBJECT(ended, struct dli_waiter, claim));
}

void dli_acquire_released(struct dli_entry *entry, struct dli_claim *ended, dlock_status status, int64_t now)
{
    dli_waiter_deliver(entry, now); /* the claim may still have something to report */
    finish_in_memory(entry, ended, status);
    dli_entry_pump(entry, now);
}

dlock_status dli_release(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, dlock_error *reason)
{
    int64_t now = dli_now();
    struct dli_waiter *waiter;
    struct dli_claim *claim;
    dlock_status status;
    int sure;

    dli_entry_lock(entry);
    status = dli_hold_release(entry, owner, now, now + terms->release_timeout, 1, &claim);
    if (status != DLOCK_WOULD_BLOCK) {
        dli_acquire_released(entry, claim, status, now);
        dli_entry_unlock(entry);
        return status;
    }
    waiter = DLI_OBJECT(claim, struct dli_waiter, claim);
    __atomic_add_fetch(&waiter->refs, 1, __ATOMIC_RELAXED);
    dli_acquire_expect(waiter);
    dli_entry_pump(entry, dli_exchange_drive(entry, claim, now, reason));
    status = dli_acquire_report(entry, await(waiter, 1, 0, &sure), reason);
    dli_client_count(entry->client, DLOCK_STAT_RELEASED, status == DLOCK_OK);
    dli_entry_unlock(entry);
    dli_waiter_unref(waiter);
    return status;
}

/*
 * entry.mutex held: the lock lingers. owner gets it when that is possible with these terms. Else it goes back to the
 * server; NULL then, and without memory.
 */
static struct dli_claim *take_up(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t now)
{
    struct dli_waiter *waiter = dli_acquire_waiter(entry, terms, owner, 0, now);
    struct dli_claim *claim;

    if (!waiter)
        return NULL;
    claim = dli_mutex_acquire(&entry->m, &waiter->claim, now);
    dli_mutex_give_up(&entry->m, claim, DLOCK_WOULD_BLOCK, now);
    if (claim->state == DLI_CLAIM_HELD)
        dli_acquire_asked(waiter, now);
    else
        claim = NULL;
    dli_entry_pump(entry, now);
    dli_waiter_unref(waiter);
    return claim;
}

dlock_status dli_acquire_local(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t *token)
{
    int64_t now = dli_now();
    struct dli_claim *claim;

    dli_entry_lock(entry);
    claim = dli_mutex_reenter(&entry->m, owner, now);
    if (!claim && entry->m.handover.linger_until)
        claim = take_up(entry, terms, owner, now);
    if (claim) {
        struct dli_waiter *waiter = DLI_OBJECT(claim, struct dli_waiter, claim);

        claim->count -= dli_waiter_resume(waiter);
        *token = claim->token;
    }
    dli_entry_unlock(entry);
    return claim ? DLOCK_OK : DLOCK_WOULD_BLOCK;
}

dlock_status dli_release_local(struct dli_entry *entry, int64_t owner)
{
    struct dli_claim *ended;
    dlock_status status;
    int64_t now = dli_now();

    dli_entry_lock(entry);
    status = dli_hold_release(entry, owner, now, now, 0, &ended);
    if (status != DLOCK_WOULD_BLOCK)
        dli_acquire_released(entry, ended, status, now);
    dli_entry_unlock(entry);
    return status;
}
