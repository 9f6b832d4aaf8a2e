/*
 * storm_child.c: calls of storm.c with NULLs, and the calls of a forked process on its parent's clients.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storm.h"

static void refused(struct self *self, dlock_status status)
{
    if (storm_said(self, status) != DLOCK_INVALID_ARGUMENT)
        storm_wrong("nothing was not refused", status);
}

static void no_lock(struct self *self)
{
    dlock_error *why = self->why;

    refused(self, dlock_lock_acquire(NULL, 1, 0, NULL, why));
    refused(self, dlock_lock_release(NULL, 1, why));
    refused(self, dlock_lock_acquire_local(NULL, 1, NULL, why));
    refused(self, dlock_lock_release_local(NULL, 1, why));
    refused(self, dlock_lock_submit_acquire(NULL, 1, 0, 1, why));
    refused(self, dlock_lock_submit_release(NULL, 1, 1, why));
    refused(self, dlock_lock_begin_acquire(NULL, 1, 0, 1, NULL, why));
    refused(self, dlock_lock_begin_release(NULL, 1, 1, why));
    refused(self, dlock_lock_cancel(NULL, 1, why));
    refused(self, dlock_lock_extend(NULL, 1, 1000, why));
    refused(self, dlock_lock_submit_extend(NULL, 1, 1000, 1, why));
    refused(self, dlock_lock_force_release(NULL, why));
    refused(self, dlock_lock_submit_force_release(NULL, 1, why));
    refused(self, dlock_lock_state(NULL, 1, NULL, why));
    refused(self, dlock_lock_remaining_ms(NULL, 1, NULL, why));
    refused(self, dlock_lock_token(NULL, 1, NULL, why));
    refused(self, dlock_lock_hold_count(NULL, 1, NULL, why));
    refused(self, dlock_lock_inspect(NULL, NULL, why));
    refused(self, dlock_lock_submit_inspect(NULL, 1, why));
    refused(self, dlock_lock_export_grant(NULL, 1, NULL, 0, NULL, why));
    refused(self, dlock_lock_adopt_grant(NULL, 1, NULL, 0, NULL, why));
    refused(self, dlock_lock_submit_adopt_grant(NULL, 1, NULL, 0, 1, why));
    refused(self, dlock_lock_close_gate(NULL, 1, why));
    refused(self, dlock_lock_open_gate(NULL, why));
    refused(self, dlock_lock_submit_open_gate(NULL, 1, why));
    dlock_lock_free(NULL);
}

static void no_counter(struct self *self)
{
    dlock_error *why = self->why;

    refused(self, dlock_semaphore_set(NULL, 1, why));
    refused(self, dlock_semaphore_submit_set(NULL, 1, 1, why));
    refused(self, dlock_semaphore_add(NULL, 1, NULL, why));
    refused(self, dlock_semaphore_submit_add(NULL, 1, 1, why));
    refused(self, dlock_semaphore_drain(NULL, NULL, why));
    refused(self, dlock_semaphore_submit_drain(NULL, 1, why));
    refused(self, dlock_semaphore_available(NULL, NULL, why));
    refused(self, dlock_semaphore_submit_available(NULL, 1, why));
    refused(self, dlock_semaphore_permit(NULL, 1, 0, NULL, 0, why));
    refused(self, dlock_latch_set(NULL, 1, why));
    refused(self, dlock_latch_submit_set(NULL, 1, 1, why));
    refused(self, dlock_latch_count_down(NULL, 1, NULL, why));
    refused(self, dlock_latch_submit_count_down(NULL, 1, 1, why));
    refused(self, dlock_latch_count(NULL, NULL, why));
    refused(self, dlock_latch_submit_count(NULL, 1, why));
}

static void no_txn(struct self *self)
{
    dlock_error *why = self->why;

    refused(self, dlock_txn_new(NULL, NULL, why));
    refused(self, dlock_txn_watch(NULL, NULL, 0, why));
    refused(self, dlock_txn_submit_watch(NULL, "k", 1, 1, why));
    refused(self, dlock_txn_get(NULL, "k", 1, NULL, 0, NULL, why));
    refused(self, dlock_txn_submit_get(NULL, "k", 1, 1, why));
    refused(self, dlock_txn_set(NULL, "k", 1, NULL, 0, -1, why));
    refused(self, dlock_txn_incr(NULL, "k", 1, 1, why));
    refused(self, dlock_txn_delete(NULL, "k", 1, why));
    refused(self, dlock_txn_commit(NULL, why));
    refused(self, dlock_txn_submit_commit(NULL, 1, why));
    refused(self, dlock_txn_rollback(NULL, why));
    refused(self, dlock_txn_submit_rollback(NULL, 1, why));
    dlock_txn_free(NULL);
}

static void no_client(struct self *self)
{
    dlock_client *client = NULL;
    dlock_lock *lock = NULL;
    dlock_error *why = self->why;

    refused(self, dlock_client_open(NULL, NULL, &client, why));
    refused(self, dlock_client_open("redis://h", NULL, NULL, why));
    refused(self, dlock_client_close(NULL, 0, why));
    refused(self, dlock_client_submit_close(NULL, 0, why));
    refused(self, dlock_client_fd(NULL, NULL, why));
    refused(self, dlock_client_next(NULL, 0, NULL, why));
    refused(self, dlock_client_wake(NULL, why));
    refused(self, dlock_client_stats(NULL, NULL, 0, NULL, why));
    refused(self, dlock_client_ping(NULL, 0, why));
    refused(self, dlock_client_provision(NULL, 0, why));
    refused(self, dlock_client_submit_provision(NULL, 0, 1, why));
    refused(self, dlock_client_check(NULL, 0, NULL, why));
    refused(self, dlock_client_submit_check(NULL, 0, 1, why));
    refused(self, dlock_client_finding(NULL, 0, NULL, why));
    refused(self, dlock_lock_new(NULL, DLOCK_KIND_MUTEX, "a", 1, NULL, &lock, why));
    refused(self, dlock_lock_new_multi(NULL, NULL, 0, &lock, why));
    refused(self, dlock_options_set(NULL, NULL, NULL, why));
    refused(self, dlock_options_get(NULL, NULL, NULL, 0, NULL, why));
    refused(self, dlock_event_unpack(NULL, NULL, 0, NULL, why));
    refused(self, dlock_event_data(NULL, NULL, 0, NULL, why));
    dlock_client_free(NULL);
}

void storm_nothing(struct self *self)
{
    switch (storm_draw(self, 4)) {
    case 0:
        no_lock(self);
        break;
    case 1:
        no_counter(self);
        break;
    case 2:
        no_txn(self);
        break;
    default:
        no_client(self);
    }
}

/* ---- a forked process */

