/* What smoke.sh asks of the library itself. */
#include <dlock.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "smoke.c:%d: %s: %s\n", __LINE__, #condition, dlock_error_message(error)); \
            return 1;                                                                                 \
        }                                                                                             \
    } while (0)

int main(void)
{
    dlock_error *error = dlock_error_new();
    dlock_event *event = dlock_event_new();
    dlock_options *options = dlock_options_new();
    dlock_client *client;
    dlock_lock *lock;
    int64_t first;
    int64_t second;
    const char *url = getenv("DLOCK_URL");

    CHECK(dlock_options_set(options, "lease_ms", "1500", error) == DLOCK_OK);
    CHECK(dlock_client_open(url, options, &client, error) == DLOCK_OK);
    CHECK(dlock_lock_new(client, DLOCK_KIND_MUTEX, "smoke-c", 7, NULL, &lock, error) == DLOCK_OK);
    CHECK(dlock_lock_acquire(lock, 0, 5000, &first, error) == DLOCK_OK);
    CHECK(dlock_lock_force_release(lock, error) == DLOCK_OK);
    CHECK(dlock_client_next(client, 30000, event, error) == DLOCK_OK);
    CHECK(dlock_event_type(event) == DLOCK_EVENT_LOST);
    CHECK(dlock_lock_acquire(lock, 0, 5000, &second, error) == DLOCK_OK && second > first);
    CHECK(dlock_lock_release(lock, 0, error) == DLOCK_OK);
    CHECK(dlock_client_close(client, 5000, error) == DLOCK_OK);
    printf("c: %s, tokens %" PRId64 " and %" PRId64 "\n", dlock_version_string(), first, second);
    dlock_lock_free(lock);
    dlock_client_free(client);
    dlock_options_free(options);
    dlock_event_free(event);
    dlock_error_free(error);
    return 0;
}
