/*
 * multi_submit.c: acquires or releases a multi-lock without a waiting thread. When one script can acquire all members,
 * it does (multi_once.c). Otherwise the end of one member starts the next step, on loop 0.
 *
 * A run belongs to its steps. Between two steps only the request or the member under way (or the members being
 * released) refers to it. status, token and pending are atomics, because members are told under mutexes of their own.
 * An acquisition is in multi.runs until it ends; client.mutex guards that list and cancelled.
 *
 * The event of a run is promised to the queue as long as the run lives. When loop 0 takes no more steps, the run is
 * cut off: it ends as soon as the mutex is released under which the last member was told.
 */
#include "multi.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

struct dli_run {
    struct dli_multi *multi;  /* with a ref */
    struct dli_timer timer;   /* the next step */
    struct dli_snapshot shot; /* the event at the end */
    struct dli_run *next;     /* in entry.cut_off */
    struct dli_run *sibling;  /* in multi.runs */
    int64_t owner, until, tag;
    int64_t token;   /* the largest */
    int64_t pending; /* members that have not ended yet */
    int32_t status;  /* the first that was not DLOCK_OK */
    size_t at;       /* the member under way; after a failure, the one that stood in the way */
    int patient, releasing, cancelled;
};

static void read_node(struct dli_node *node, struct dlock_event *event)
{
    struct dli_run *run = DLI_OBJECT(node, struct dli_run, shot.node);
    const struct dli_name *its = &run->multi->member[run->at < run->multi->count ? run->at : 0].entry->name;
    dlock_error whole;
    char name[120];

    dli_escape(name, sizeof name, its->text, its->size);
    dli_fail(&whole, DLOCK_OK, "%zu locks, %s '%s' at %s: %s", run->multi->count,
             run->status == DLOCK_OK ? "the first" : "of which", name, run->multi->client->store->text,
             dli_status_find(run->status)->text);
    dli_snapshot_read(&run->shot, event);
    dli_escape(event->text, DLI_EVENT_TEXT, whole.message, strlen(whole.message));
    dli_multi_unref(run->multi);
    free(run);
}

/* The last step: the event takes the run over. */
static void end(struct dli_run *run)
{
    int64_t type = run->releasing ? DLOCK_EVENT_RELEASED : DLOCK_EVENT_ACQUIRED;
    struct dlock_event nowhere = {.data = NULL};

    for (int i = 0; i < DLOCK_FIELD_COUNT; i++)
        run->shot.field[i] = -1;
    run->shot.field[DLOCK_FIELD_TYPE] = type + (run->status != DLOCK_OK);
    run->shot.field[DLOCK_FIELD_STATUS] = run->status;
    run->shot.field[DLOCK_FIELD_TAG] = run->tag;
    run->shot.field[DLOCK_FIELD_LOCK_ID] = run->multi->id;
    run->shot.field[DLOCK_FIELD_OWNER] = run->owner;
    if (run->status == DLOCK_OK && !run->releasing)
        run->shot.field[DLOCK_FIELD_TOKEN] = run->token;
    if (!dli_events_keep(&run->multi->client->events, &run->shot.node))
        read_node(&run->shot.node, &nowhere);
}

/* ---- acquisitions under way */

static void enlist(struct dli_run *run)
{
    struct dli_multi *multi = run->multi;

    pthread_mutex_lock(&multi->client->mutex);
    run->sibling = multi->runs;
    multi->runs = run;
    pthread_mutex_unlock(&multi->client->mutex);
}

/* Take the run out of multi.runs: it cannot be cancelled any more. Returns whether it was cancelled. */
static int leave(struct dli_run *run)
{
    struct dli_run **link = &run->multi->runs;

    pthread_mutex_lock(&run->multi->client->mutex);
    while (*link && *link != run)
        link = &(*link)->sibling;
    if (*link)
        *link = run->sibling;
    pthread_mutex_unlock(&run->multi->client->mutex);
    return run->cancelled;
}

/* client.mutex held. NULL when owner has no acquisition under way. */
static struct dli_run *find(const struct dli_multi *multi, int64_t owner)
{
    struct dli_run *run = multi->runs;

    while (run && run->owner != owner)
        run = run->sibling;
    return run;
}

int dli_run_cancel(struct dli_multi *multi, int64_t owner)
{
    struct dli_run *run;

    pthread_mutex_lock(&multi->client->mutex);
    if ((run = find(multi, owner)))
        run->cancelled = 1;
    pthread_mutex_unlock(&multi->client->mutex);
    return run != NULL;
}

