/*
 * loan.c: one owner in two threads. One thread waits for the lock; another releases it as soon as it is granted, before
 * the first has woken up. The first is told that it has lost the lock, or that it has it; nobody waits for ever.
 *
 *     loan URL ROUNDS
 *
 * Prints "lost N" (rounds in which the release came first). Exits with 1 and a sentence if a rule is broken.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "dlock.h"

enum { LENDER = 1, BORROWER = 2, LONG_MS = 20000 };

static dlock_client *client;
static dlock_lock *lock;
static dlock_error *why;
static dlock_event *event;

static _Noreturn void wrong(const char *what, int64_t number)
{
    printf("%s: %" PRId64 "\n", what, number);
    exit(1);
}

static void *run_borrower(void *argument)
{
    dlock_status *status = argument;
    int64_t token = 0;

    *status = dlock_lock_acquire(lock, BORROWER, LONG_MS, &token, NULL);
    if (*status != DLOCK_OK && *status != DLOCK_LOST)
        wrong("the borrower's acquire", *status);
    return NULL;
}

/* Until the event of a release with this tag has come. */
static void await_event(int64_t tag)
{
    int64_t field[DLOCK_FIELD_COUNT];
    size_t count;

    do {
        if (dlock_client_next(client, LONG_MS, event, why) != DLOCK_OK)
            wrong("no event of a release", tag);
        dlock_event_unpack(event, field, DLOCK_FIELD_COUNT, &count, why);
    } while (field[DLOCK_FIELD_TAG] != tag);
}

/* Release what the borrower has, in one of three ways. */
static void release_borrowed(int64_t round)
{
    dlock_status status;

    do {
        if (round % 3 == 0)
            status = dlock_lock_release(lock, BORROWER, why);
        else if (round % 3 == 1)
            status = dlock_lock_begin_release(lock, BORROWER, round, why);
        else
            status = dlock_lock_submit_release(lock, BORROWER, round, why);
    } while (status == DLOCK_NOT_HELD);
    if (round % 3 == 2 ? status == DLOCK_OK : status == DLOCK_WOULD_BLOCK)
        await_event(round);
    else if (status != DLOCK_OK)
        wrong("the release of what was borrowed", status);
}

/* 1: the borrower was told that the lock was lost. */
static int lend(int64_t round)
{
    dlock_status status = DLOCK_OK;
    pthread_t borrower;
    int64_t token;
    int32_t state;

    if (dlock_lock_acquire(lock, LENDER, LONG_MS, &token, why) != DLOCK_OK)
        wrong(dlock_error_message(why), round);
    if (pthread_create(&borrower, NULL, run_borrower, &status))
        wrong("no thread", round);
    while (dlock_lock_state(lock, BORROWER, &state, why) == DLOCK_OK && state != DLOCK_STATE_WAITING)
        sched_yield();
    if (dlock_lock_release(lock, LENDER, why) != DLOCK_OK)
        wrong(dlock_error_message(why), round);
    release_borrowed(round);
    pthread_join(borrower, NULL);
    return status == DLOCK_LOST;
}

int main(int count, char **words)
{
    int64_t rounds, lost = 0;

    if (count != 3)
        wrong("URL ROUNDS", count);
    rounds = strtoll(words[2], NULL, 10);
    why = dlock_error_new();
    event = dlock_event_new();
    if (dlock_client_open(words[1], NULL, &client, why) != DLOCK_OK ||
        dlock_lock_new(client, DLOCK_KIND_MUTEX, "loan", 4, NULL, &lock, why) != DLOCK_OK)
        wrong(dlock_error_message(why), 0);
    for (int64_t round = 1; round <= rounds; round++)
        lost += lend(round);
    dlock_lock_free(lock);
    dlock_client_free(client);
    dlock_event_free(event);
    dlock_error_free(why);
    printf("lost %" PRId64 "\n", lost);
    return 0;
}
