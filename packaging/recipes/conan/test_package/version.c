/*
 * version.c: a client in memory acquires and releases a lock.
 */
#include <dlock.h>
#include <stdio.h>

int main(void)
{
    dlock_error *error = dlock_error_new();
    dlock_client *client;
    dlock_lock *lock;
    int64_t token;

    if (dlock_client_open("memory:", NULL, &client, error) != DLOCK_OK ||
        dlock_lock_new(client, DLOCK_KIND_MUTEX, "sale", 4, NULL, &lock, error) != DLOCK_OK ||
        dlock_lock_acquire(lock, 0, 5000, &token, error) != DLOCK_OK || dlock_lock_release(lock, 0, error) != DLOCK_OK) {
        fprintf(stderr, "%s\n", dlock_error_message(error));
        return 1;
    }
    printf("libdlock %s works\n", dlock_version_string());
    return 0;
}
