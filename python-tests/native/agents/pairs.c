/*
 * pairs.c: so many pairs of acquire and release of one mutex, for a count of instructions.
 *
 *     pairs URL COUNT THREADS [OPTION=VALUE...]
 *
 * Each of THREADS threads makes COUNT pairs of a lock with these options. Exits with 1 and a sentence when a call fails.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dlock.h"

enum { MOST = 64 };

static dlock_lock *lock;
static long count;

static void good(dlock_status status)
{
    if (status == DLOCK_OK)
        return;
    printf("%s\n", dlock_status_name(status));
    exit(1);
}

static void *run(void *unused)
{
    (void)unused;
    for (long i = 0; i < count; i++) {
        good(dlock_lock_acquire(lock, 0, -1, NULL, NULL));
        good(dlock_lock_release(lock, 0, NULL));
    }
    return NULL;
}

int main(int number, char **words)
{
    pthread_t thread[MOST];
    int threads = number >= 4 ? atoi(words[3]) : 0;
    dlock_options *options = dlock_options_new();
    dlock_client *client;

    if (threads < 1 || threads > MOST)
        return 2;
    count = atol(words[2]);
    for (int i = 4; i < number; i++) {
        char *value = strchr(words[i], '=');

        if (!value)
            return 2;
        *value = '\0';
        good(dlock_options_set(options, words[i], value + 1, NULL));
    }
    good(dlock_client_open(words[1], NULL, &client, NULL));
    good(dlock_lock_new(client, DLOCK_KIND_MUTEX, "pairs", 5, options, &lock, NULL));
    for (int i = 1; i < threads; i++)
        if (pthread_create(&thread[i], NULL, run, NULL) != 0)
            return 1;
    run(NULL);
    for (int i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
    good(dlock_client_close(client, 10000, NULL));
    dlock_lock_free(lock);
    dlock_client_free(client);
    dlock_options_free(options);
    return 0;
}