static int is_cancelled(struct dli_multi *multi, int64_t owner)
{
    const struct dli_run *run;
    int cancelled;

    pthread_mutex_lock(&multi->client->mutex);
    run = find(multi, owner);
    cancelled = run && run->cancelled;
    pthread_mutex_unlock(&multi->client->mutex);
    return cancelled;
}

/* ---- ends */

static void note(struct dli_run *run, dlock_status status)
{
    int32_t before = __atomic_load_n(&run->status, __ATOMIC_RELAXED);

    while (dli_multi_is_worse(before, status) &&
           !__atomic_compare_exchange_n(&run->status, &before, status, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        continue;
}

/* A member has ended; the last one starts the next step. 1: no thread takes that step, and the run is the caller's. */
static int member_ended(struct dli_run *run, int64_t now)
{
    return __atomic_sub_fetch(&run->pending, 1, __ATOMIC_ACQ_REL) == 0 &&
           !dli_loop_set_timer(run->multi->client->loops[0], &run->timer, now, now);
}

void dli_run_member_ended(struct dli_run *run, struct dli_entry *entry, dlock_status result, int64_t now)
{
    if (result == DLOCK_BUSY && run->patient) /* no time was left when it was requested */
        result = DLOCK_TIMED_OUT;
    note(run, result);
    if (!member_ended(run, now))
        return;
    run->next = entry->cut_off;
    entry->cut_off = run;
}

/* A release that is cut off is complete. An acquisition ends with DLOCK_CLOSED, and nothing of it is held any more. */
static void end_cut_off(struct dli_run *run)
{
    if (!run->releasing) {
        leave(run);
        note(run, DLOCK_CLOSED);
    }
    end(run);
}

/* client.mutex held: put these runs before those that are to be ended. */
static void add_cut_off(struct dli_client *client, struct dli_run *cut_off)
{
    struct dli_run *last = cut_off;

    while (last->next)
        last = last->next;
    last->next = client->cut_off;
    client->cut_off = cut_off;
}

/* The end of a run may free its multi-lock, and that may cut off others. The thread that ends runs already ends those, too. */
void dli_run_end(struct dli_run *cut_off)
{
    struct dli_client *client = cut_off->multi->client;
    struct dli_run *run;

    pthread_mutex_lock(&client->mutex);
    add_cut_off(client, cut_off);
    if (client->cutting) {
        pthread_mutex_unlock(&client->mutex);
        return;
    }
    client->cutting = 1;
    dli_client_ref(client);
    while ((run = client->cut_off)) {
        client->cut_off = run->next;
        pthread_mutex_unlock(&client->mutex);
        end_cut_off(run);
        pthread_mutex_lock(&client->mutex);
    }
    client->cutting = 0;
    pthread_mutex_unlock(&client->mutex);
    dli_client_unref(client);
}

/* ---- steps: no mutex held */

static int64_t time_left(const struct dli_run *run)
{
    int64_t now = dli_now();

    if (!run->patient || run->until <= now)
        return 0;
    return run->until == DLI_NEVER ? DLI_NEVER : run->until - now;
}

/* Acquire the next member. Its end may start the next step before this function returns, and may end the run. */
static dlock_status acquire_member(struct dli_run *run)
{
    struct dli_multi *multi = run->multi;
    const struct dli_member *member = &multi->member[run->at];
    int64_t owner = run->owner;
    struct dli_entry *entry;
    dlock_status status = dli_hold_to_acquire(member->entry, member->kind, owner, 1, &entry);

    if (status != DLOCK_OK)
        return status;
    dli_multi_ref(multi);
    run->pending = 1;
    status = dli_submit_acquire(entry, &member->terms, owner, time_left(run), 0, run);
    dli_entry_unref(entry);
    if (status == DLOCK_OK && is_cancelled(multi, owner)) /* dli_run_cancel may have come before the member waited */
        dli_multi_cancel_one(member, owner);
    dli_multi_unref(multi);
    return status;
}

/* End an acquisition that has the first taken members. These are all members, or the next one has failed. */
static void conclude(struct dli_run *run, size_t taken)
{
    if (leave(run))
        note(run, DLOCK_CANCELLED);
    if (run->status == DLOCK_OK && (run->at = dli_multi_held(run->multi, run->owner, taken, &run->token)) < taken)
        note(run, DLOCK_LOST); /* while later members were waited for */
    if (run->status == DLOCK_OK)
        dli_multi_together(run->multi);
    if (run->status != DLOCK_OK)
        dli_multi_give_up(run->multi, run->owner, taken);
    end(run);
}

void dli_run_taken(struct dli_run *run, dlock_status status, size_t blocked)
{
    int patient = run->patient || status == DLOCK_WOULD_BLOCK;
    int final = !patient || status == DLOCK_CANCELLED || status == DLOCK_CLOSED;

    if (status == DLOCK_OK) {
        conclude(run, run->multi->count);
        return;
    }
    if (!final && !is_cancelled(run->multi, run->owner) && (status = acquire_member(run)) == DLOCK_OK)
        return;
    run->at = blocked;
    note(run, status == DLOCK_WOULD_BLOCK ? DLOCK_CANCELLED : status);
    conclude(run, 0);
}

void dli_run_go_on(struct dli_timer *timer, int64_t now)
{
    struct dli_run *run = DLI_OBJECT(timer, struct dli_run, timer);

    (void)now;
    if (run->releasing) {
        end(run);
        return;
    }
    run->at += run->status == DLOCK_OK;
    if (run->status == DLOCK_OK && run->at < run->multi->count && !is_cancelled(run->multi, run->owner)) {
        dlock_status status = acquire_member(run);

        if (status == DLOCK_OK)
            return;
        note(run, status);
    }
    conclude(run, run->at);
}

/* A new run; its event is promised. DLOCK_OUT_OF_MEMORY, DLOCK_CLOSED. */
static dlock_status run_new(struct dli_multi *multi, int64_t owner, int64_t tag, struct dli_run **ret)
{
    struct dli_run *run = calloc(1, sizeof *run);

    if (!run)
        return DLOCK_OUT_OF_MEMORY;
    if (dli_events_promise(&multi->client->events) != DLOCK_OK) {
        free(run);
        return DLOCK_CLOSED;
    }
    dli_multi_ref(multi);
    run->multi = multi;
    run->owner = owner;
    run->tag = tag;
    run->timer.sort = DLI_TIMER_RUN;
    run->shot.node.read = read_node;
    dli_list_init(&run->timer.link);
    dli_list_init(&run->shot.node.link);
    *ret = run;
    return DLOCK_OK;
}

/* Free a run without an event. */
static void run_free(struct dli_run *run)
{
    dli_events_keep(&run->multi->client->events, NULL);
    dli_multi_unref(run->multi);
    free(run);
}

dlock_status dli_run_acquire(struct dli_multi *multi, int64_t owner, int64_t wait, int64_t tag)
{
    struct dli_run *run;
    dlock_status status = run_new(multi, owner, tag, &run);

    if (status != DLOCK_OK)
        return status;
    run->until = dli_later(dli_now(), wait);
    run->patient = wait > 0;
    run->at = dli_multi_resume(multi, owner);
    enlist(run);
    status = run->at > 0 ? DLOCK_WOULD_BLOCK : dli_multi_submit_at_once(multi, owner, run);
    if (status == DLOCK_WOULD_BLOCK)
        status = acquire_member(run);
    if (status != DLOCK_OK) {
        leave(run);
        dli_multi_give_up(multi, owner, run->at);
        run_free(run);
    }
    return status;
}

dlock_status dli_run_release(struct dli_multi *multi, int64_t owner, int64_t tag)
{
    struct dli_run *run;
    dlock_status made = run_new(multi, owner, tag, &run);
    int64_t now = dli_now();

    if (made != DLOCK_OK)
        return made;
    run->releasing = 1;
    run->pending = (int64_t)multi->count + 1;
    for (size_t i = multi->count; i-- > 0;) {
        const struct dli_member *member = &multi->member[i];
        struct dli_entry *entry = dli_hold_find(member->entry, member->kind, owner);
        dlock_status status = DLOCK_NOT_HELD;

        if (entry) {
            do
                status = dli_submit_release(entry, &member->terms, owner, 0, run);
            while (dli_hold_again(&entry, owner, status));
            dli_entry_unref(entry);
        }
        note(run, status);
        if (status != DLOCK_OK)
            member_ended(run, now);
    }
    if (member_ended(run, now))
        dli_run_end(run);
    return DLOCK_OK;
}
