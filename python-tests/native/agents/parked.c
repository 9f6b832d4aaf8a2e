/*
 * parked.c: many submitted acquires of one lock that another client holds; then all waits end. The stack of the process may be
 * small: no end may need more of it for more waiters.
 *
 *     parked URL KIND COUNT END
 *
 * KIND is "read", "write", "fair", "semaphore" or "permit". END is what ends the waits: "free" (of their client), "fork" (a child
 * frees it, then the parent), "close", "abandon" (a close that waits for nothing), "submit" (a close that nobody waits for),
 * "gate", "cancel", "timeout" (of 2 seconds), "gone" (the server; the waits have 2 seconds) or "starved" (shim.c is preloaded:
 * no memory is left).
 *
 * Prints "first" when the first waiter has asked, and reads a line: the server knows of it. Prints "ready" when all wait, and
 * reads a line. Then prints "sent N": the commands that the client has sent since. Exits with 1 and a sentence when a call fails
 * or an event is missing.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlock.h"

enum { LONG = 600000, SHORT = 2000, FIELDS = 64 };

static dlock_client *client, *other;
static dlock_lock *lock, *keeper;
static dlock_error *reason;
static dlock_event *event;

static void good(dlock_status status, const char *call)
{
    if (status == DLOCK_OK)
        return;
    printf("%s: %d %s\n", call, (int)status, dlock_error_message(reason));
    exit(1);
}

static int32_t kind_of(const char *word)
{
    static const char *const words[] = {"fair", "read", "write", "semaphore", "permit"};
    static const int32_t kinds[] = {DLOCK_KIND_FAIR, DLOCK_KIND_READ, DLOCK_KIND_WRITE, DLOCK_KIND_SEMAPHORE,
                                    DLOCK_KIND_PERMIT_SEMAPHORE};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(words[i], word))
            return kinds[i];
    exit(2);
}

static void open_all(const char *url, int32_t kind)
{
    static const char name[] = "parked";
    int64_t token;

    reason = dlock_error_new();
    event = dlock_event_new();
    good(dlock_client_open(url, NULL, &client, reason), "open");
    good(dlock_client_open(url, NULL, &other, reason), "open");
    good(dlock_lock_new(client, kind, name, sizeof name - 1, NULL, &lock, reason), "new");
    kind = kind == DLOCK_KIND_READ ? DLOCK_KIND_WRITE : kind;
    good(dlock_lock_new(other, kind, name, sizeof name - 1, NULL, &keeper, reason), "new");
    if (kind == DLOCK_KIND_SEMAPHORE || kind == DLOCK_KIND_PERMIT_SEMAPHORE)
        good(dlock_semaphore_set(keeper, 1, reason), "set");
    good(dlock_lock_acquire(keeper, 1, LONG, &token, reason), "acquire");
}

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
    if (getchar() != '\n')
        exit(3);
}

static void queue_up(int64_t first, int64_t end, int64_t wait_ms)
{
    for (int64_t i = first; i < end; i++)
        good(dlock_lock_submit_acquire(lock, 1 + i, wait_ms, i, reason), "submit_acquire");
}

static int64_t commands(void)
{
    int64_t stats[FIELDS];
    size_t count;

    good(dlock_client_stats(client, stats, FIELDS, &count, reason), "stats");
    return stats[DLOCK_STAT_COMMANDS];
}

/* One ending per waiter, with this status. */
static void take_events(int64_t count, int64_t expected)
{
    while (count > 0) {
        int64_t field[FIELDS];
        size_t fields;

        good(dlock_client_next(client, LONG, event, reason), "next");
        if (dlock_event_type(event) != DLOCK_EVENT_ACQUIRED && dlock_event_type(event) != DLOCK_EVENT_ACQUIRE_FAILED)
            continue;
        good(dlock_event_unpack(event, field, FIELDS, &fields, reason), "unpack");
        if (field[DLOCK_FIELD_STATUS] != expected) {
            printf("owner %" PRId64 ": %s\n", field[DLOCK_FIELD_OWNER], dlock_event_text(event));
            exit(1);
        }
        count--;
    }
}

/* The child frees a client that its parent uses: nothing is the child's own. */
static void fork_and_free(void)
{
    int state = 0;
    pid_t child = fork();

    if (child == 0) {
        dlock_client_free(client);
        _exit(0);
    }
    if (waitpid(child, &state, 0) != child || state != 0) {
        printf("the child ended with %d\n", state);
        exit(1);
    }
}

static void free_client(void)
{
    dlock_client_free(client);
    client = NULL;
}

/* From here on no memory is left, until all waits have ended: the first one by its owner, the next ones when they would ask. */
static void starve(int64_t count)
{
    void (*arm)(const char *what, int64_t after, int on);
    int64_t (*disarm)(int64_t * fired);
    int64_t fired = 0;

    *(void **)&arm = dlsym(RTLD_DEFAULT, "shim_arm");
    *(void **)&disarm = dlsym(RTLD_DEFAULT, "shim_disarm");
    if (!arm || !disarm)
        exit(4);
    arm("alloc", 1, 1);
    good(dlock_lock_cancel(lock, 1, reason), "cancel");
    take_events(1, DLOCK_CANCELLED);
    take_events(count - 1, DLOCK_OUT_OF_MEMORY);
    disarm(&fired);
    if (fired < count - 1) {
        printf("only %" PRId64 " allocations failed\n", fired);
        exit(1);
    }
}

static void cancel_all(int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        good(dlock_lock_cancel(lock, 1 + i, reason), "cancel");
    take_events(count, DLOCK_CANCELLED);
}

static void end_by_close(const char *how, int64_t count)
{
    if (!strcmp(how, "close"))
        good(dlock_client_close(client, LONG, reason), "close");
    else if (!strcmp(how, "abandon"))
        dlock_client_close(client, 0, NULL); /* a release may be under way: then TIMED_OUT */
    else
        good(dlock_client_submit_close(client, LONG, reason), "submit_close");
    take_events(count, DLOCK_CLOSED);
}

static void end(const char *how, int64_t count)
{
    if (!strcmp(how, "free")) {
        free_client();
    } else if (!strcmp(how, "fork")) {
        fork_and_free();
        free_client();
    } else if (!strcmp(how, "gate")) {
        good(dlock_lock_close_gate(keeper, LONG, reason), "close_gate");
        take_events(count, DLOCK_GATE_CLOSED);
    } else if (!strcmp(how, "cancel")) {
        cancel_all(count);
    } else if (!strcmp(how, "timeout")) {
        take_events(count, DLOCK_TIMED_OUT);
    } else if (!strcmp(how, "gone")) {
        take_events(count, DLOCK_UNREACHABLE);
    } else if (!strcmp(how, "starved")) {
        starve(count);
    } else {
        end_by_close(how, count);
    }
}

int main(int argc, char **argv)
{
    int64_t count = argc == 5 ? strtoll(argv[3], NULL, 10) : 0, before;
    const char *how = argv[4];
    int64_t wait_ms = count > 0 && (!strcmp(how, "timeout") || !strcmp(how, "gone")) ? SHORT : LONG;

    if (count <= 0)
        return 2;
    open_all(argv[1], kind_of(argv[2]));
    queue_up(0, 1, wait_ms);
    say("first");
    queue_up(1, count, wait_ms);
    before = commands();
    say("ready");
    end(how, count);
    printf("sent %" PRId64 "\n", client ? commands() - before : INT64_C(0));
    dlock_client_free(client);
    dlock_lock_free(lock);
    dlock_client_free(other);
    dlock_lock_free(keeper);
    dlock_event_free(event);
    dlock_error_free(reason);
    return 0;
}
