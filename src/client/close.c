/*
 * close.c: the end of a client's work: by a caller that waits, or by the client's own threads. Mutexes: see core.h.
 */
#include "core.h"

#include <stdio.h>

#include "sys/sys.h"

/*
 * A close ends machine after machine while fewer than WINDOW of those that it has ended are busy with their release: more at a
 * time would only wait at the server, for longer than a command may take. When LOW are left, it goes on. It also goes on after
 * STALL microseconds: a server that does not answer must not keep it from others.
 */
enum { WINDOW = 4096, LOW = 2048, STALL = 100 * DLI_MS };

/* Waits end first: a lock that this client releases here must not go to another waiter of this client. */
static void end_waits(struct dli_entry *entry, int64_t now)
{
    (void)now;
    entry->m.closed = 1;
    dli_mutex_end_waiting(&entry->m, DLOCK_CLOSED, 0);
}

static void close_machine(struct dli_entry *entry, int64_t now)
{
    dli_mutex_close(&entry->m, now);
    if (entry->busy || dli_mutex_idle(&entry->m))
        return;
    entry->busy = 1;
    __atomic_add_fetch(&entry->client->busy, 1, __ATOMIC_RELAXED);
}

/* The number of machines that still have something to send to the server, by a walk over all. */
static int64_t walk(struct dli_client *client)
{
    int64_t busy = 0;

    pthread_mutex_lock(&client->mutex);
    for (struct dli_link *link = client->entries.next; link != &client->entries; link = link->next) {
        struct dli_entry *entry = DLI_OBJECT(link, struct dli_entry, link);

        dli_short_lock(&entry->mutex);
        busy += !dli_mutex_idle(&entry->m);
        dli_short_unlock(&entry->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
    return busy;
}

/*
 * The same. A walk takes long when there are many, so it is only made when all that the close has found busy are idle: a late
 * message may have made others busy.
 */
static int64_t busy_entries(struct dli_client *client)
{
    int64_t busy = __atomic_load_n(&client->busy, __ATOMIC_ACQUIRE);

    return busy > 0 ? busy : walk(client);
}

/* Wait until the last thread has ended the event queue, or until deadline. */
static void wait_for_queue(struct dli_client *client, int64_t deadline)
{
    for (;;) {
        uint32_t seen = __atomic_load_n(&client->progress, __ATOMIC_ACQUIRE);

        if (dli_events_ended(&client->events) || dli_now() >= deadline)
            return;
        dli_futex_wait(&client->progress, seen, deadline);
    }
}

/* ---- ending the machines */

/* Whether all have been ended, by whoever. */
static int all_ended(const struct dli_client *client)
{
    return __atomic_load_n(&client->ending, __ATOMIC_ACQUIRE) == DLI_ENDING_DONE;
}

/* The next step is the caller's: 1, and *last is where it begins. 0: there is none, or another thread does it. */
static int begin_step(struct dli_client *client, struct dli_entry **last)
{
    int mine;

    pthread_mutex_lock(&client->mutex);
    mine = client->ending == DLI_ENDING_PAUSED;
    if (mine) {
        client->ending = DLI_ENDING_SOME;
        *last = client->ended;
        client->ended = NULL;
    }
    pthread_mutex_unlock(&client->mutex);
    return mine;
}

static void end_step(struct dli_client *client, struct dli_entry *last)
{
    pthread_mutex_lock(&client->mutex);
    client->ended = last;
    __atomic_store_n(&client->ending, last ? DLI_ENDING_PAUSED : DLI_ENDING_DONE, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&client->mutex);
}

/* End machines until so many are busy. */
static void end_some(struct dli_client *client, int64_t most)
{
    struct dli_entry *last;

    if (!begin_step(client, &last))
        return;
    while (dli_client_some(client, &last, close_machine) && __atomic_load_n(&client->busy, __ATOMIC_RELAXED) < most)
        continue;
    end_step(client, last);
}

static int64_t busy_now(const struct dli_client *client)
{
    return __atomic_load_n(&client->busy, __ATOMIC_ACQUIRE);
}

/* End all, and wait until they are idle. DLOCK_TIMED_OUT at deadline. */
static dlock_status end_all(struct dli_client *client, int64_t deadline)
{
    int64_t most = WINDOW;

    for (;;) {
        uint32_t seen = __atomic_load_n(&client->progress, __ATOMIC_ACQUIRE);
        int64_t until = deadline;

        end_some(client, most);
        if (all_ended(client) && busy_entries(client) == 0)
            return DLOCK_OK;
        if (dli_now() >= deadline)
            return DLOCK_TIMED_OUT;
        if (!all_ended(client))
            until = dli_earlier(deadline, dli_now() + STALL);
        dli_futex_wait(&client->progress, seen, until);
        most = WINDOW;
        if (!all_ended(client) && __atomic_load_n(&client->progress, __ATOMIC_ACQUIRE) == seen)
            most = busy_now(client) + WINDOW;
    }
}

static void stop_loops(struct dli_client *client)
{
    for (int i = 0; i < client->loop_count; i++) {
        __atomic_store_n(&client->loops[i]->stop, 1, __ATOMIC_RELEASE);
        dli_wake_set(client->loops[i]->wake_fd);
    }
}

static void tell_closer(struct dli_client *client)
{
    __atomic_add_fetch(&client->progress, 1, __ATOMIC_RELEASE);
    dli_futex_wake(&client->progress, -1);
    if (__atomic_load_n(&client->leave_at, __ATOMIC_ACQUIRE))
        dli_wake_set(client->loops[0]->wake_fd);
}

void dli_client_progress(struct dli_entry *entry)
{
    struct dli_client *client = entry->client;
    int64_t busy = __atomic_sub_fetch(&client->busy, entry->busy, __ATOMIC_ACQ_REL);

    entry->busy = 0;
    if (busy == 0 || busy == LOW)
        tell_closer(client);
}

/*
 * Lanes are shut and timers are gone. This visit ends all waits that depended on them. Any other waiter has an
 * exchange of its own under way.
 */
static void end_queue(struct dli_client *client)
{
    struct dli_entry *last;

    if (begin_step(client, &last)) { /* the close was not waited for */
        if (last)
            dli_entry_unref(last);
        end_step(client, NULL);
    }
    dli_client_each(client, close_machine);
    dli_events_end(&client->events);
}

void dli_client_thread_ended(struct dli_client *client)
{
    int last;

    pthread_mutex_lock(&client->mutex);
    last = --client->threads == 0;
    pthread_mutex_unlock(&client->mutex);
    if (last)
        end_queue(client);
    __atomic_add_fetch(&client->progress, 1, __ATOMIC_RELEASE);
    dli_futex_wake(&client->progress, -1);
}

/* Loop 0: the next step of ending the machines. Returns when it is due, at the latest; DLI_NEVER: all have been ended. */
static int64_t end_next(struct dli_client *client, int64_t now)
{
    int64_t busy = busy_now(client);

    if (all_ended(client))
        return DLI_NEVER;
    if (busy <= LOW || now >= client->hurry_at) {
        end_some(client, busy <= LOW ? WINDOW : busy + WINDOW);
        client->hurry_at = now + STALL;
    }
    return all_ended(client) ? DLI_NEVER : client->hurry_at;
}

int64_t dli_client_leaving(struct dli_client *client, int64_t now)
{
    int64_t at = __atomic_load_n(&client->leave_at, __ATOMIC_ACQUIRE), next;
    char text[DLI_EVENT_TEXT];

    if (at == 0 || __atomic_load_n(&client->loops[0]->stop, __ATOMIC_ACQUIRE))
        return DLI_NEVER;
    next = end_next(client, now);
    if (!all_ended(client) || busy_entries(client) > 0) {
        if (now < at)
            return dli_earlier(at, next);
        snprintf(text, sizeof text, DLI_LEFT, client->store->text);
        dli_events_log(&client->events, DLOCK_TIMED_OUT, text);
    }
    stop_loops(client);
    return now;
}

/* Refuse new calls. Returns whether the threads run. */
static int refuse_new_calls(struct dli_client *client)
{
    int started;

    pthread_mutex_lock(&client->mutex);
    __atomic_store_n(&client->closed, 1, __ATOMIC_RELEASE);
    started = client->started;
    pthread_mutex_unlock(&client->mutex);
    if (!started && client->store->ops->unused)
        client->store->ops->unused(client->store);
    return started;
}

void dli_client_leave(struct dli_client *client, int64_t deadline)
{
    int started = refuse_new_calls(client);

    dli_client_each(client, end_waits);
    if (!started) {
        dli_client_each(client, close_machine);
        dli_events_end(&client->events);
        return;
    }
    __atomic_store_n(&client->leave_at, deadline > 0 ? deadline : 1, __ATOMIC_RELEASE);
    dli_wake_set(client->loops[0]->wake_fd);
}

dlock_status dli_client_shut(struct dli_client *client, int release, int64_t deadline)
{
    dlock_status status = DLOCK_OK;
    int started = refuse_new_calls(client);

    if (!release && started)
        stop_loops(client);
    dli_client_each(client, end_waits);
    if (release && started) {
        status = end_all(client, deadline);
        stop_loops(client);
        wait_for_queue(client, deadline);
    } else {
        dli_client_each(client, close_machine);
    }
    if (!started)
        dli_events_end(&client->events);
    return status;
}
