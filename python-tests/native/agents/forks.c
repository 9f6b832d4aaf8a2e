/*
 * forks.c: an unused client, threads that make and free locks of it and read its numbers, and forks in between. Every
 * child owns the client, and no child waits for a mutex that a thread of its parent held.
 *
 *     forks URL FORKS
 *
 * SIGALRM ends a child that hangs; the program then prints a sentence and exits with 1.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlock.h"

enum { THREADS = 3, READERS = 2, CHILD_SECONDS = 10, ROOM = 65536 };

static dlock_client *client;
static int over; /* atomic */

static int use(const char *name, size_t size)
{
    dlock_lock *lock = NULL;
    int32_t state = -1;

    if (dlock_lock_new(client, DLOCK_KIND_MUTEX, name, size, NULL, &lock, NULL) != DLOCK_OK)
        return 1;
    if (dlock_lock_state(lock, 1, &state, NULL) != DLOCK_OK || state != DLOCK_STATE_NONE)
        return 1;
    dlock_lock_free(lock);
    return 0;
}

static void *run(void *name)
{
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        if (use(name, 1))
            exit(1);
    return NULL;
}

/* The counters, mostly, and now and then the text. */
static void *read_numbers(void *room)
{
    int64_t value[DLOCK_STAT_COUNT];
    size_t size;

    for (unsigned i = 0; !__atomic_load_n(&over, __ATOMIC_RELAXED); i++) {
        if (dlock_client_stats(client, value, DLOCK_STAT_COUNT, NULL, NULL) != DLOCK_OK)
            exit(1);
        if (i % 64 == 0 && dlock_client_metrics(client, room, ROOM, &size, NULL) != DLOCK_OK)
            exit(1);
    }
    return NULL;
}

/* In a child: it has a client of its own, which works. */
static int acquires(void)
{
    dlock_lock *lock = NULL;

    if (dlock_lock_new(client, DLOCK_KIND_MUTEX, "child", 5, NULL, &lock, NULL) != DLOCK_OK)
        return 1;
    if (dlock_lock_acquire(lock, 1, 5000, NULL, NULL) != DLOCK_OK || dlock_lock_release(lock, 1, NULL) != DLOCK_OK)
        return 1;
    dlock_lock_free(lock);
    return 0;
}

int main(int count, char **words)
{
    static char names[] = "aab"; /* two threads use the same lock */
    static char room[READERS][ROOM];
    pthread_t thread[THREADS + READERS];
    int status = 0;

    if (count != 3 || dlock_client_open(words[1], NULL, &client, NULL) != DLOCK_OK)
        return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, run, &names[i]);
    for (int i = 0; i < READERS; i++)
        pthread_create(&thread[THREADS + i], NULL, read_numbers, room[i]);
    for (long i = strtol(words[2], NULL, 10); i > 0 && status == 0; i--) {
        pid_t child = fork();

        if (child == 0) {
            alarm(CHILD_SECONDS);
            _exit(use("a", 1) || use("b", 1) || dlock_client_wake(client, NULL) != DLOCK_OK || acquires());
        }
        waitpid(child, &status, 0);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS + READERS; i++)
        pthread_join(thread[i], NULL);
    dlock_client_free(client);
    if (status)
        printf("a child ended with %d\n", status);
    return status != 0;
}
