/*
 * submit.c: acquire and release that answer by an event, or at once when that takes only a moment; and the end of a
 * wait. Mutexes: see core.h.
 */
#include "acquire.h"
#include "waitlist.h"

#include <stdlib.h>

#include "sys/sys.h"

/* ---- the timer that ends a wait */

/*
 * entry.mutex held: the lock was granted after its owner's call was interrupted, and the owner does not know. Release it in the
 * background.
 */
static void give_back(struct dli_waiter *waiter, int64_t until, int64_t now)
{
    struct dli_entry *entry = waiter->entry;
    struct dli_claim *ended;

    dli_waiter_resume(waiter);
    if (dli_hold_release(entry, waiter->claim.owner, now, until, 1, &ended) != DLOCK_WOULD_BLOCK && ended) {
        dli_waiter_deliver(entry, now);
        dli_waiter_unref(waiter);
    }
}

/* entry.mutex held: the time of a wait is over. */
static void end_wait(struct dli_waiter *waiter, int64_t now)
{
    if (waiter->claim.state == DLI_CLAIM_WAITING)
        dli_mutex_give_up(&waiter->entry->m, &waiter->claim, dli_waiter_overdue(waiter), now);
    else if (waiter->claim.state == DLI_CLAIM_HELD && waiter->interrupted)
        give_back(waiter, now + waiter->entry->m.rules->attempt, now);
}

void dli_waiter_overtime(struct dli_timer *timer, int64_t now)
{
    struct dli_wait *wait = DLI_OBJECT(timer, struct dli_wait, timer);
    struct dli_waiter *waiter = wait->waiter;
    struct dli_entry *entry = waiter->entry;
    struct dli_notice *notice;

    dli_entry_ref(entry); /* the reader of the event may drop the waiter, and its ref, while the mutex is released */
    dli_entry_lock(entry);
    entry->surplus++;
    if (now < waiter->claim.until && (waiter->claim.state == DLI_CLAIM_WAITING || waiter->interrupted) &&
        dli_loop_set_timer(dli_entry_loop(entry), timer, waiter->claim.until, now)) {
        dli_entry_unlock(entry);
        return;
    }
    if ((notice = dli_waiter_notice(waiter)) && notice->wait == wait)
        notice->wait = NULL;
    if (now >= waiter->claim.until)
        end_wait(waiter, now);
    dli_entry_pump(entry, now);
    free(wait);
    dli_waiter_unref_locked(waiter);
    dli_entry_unlock(entry);
}

void dli_waiter_limit(struct dli_waiter *waiter, int64_t now)
{
    struct dli_entry *entry = waiter->entry;
    struct dli_notice *notice = dli_waiter_notice(waiter);
    struct dli_wait *wait = notice ? notice->wait : NULL;

    if (waiter->claim.state != DLI_CLAIM_WAITING || !wait)
        return;
    *wait = (struct dli_wait){.timer.sort = DLI_TIMER_WAIT, .waiter = waiter};
    dli_list_init(&wait->timer.link);
    __atomic_add_fetch(&waiter->refs, 1, __ATOMIC_RELAXED);
    if (dli_loop_set_timer(dli_entry_loop(entry), &wait->timer, waiter->claim.until, now))
        return;
    wait->waiter = NULL;
    __atomic_sub_fetch(&waiter->refs, 1, __ATOMIC_RELAXED);
}

/* A timer that has fired takes the mutex next, and ends itself. */
void dli_waiter_unlimit(struct dli_waiter *waiter)
{
    struct dli_notice *notice = dli_waiter_notice(waiter);
    struct dli_wait *wait = notice ? notice->wait : NULL;

    if (!wait)
        return;
    notice->wait = NULL;
    if (!wait->waiter) {
        free(wait);
    } else if (dli_loop_stop_timer(dli_entry_loop(waiter->entry), &wait->timer)) {
        free(wait);
        dli_waiter_unref_locked(waiter);
    }
}

/* ---- calls that were interrupted */

/* Whoever looks for such a claim looks only when there is one. */
static void set_interrupted(struct dli_waiter *waiter, unsigned on)
{
    struct dli_entry *parent = waiter->entry->parent;

    waiter->interrupted = on & 1;
    if (parent)
        __atomic_add_fetch(&parent->interrupted, on ? 1 : -1, __ATOMIC_ACQ_REL);
}

void dli_waiter_uncount(struct dli_waiter *waiter)
{
    if (waiter->interrupted)
        set_interrupted(waiter, 0);
}