/* A client that was unused at the fork is the child's own. The child only checks places that no thread held for
 * writing. */
static void child_lock(struct self *self, struct place *place, int used)
{
    dlock_status status;

    if (pthread_rwlock_tryrdlock(&place->mutex) || !place->lock)
        return;
    status = dlock_lock_acquire_local(place->lock, 1, NULL, self->why);
    if (used && status != DLOCK_FORKED)
        storm_wrong("a child that may use its parent's lock", status);
    dlock_lock_release(place->lock, 1, self->why);
    dlock_lock_free(place->lock);
}

static void child_side(struct self *self, struct side *side)
{
    int used;

    if (pthread_rwlock_tryrdlock(&side->mutex) || !side->client)
        return;
    used = dlock_client_ping(side->client, 0, self->why) == DLOCK_FORKED;
    if (used && dlock_client_next(side->client, 0, self->event, self->why) != DLOCK_FORKED)
        storm_wrong("a child that reads its parent's events", dlock_error_code(self->why));
    for (int i = 0; used && i < PLACES; i++)
        child_lock(self, &side->place[i], used);
    dlock_client_free(side->client);
}

void storm_fork(struct self *self)
{
    int status = 0;
    pid_t child = fork();

    if (child < 0)
        storm_wrong("no child", child);
    if (child == 0) {
        alarm(60);
        for (int i = 0; i < SIDES; i++)
            child_side(self, &storm_side[i]);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        storm_wrong("a child that did not end well", status);
}
