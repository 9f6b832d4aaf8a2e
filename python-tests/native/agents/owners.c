/*
 * owners.c: threads that share one owner of a semaphore acquire and release it, each as often as the others.
 *
 *     owners URL KIND THREADS ROUNDS
 *
 * KIND is "semaphore" or "permit". Prints "failed N held N available N": calls that failed, and what is left at the end of the 100
 * permits.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dlock.h"

enum { THREADS = 64, PERMITS = 100, LONG = 5000 };

static dlock_lock *lock;
static int rounds, failed; /* failed is atomic */

static void *work(void *argument)
{
    for (int i = 0; i < rounds; i++)
        if (dlock_lock_acquire(lock, 1, LONG, NULL, NULL) || dlock_lock_release(lock, 1, NULL))
            __atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
    return argument;
}

int main(int argc, char **argv)
{
    static const char name[] = "owners";
    int threads = argc == 5 ? atoi(argv[3]) : 0;
    int64_t held = -1, available = -1;
    pthread_t thread[THREADS];
    dlock_client *client;
    int32_t kind;

    if (threads < 1 || threads > THREADS)
        return 2;
    rounds = atoi(argv[4]);
    kind = strcmp(argv[2], "permit") ? DLOCK_KIND_SEMAPHORE : DLOCK_KIND_PERMIT_SEMAPHORE;
    if (dlock_client_open(argv[1], NULL, &client, NULL) ||
        dlock_lock_new(client, kind, name, sizeof name - 1, NULL, &lock, NULL) ||
        dlock_semaphore_set(lock, PERMITS, NULL))
        return 3;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, work, NULL))
            return 4;
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    dlock_lock_hold_count(lock, 1, &held, NULL);
    dlock_semaphore_available(lock, &available, NULL);
    printf("failed %d held %" PRId64 " available %" PRId64 "\n", failed, held, available);
    dlock_client_close(client, LONG, NULL);
    dlock_client_free(client);
    dlock_lock_free(lock);
    return 0;
}