void dli_waiter_interrupt(struct dli_waiter *waiter, int64_t now)
{
    struct dli_entry *entry = waiter->entry;

    waiter->notify = DLI_NOTIFY_NOBODY;
    set_interrupted(waiter, 1);
    dli_mutex_loosen(&entry->m, &waiter->claim);
    if (waiter->claim.until == DLI_NEVER)
        return;
    if ((waiter->notice = dli_notice_new(waiter->claim.until))) {
        dli_waiter_limit(waiter, now);
        return;
    }
    dli_mutex_give_up(&entry->m, &waiter->claim, DLOCK_OUT_OF_MEMORY, now); /* nothing would end it */
    dli_entry_pump(entry, now);
}

int dli_waiter_resume(struct dli_waiter *waiter)
{
    if (!waiter->interrupted)
        return 0;
    set_interrupted(waiter, 0);
    if (waiter->last_used)
        return 1;
    dli_waiter_unlimit(waiter);
    dli_notice_free(waiter->notice);
    waiter->notice = NULL;
    return 1;
}

/* ---- submitted calls */

/* Promise an event to the queue for each claim whose result goes to it. A run has promised its own. */
static dlock_status promise(struct dli_entry *entry, const struct dli_run *run)
{
    return run ? DLOCK_OK : dli_events_promise(&entry->client->events);
}

/* When the call has failed, no event follows: take the promise back. notice: no waiter has it; or NULL. */
static dlock_status unpromised(struct dli_entry *entry, const struct dli_run *run, struct dli_notice *notice,
                               dlock_status status)
{
    dli_notice_free(notice);
    if (status != DLOCK_OK && !run)
        dli_events_keep(&entry->client->events, NULL);
    return status;
}

/*
 * entry.mutex held: set who gets the result: the run, or the queue as *notice, which is the waiter's from here on. notice is
 * NULL for a release: its event needs no memory.
 */
static void set_notify(struct dli_waiter *waiter, int64_t tag, struct dli_run *run, struct dli_notice **notice)
{
    waiter->notice = notice ? *notice : NULL;
    if (notice)
        *notice = NULL;
    waiter->notify = run ? DLI_NOTIFY_RUN : DLI_NOTIFY_QUEUE;
    if (run)
        waiter->run = run;
    else
        waiter->tag = tag;
}

/* entry.mutex held: re-entry by the holder is reported like any other acquisition. That drops a ref of fresh. */
static void reentered(struct dli_waiter *fresh, const struct dli_claim *held)
{
    fresh->claim.token = held->token;
    fresh->claim.held_since = 0;
    fresh->claim.result = DLOCK_OK;
    fresh->claim.state = DLI_CLAIM_DONE;
    dli_ring_append(&fresh->entry->m.done, &fresh->claim.link);
}

/*
 * entry.mutex held: owner has an older claim, found, which is used instead of fresh. A hold is entered once more. A
 * call that was interrupted goes on as the submitted one, also when it was granted meanwhile. DLOCK_INVALID_ARGUMENT:
 * another call waits with found.
 */
static dlock_status go_on(struct dli_waiter *found, struct dli_waiter *fresh, int64_t now)
{
    int interrupted = dli_waiter_resume(found);

    if (found->claim.state == DLI_CLAIM_HELD) {
        found->claim.count -= interrupted;
        reentered(fresh, &found->claim);
        return DLOCK_OK;
    }
    if (interrupted) {
        found->claim.until = fresh->claim.until;
        set_notify(found, fresh->tag, fresh->notify == DLI_NOTIFY_RUN ? fresh->run : NULL, &fresh->notice);
        dli_waiter_limit(found, now);
    }
    dli_waiter_unref(fresh);
    return interrupted ? DLOCK_OK : DLOCK_INVALID_ARGUMENT;
}

/*
 * entry.mutex held, released meanwhile: try to get the answer within a moment, before the watchdog takes over. Not for a
 * run, whose members have mutexes of their own. Returns the time.
 */
static int64_t execute_now(struct dli_entry *entry, const struct dli_run *run, int64_t now)
{
    if (run || !dli_events_one_by_one(&entry->client->events, now))
        return now;
    dli_exchange_direct(entry, now);
    return dli_now();
}

