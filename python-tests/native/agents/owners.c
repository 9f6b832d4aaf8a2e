/*
 * owners.c: threads that share one owner of a semaphore.
 *
 *     owners URL KIND THREADS ROUNDS PERMITS
 *     owners URL KIND THREADS ROUNDS cancel
 *
 * KIND is "semaphore" or "permit". The owner holds one permit all the time. Threads acquire and release, each as often as the
 * others, and another one asks what the owner has. Prints "failed N wrong N held N available N": calls that failed, answers that
 * deny the permit, and what is left at the end.
 *
 * cancel: one thread waits for long, the others again and again for a moment. Their waits are cancelled until none is said to be
 * left. Prints "missed N": how often the long one went on.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dlock.h"

enum { THREADS = 64, LONG = 5000 };

static dlock_lock *lock;
static dlock_client *client;
static pthread_t thread[THREADS];
static int threads, rounds, has_leases;
static int failed, over; /* atomics */

static int is_over(void)
{
    return __atomic_load_n(&over, __ATOMIC_ACQUIRE);
}

static void *work(void *argument)
{
    for (int i = 0; i < rounds; i++)
        if (dlock_lock_acquire(lock, 1, LONG, NULL, NULL) || dlock_lock_release(lock, 1, NULL))
            __atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
    return argument;
}

/* The answers that deny that the owner holds something: 0 to 5. */
static int denials(void)
{
    int32_t state = DLOCK_STATE_NONE;
    int64_t token, count = 0;
    int wrong = dlock_lock_token(lock, 1, &token, NULL) != DLOCK_OK;
    char id[33];

    dlock_lock_state(lock, 1, &state, NULL);
    dlock_lock_hold_count(lock, 1, &count, NULL);
    wrong += state != DLOCK_STATE_HELD && state != DLOCK_STATE_AT_RISK;
    wrong += count < 1;
    if (has_leases)
        wrong += (dlock_semaphore_permit(lock, 1, 0, id, sizeof id, NULL) != DLOCK_OK) +
                 (dlock_lock_extend(lock, 1, 2L * LONG, NULL) != DLOCK_OK);
    return wrong;
}

static void *ask(void *argument)
{
    int *wrong = argument;

    while (!is_over())
        *wrong += denials();
    return NULL;
}

static int begin(void *(*what)(void *))
{
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, what, NULL))
            return -1;
    return 0;
}

static void end(void)
{
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
}

static int share(void)
{
    int64_t held = -1, available = -1;
    pthread_t asker;
    int wrong = 0;

    if (dlock_lock_acquire(lock, 1, LONG, NULL, NULL) || pthread_create(&asker, NULL, ask, &wrong) || begin(work))
        return 4;
    end();
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(asker, NULL);
    failed += dlock_lock_release(lock, 1, NULL) != DLOCK_OK;
    dlock_lock_hold_count(lock, 1, &held, NULL);
    dlock_semaphore_available(lock, &available, NULL);
    printf("failed %d wrong %d held %" PRId64 " available %" PRId64 "\n", failed, wrong, held, available);
    return 0;
}

static void *wait_long(void *argument)
{
    dlock_lock_acquire(lock, 1, -1, NULL, NULL);
    return argument;
}

static void *wait_briefly(void *argument)
{
    while (!is_over())
        dlock_lock_acquire(lock, 1, 0, NULL, NULL);
    return argument;
}

/* 1: the long wait went on. -1: there is no thread. */
static int missed_one(void)
{
    int32_t state = DLOCK_STATE_NONE;
    pthread_t patient;
    int missed;

    __atomic_store_n(&over, 0, __ATOMIC_RELEASE);
    if (pthread_create(&patient, NULL, wait_long, NULL))
        return -1;
    while (state != DLOCK_STATE_WAITING)
        dlock_lock_state(lock, 1, &state, NULL);
    if (begin(wait_briefly))
        return -1;
    while (dlock_lock_cancel(lock, 1, NULL) == DLOCK_OK)
        ;
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    end();
    missed = dlock_lock_cancel(lock, 1, NULL) == DLOCK_OK;
    pthread_join(patient, NULL);
    return missed;
}

static int cancel(void)
{
    int missed = 0, one = 0;

    if (dlock_lock_acquire(lock, 2, LONG, NULL, NULL))
        return 4;
    for (int i = 0; i < rounds && one >= 0; i++)
        missed += one = missed_one();
    printf("missed %d\n", missed);
    return dlock_lock_release(lock, 2, NULL) == DLOCK_OK ? 0 : 5;
}

int main(int argc, char **argv)
{
    static const char name[] = "owners";
    int code, cancels;

    if (argc != 6 || (threads = atoi(argv[3])) < 1 || threads > THREADS)
        return 2;
    rounds = atoi(argv[4]);
    has_leases = strcmp(argv[2], "permit") == 0;
    cancels = strcmp(argv[5], "cancel") == 0;
    if (dlock_client_open(argv[1], NULL, &client, NULL) ||
        dlock_lock_new(client, has_leases ? DLOCK_KIND_PERMIT_SEMAPHORE : DLOCK_KIND_SEMAPHORE, name, sizeof name - 1,
                       NULL, &lock, NULL) ||
        dlock_semaphore_set(lock, cancels ? 1 : atoi(argv[5]), NULL))
        return 3;
    code = cancels ? cancel() : share();
    dlock_client_close(client, LONG, NULL);
    dlock_client_free(client);
    dlock_lock_free(lock);
    return code;
}
