/*
 * cancelled.c: pthread_cancel comes before or inside of a call of the library. The call is carried out whole, and the client works on.
 *
 *     cancelled URL
 *
 * Prints what went wrong, and exits with 1. SIGALRM ends it when a mutex stays locked.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dlock.h"

enum { SECONDS = 20, ROUNDS = 200 };

static dlock_client *client;
static dlock_lock *lock;
static int waiting; /* atomic */

/* The cancel is already there. All that it may not interrupt: a wake, a grant and its release. */
static void *cancelled_before(void *carried_out)
{
    pthread_cancel(pthread_self());
    *(int *)carried_out = dlock_client_wake(client, NULL) == DLOCK_OK &&
                          dlock_lock_acquire(lock, 1, 5000, NULL, NULL) == DLOCK_OK &&
                          dlock_lock_release(lock, 1, NULL) == DLOCK_OK;
    pthread_testcancel();
    return NULL;
}

static void *cancelled_inside(void *status)
{
    __atomic_store_n(&waiting, 1, __ATOMIC_RELEASE);
    *(dlock_status *)status = dlock_lock_acquire(lock, 2, 50, NULL, NULL);
    pthread_testcancel();
    return NULL;
}

static int fails(const char *what)
{
    puts(what);
    return 1;
}

static int before(void)
{
    pthread_t thread;
    void *end = NULL;
    int carried_out = 0;

    pthread_create(&thread, NULL, cancelled_before, &carried_out);
    pthread_join(thread, &end);
    if (!carried_out)
        return fails("a call was not carried out");
    return end == PTHREAD_CANCELED ? 0 : fails("the thread was not cancelled behind the call");
}

/* It waits for the lock that owner 1 has. */
static int inside(void)
{
    dlock_status status = DLOCK_OK;
    pthread_t thread;
    void *end = NULL;

    __atomic_store_n(&waiting, 0, __ATOMIC_RELAXED);
    pthread_create(&thread, NULL, cancelled_inside, &status);
    while (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
        ;
    pthread_cancel(thread);
    pthread_join(thread, &end);
    if (status != DLOCK_TIMED_OUT)
        return fails("the wait did not last its time");
    return end == PTHREAD_CANCELED ? 0 : fails("the thread was not cancelled behind the wait");
}

int main(int count, char **words)
{
    int wrong = 0;

    alarm(SECONDS);
    if (count != 2 || dlock_client_open(words[1], NULL, &client, NULL) != DLOCK_OK ||
        dlock_lock_new(client, DLOCK_KIND_MUTEX, "a", 1, NULL, &lock, NULL) != DLOCK_OK)
        return 2;
    for (int i = 0; i < ROUNDS && !wrong; i++)
        wrong = before();
    if (dlock_lock_acquire(lock, 1, 1000, NULL, NULL) != DLOCK_OK)
        wrong = fails("the lock is not free");
    for (int i = 0; i < ROUNDS / 20 && !wrong; i++)
        wrong = inside();
    if (dlock_lock_release(lock, 1, NULL) != DLOCK_OK || dlock_client_close(client, 5000, NULL) != DLOCK_OK)
        wrong = fails("the client does not work any more");
    dlock_lock_free(lock);
    dlock_client_free(client);
    return wrong;
}