dlock_status dli_submit_acquire(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t wait,
                                int64_t tag, struct dli_run *run)
{
    int64_t now = dli_now();
    dlock_status status = promise(entry, run);
    struct dli_notice *notice = NULL;
    struct dli_waiter *fresh;
    struct dli_claim *claim;

    if (status != DLOCK_OK)
        return status;
    if (!(notice = dli_notice_new(wait)) || !(fresh = dli_acquire_waiter(entry, terms, owner, wait, now))) {
        dli_hold_refused(entry);
        return unpromised(entry, run, notice, DLOCK_OUT_OF_MEMORY);
    }
    set_notify(fresh, tag, run, &notice);
    dli_entry_lock(entry);
    claim = dli_mutex_acquire(&entry->m, &fresh->claim, now);
    entry->reserved = 0;
    dli_hold_begins(entry);
    if (claim == &fresh->claim)
        dli_acquire_asked(fresh, now);
    else
        status = go_on(DLI_OBJECT(claim, struct dli_waiter, claim), fresh, now);
    now = execute_now(entry, run, now);
    if (claim == &fresh->claim)
        dli_waiter_limit(fresh, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    dli_waiter_unref(fresh);
    return unpromised(entry, run, notice, status);
}

/* entry.mutex held: a release that ended in memory is reported like one that needed the server. */
static void complete_in_memory(struct dli_waiter *waiter, int64_t tag, struct dli_run *run)
{
    set_notify(waiter, tag, run, NULL);
    waiter->claim.result = DLOCK_OK;
    dli_ring_append(&waiter->entry->m.done, &waiter->claim.link);
}

/* The release of an inner level ends no claim. Make a waiter for the event alone. */
static dlock_status complete_inner(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t tag,
                                   struct dli_run *run)
{
    struct dli_waiter *waiter = dli_acquire_waiter(entry, terms, owner, 0, dli_now());

    if (!waiter)
        return DLOCK_OUT_OF_MEMORY;
    waiter->claim.state = DLI_CLAIM_DONE;
    waiter->claim.held_since = dli_now();
    complete_in_memory(waiter, tag, run);
    dli_waiter_unref(waiter);
    return DLOCK_OK;
}

dlock_status dli_submit_release(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t tag,
                                struct dli_run *run)
{
    int64_t now = dli_now();
    dlock_status status = promise(entry, run);
    struct dli_claim *claim;

    if (status != DLOCK_OK)
        return status;
    dli_entry_lock(entry);
    status = dli_hold_release(entry, owner, now, now + terms->release_timeout, 1, &claim);
    if (status == DLOCK_WOULD_BLOCK) {
        set_notify(DLI_OBJECT(claim, struct dli_waiter, claim), tag, run, NULL);
        status = DLOCK_OK;
    } else if (status == DLOCK_OK && claim) {
        complete_in_memory(DLI_OBJECT(claim, struct dli_waiter, claim), tag, run);
    } else if (status == DLOCK_OK) {
        status = complete_inner(entry, terms, owner, tag, run);
        entry->m.holder->count += status != DLOCK_OK; /* a refused call changes nothing */
    } else if (claim) {
        dli_waiter_deliver(entry, now); /* it may still have something to report */
        dli_waiter_unref(DLI_OBJECT(claim, struct dli_waiter, claim));
    }
    now = execute_now(entry, run, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    return unpromised(entry, run, NULL, status);
}

/* ---- answered at once, or by an event */

/* When every answer comes at once, an event loop never gets to its other tasks. So one of ROUND is reported by an event. */
enum { ROUND = 16 };

static int turn_of_others(struct dli_client *client)
{
    return __atomic_add_fetch(&client->begun, 1, __ATOMIC_RELAXED) % ROUND == 0 && dli_events_mine(&client->events);
}

/* entry.mutex held: the claim expects its answer. 1: it is settled, in memory or in a moment. 0: its event will be queued. */
static int settle_now(struct dli_waiter *waiter, int64_t tag, struct dli_notice **notice, int64_t now)
{
    struct dli_entry *entry = waiter->entry;
    int refused = waiter->claim.state == DLI_CLAIM_DONE && waiter->claim.result != DLOCK_OK;
    int by_event = refused && turn_of_others(entry->client);
    int releasing = waiter->claim.state == DLI_CLAIM_LEAVING;

    if (by_event)
        set_notify(waiter, tag, NULL, notice);
    dli_waiter_deliver(entry, now);
    if (!by_event && !waiter->settled && (by_event = turn_of_others(entry->client)))
        set_notify(waiter, tag, NULL, notice);
    if (!waiter->settled)
        now = execute_now(entry, NULL, now);
    dli_entry_pump(entry, now);
    /* by_event: a quick reader may have released already, which set settled again */
    if (!by_event && dli_acquire_over(waiter, releasing))
        return 1;
    if (!by_event)
        set_notify(waiter, tag, NULL, notice);
    dli_waiter_limit(waiter, now);
    return 0;
}

/* An event follows DLOCK_WOULD_BLOCK only: otherwise take the promise back. */
static dlock_status begun(struct dli_entry *entry, struct dli_notice *notice, dlock_status status)
{
    dli_notice_free(notice);
    if (status != DLOCK_WOULD_BLOCK)
        dli_events_keep(&entry->client->events, NULL);
    return status;
}

dlock_status dli_begin_acquire(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t wait,
                               int64_t tag, int64_t *token, dlock_error *reason)
{
    int64_t now = dli_now();
    struct dli_notice *notice = NULL;
    struct dli_waiter *fresh, *waiter;
    dlock_status status = promise(entry, NULL);

    if (status != DLOCK_OK)
        return status;
    if (!(notice = dli_notice_new(wait)) || !(fresh = dli_acquire_waiter(entry, terms, owner, wait, now))) {
        dli_hold_refused(entry);
        return begun(entry, notice, DLOCK_OUT_OF_MEMORY);
    }
    dli_entry_lock(entry);
    status = dli_acquire_enter(entry, fresh, now, &waiter, token);
    if (waiter) {
        status = DLOCK_WOULD_BLOCK;
        if (settle_now(waiter, tag, &notice, now))
            status = dli_acquire_answer(waiter, dli_acquire_result(waiter), token, reason);
    }
    dli_entry_unlock(entry);
    if (waiter)
        dli_waiter_unref(waiter);
    return begun(entry, notice, status == DLOCK_NOT_HELD ? dli_hold_swapped(entry, owner) : status);
}

dlock_status dli_begin_release(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner, int64_t tag,
                               dlock_error *reason)
{
    int64_t now = dli_now();
    struct dli_waiter *waiter;
    struct dli_claim *claim;
    dlock_status status = promise(entry, NULL);

    if (status != DLOCK_OK)
        return status;
    dli_entry_lock(entry);
    status = dli_hold_release(entry, owner, now, now + terms->release_timeout, 1, &claim);
    if (status != DLOCK_WOULD_BLOCK) {
        dli_acquire_released(entry, claim, status, now);
        dli_entry_unlock(entry);
        return begun(entry, NULL, status);
    }
    waiter = DLI_OBJECT(claim, struct dli_waiter, claim);
    __atomic_add_fetch(&waiter->refs, 1, __ATOMIC_RELAXED);
    dli_acquire_expect(waiter);
    if (settle_now(waiter, tag, NULL, now)) {
        status = dli_acquire_report(entry, dli_acquire_result(waiter), reason);
        dli_client_count(entry->client, DLOCK_STAT_RELEASED, status == DLOCK_OK);
    }
    dli_entry_unlock(entry);
    dli_waiter_unref(waiter);
    return begun(entry, NULL, status);
}

/* ---- the end of a wait */

dlock_status dli_submit_cancel(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner)
{
    dlock_status status = DLOCK_NOT_HELD;
    struct dli_claim *claim;
    int64_t now = dli_now();

    dli_entry_lock(entry);
    claim = dli_mutex_find(&entry->m, owner);
    if (claim && claim->state == DLI_CLAIM_WAITING) {
        dli_mutex_give_up(&entry->m, claim, DLOCK_CANCELLED, now);
        status = DLOCK_OK;
    } else if (claim && claim->state == DLI_CLAIM_HELD && DLI_OBJECT(claim, struct dli_waiter, claim)->interrupted) {
        give_back(DLI_OBJECT(claim, struct dli_waiter, claim), now + terms->release_timeout, now);
        status = DLOCK_OK;
    }
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    return status;
}

void dli_submit_give_up(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner)
{
    int64_t now = dli_now();
    struct dli_claim *ended;
    dlock_status status;

    dli_entry_lock(entry);
    status = dli_hold_release(entry, owner, now, now + terms->release_timeout, 1, &ended);
    if (status != DLOCK_WOULD_BLOCK && ended) {
        dli_waiter_deliver(entry, now);
        dli_waiter_unref(DLI_OBJECT(ended, struct dli_waiter, claim));
    }
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}
