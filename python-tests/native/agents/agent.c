/*
 * agent.c: a process under test, which uses the public ABI only. It runs the commands on its standard input and answers
 * each with one line of JSON; python-tests/harness/agent.py drives it, see the command table at its end.
 *
 *   TAG THREAD COMMAND ARGUMENT...
 *
 * THREAD 0 is the main thread, others start at their first use. In a word %XX is any byte; "%" alone is the empty word.
 * "-" as a handle is NULL. An answer has the status, the content of the error box, and the times of CLOCK_BOOTTIME in
 * microseconds before and after the call.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dlock.h"
#include "words.h"

enum { CLIENTS = 64, LOCKS = 8192, TXNS = 256, THREADS = 1024 };

struct answer {
    dlock_status status;
    dlock_error *box;
    int64_t began, done;
    FILE *more; /* further members: ,"name":value */
    char *more_text;
    size_t more_size;
};

static dlock_client *clients[CLIENTS];
static dlock_lock *locks[LOCKS];
static dlock_txn *txns[TXNS];
static int client_count, lock_count, txn_count; /* atomics */
static int pipes[THREADS][2];
static FILE *out;
static pthread_mutex_t out_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- failures of system calls around the next call, by shim.c */

static struct {
    char what[16];
    int64_t after;
    int on;
} failure;

static void (*shim_arm)(const char *what, int64_t after, int on);
static int64_t (*shim_disarm)(int64_t *fired);
static int64_t (*shim_live)(void);

static int64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_BOOTTIME, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static void begin(struct answer *answer)
{
    if (failure.what[0])
        shim_arm(failure.what, failure.after, failure.on);
    answer->began = now();
}

static void end(struct answer *answer, dlock_status status)
{
    answer->done = now();
    answer->status = status;
    if (failure.what[0]) {
        int64_t fired, counted = shim_disarm(&fired);

        failure.what[0] = '\0';
        fprintf(answer->more, ",\"counted\":%" PRId64 ",\"fired\":%" PRId64, counted, fired);
    }
}

#define CALL(answer, call)                                                                                             \
    do {                                                                                                               \
        begin(answer);                                                                                                 \
        end(answer, call);                                                                                             \
    } while (0)

/* ---- words and answers */

static void put_text(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(to, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, to);
    }
    fputc('"', to);
}

static int64_t number(struct word word)
{
    return strtoll(word.text, NULL, 10);
}

static dlock_client *client_of(struct word word)
{
    return strcmp(word.text, "-") == 0 ? NULL : clients[number(word) % CLIENTS];
}

static dlock_lock *lock_of(struct word word)
{
    return strcmp(word.text, "-") == 0 ? NULL : locks[number(word) % LOCKS];
}

static dlock_txn *txn_of(struct word word)
{
    return strcmp(word.text, "-") == 0 ? NULL : txns[number(word) % TXNS];
}

static void put_event(struct answer *answer, const dlock_event *event)
{
    int64_t fields[DLOCK_FIELD_COUNT];
    size_t size = 0;
    uint8_t *data;

    if (answer->status != DLOCK_OK || dlock_event_unpack(event, fields, DLOCK_FIELD_COUNT, NULL, NULL) != DLOCK_OK)
        return;
    fputs(",\"event\":[", answer->more);
    for (int i = 0; i < DLOCK_FIELD_COUNT; i++)
        fprintf(answer->more, "%s%" PRId64, i ? "," : "", fields[i]);
    fputs("],\"text\":", answer->more);
    put_text(answer->more, dlock_event_text(event));
    fprintf(answer->more, ",\"none\":\"%s\",\"data\":\"",
            dlock_status_name(dlock_event_data(event, NULL, 0, &size, NULL)));
    data = malloc(size + 1);
    if (!data || dlock_event_data(event, data, size, NULL, NULL) != DLOCK_OK)
        abort();
    for (size_t i = 0; i < size; i++)
        fprintf(answer->more, "%02x", data[i]);
    fputs("\"", answer->more);
    free(data);
}

/* Options from words "name=value"; NULL, with the answer filled, when one is refused. */
static dlock_options *options_of(struct answer *answer, const struct word *words)
{
    dlock_options *options = dlock_options_new();

    for (; options && words->size > 0; words++) {
        char *value = strchr(words->text, '=');

        if (!value)
            continue;
        *value++ = '\0';
        answer->status = dlock_options_set(options, words->text, value, answer->box);
        if (answer->status != DLOCK_OK) {
            dlock_options_free(options);
            return NULL;
        }
    }
    return options;
}

/* ---- commands: words[0] is the first argument */

static void do_open(struct answer *answer, struct word *words)
{
    int index = __atomic_fetch_add(&client_count, 1, __ATOMIC_RELAXED);
    dlock_options *options = options_of(answer, words + 1);

    if (!options)
        return;
    CALL(answer, dlock_client_open(words[0].text, options, &clients[index % CLIENTS], answer->box));
    dlock_options_free(options);
    fprintf(answer->more, ",\"index\":%d", index);
}

static void do_close(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_client_close(client_of(words[0]), number(words[1]), answer->box));
}

static void do_submit_close(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_client_submit_close(client_of(words[0]), number(words[1]), answer->box));
}

static void do_free(struct answer *answer, struct word *words)
{
    begin(answer);
    dlock_client_free(client_of(words[0]));
    end(answer, DLOCK_OK);
    clients[number(words[0]) % CLIENTS] = NULL;
}

static void do_fd(struct answer *answer, struct word *words)
{
    int32_t fd = -1;

    CALL(answer, dlock_client_fd(client_of(words[0]), &fd, answer->box));
    fprintf(answer->more, ",\"fd\":%d", fd);
}

/* Whether the client's descriptor becomes readable within so many milliseconds. */
static void do_poll(struct answer *answer, struct word *words)
{
    struct pollfd wait = {.events = POLLIN};

    answer->status = dlock_client_fd(client_of(words[0]), &wait.fd, answer->box);
    fprintf(answer->more, ",\"readable\":%d", poll(&wait, 1, (int)number(words[1])));
}

static void do_next(struct answer *answer, struct word *words)
{
    dlock_event *event = dlock_event_new();

    CALL(answer, dlock_client_next(client_of(words[0]), number(words[1]), event, answer->box));
    put_event(answer, event);
    dlock_event_free(event);
}

static void do_wake(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_client_wake(client_of(words[0]), answer->box));
}

static void do_stats(struct answer *answer, struct word *words)
{
    int64_t values[DLOCK_STAT_COUNT] = {0};

    CALL(answer, dlock_client_stats(client_of(words[0]), values, DLOCK_STAT_COUNT, NULL, answer->box));
    fputs(",\"stats\":[", answer->more);
    for (int i = 0; i < DLOCK_STAT_COUNT; i++)
        fprintf(answer->more, "%s%" PRId64, i ? "," : "", values[i]);
    fputs("]", answer->more);
}

static void do_ping(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_client_ping(client_of(words[0]), number(words[1]), answer->box));
}

static void do_check(struct answer *answer, struct word *words)
{
    dlock_event *event = dlock_event_new();
    int64_t fields[DLOCK_FIELD_COUNT];
    size_t count = 0;

    CALL(answer, dlock_client_check(client_of(words[0]), number(words[1]), &count, answer->box));
    fputs(",\"findings\":[", answer->more);
    for (size_t i = 0; dlock_client_finding(client_of(words[0]), i, event, NULL) == DLOCK_OK; i++) {
        dlock_event_unpack(event, fields, DLOCK_FIELD_COUNT, NULL, NULL);
        fprintf(answer->more, "%s[\"%s\",%" PRId64 ",", i ? "," : "",
                dlock_finding_name((int32_t)fields[DLOCK_FIELD_VALUE]), fields[DLOCK_FIELD_CAUSE]);
        put_text(answer->more, dlock_event_text(event));
        fputs("]", answer->more);
    }
    fprintf(answer->more, "],\"count\":%zu", count);
    dlock_event_free(event);
}

static void do_provision(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_client_provision(client_of(words[0]), number(words[1]), answer->box));
}

static void do_new(struct answer *answer, struct word *words)
{
    int index = __atomic_fetch_add(&lock_count, 1, __ATOMIC_RELAXED);
    dlock_options *options = options_of(answer, words + 3);

    if (!options)
        return;
    CALL(answer, dlock_lock_new(client_of(words[0]), (int32_t)number(words[1]), words[2].text, words[2].size, options,
                                &locks[index % LOCKS], answer->box));
    dlock_options_free(options);
    fprintf(answer->more, ",\"index\":%d,\"id\":%" PRId64, index,
            answer->status == DLOCK_OK ? dlock_lock_id(locks[index % LOCKS]) : 0);
}

static void do_drop(struct answer *answer, struct word *words)
{
    begin(answer);
    dlock_lock_free(lock_of(words[0]));
    end(answer, DLOCK_OK);
    locks[number(words[0]) % LOCKS] = NULL;
}

static void do_acquire(struct answer *answer, struct word *words)
{
    int64_t token = -1;

    CALL(answer, dlock_lock_acquire(lock_of(words[0]), number(words[1]), number(words[2]), &token, answer->box));
    fprintf(answer->more, ",\"token\":%" PRId64, token);
}

static void do_release(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_lock_release(lock_of(words[0]), number(words[1]), answer->box));
}

static void do_acquire_local(struct answer *answer, struct word *words)
{
    int64_t token = -1;

    CALL(answer, dlock_lock_acquire_local(lock_of(words[0]), number(words[1]), &token, answer->box));
    fprintf(answer->more, ",\"token\":%" PRId64, token);
}

static void do_release_local(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_lock_release_local(lock_of(words[0]), number(words[1]), answer->box));
}

static void do_submit_acquire(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_lock_submit_acquire(lock_of(words[0]), number(words[1]), number(words[2]), number(words[3]),
                                           answer->box));
}

static void do_submit_release(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_lock_submit_release(lock_of(words[0]), number(words[1]), number(words[2]), answer->box));
}

static void do_begin_acquire(struct answer *answer, struct word *words)
{
    int64_t token = -1;

    CALL(answer, dlock_lock_begin_acquire(lock_of(words[0]), number(words[1]), number(words[2]), number(words[3]),
                                          &token, answer->box));
    fprintf(answer->more, ",\"token\":%" PRId64, token);
}

static void do_begin_release(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_lock_begin_release(lock_of(words[0]), number(words[1]), number(words[2]), answer->box));
}

static void do_cancel(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_lock_cancel(lock_of(words[0]), number(words[1]), answer->box));
}

static void do_extend(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_lock_extend(lock_of(words[0]), number(words[1]), number(words[2]), answer->box));
}

static void do_force(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_lock_force_release(lock_of(words[0]), answer->box));
}

static void do_state(struct answer *answer, struct word *words)
{
    static const char *const names[] = {"NONE", "WAITING", "HELD", "AT_RISK", "LOST"};
    int32_t state = 0;

    CALL(answer, dlock_lock_state(lock_of(words[0]), number(words[1]), &state, answer->box));
    fprintf(answer->more, ",\"state\":\"%s\"", names[state]);
}

static void do_remaining(struct answer *answer, struct word *words)
{
    int64_t remaining = -1;

    CALL(answer, dlock_lock_remaining_ms(lock_of(words[0]), number(words[1]), &remaining, answer->box));
    fprintf(answer->more, ",\"remaining\":%" PRId64, remaining);
}

static void do_token(struct answer *answer, struct word *words)
{
    int64_t token = -1;

    CALL(answer, dlock_lock_token(lock_of(words[0]), number(words[1]), &token, answer->box));
    fprintf(answer->more, ",\"token\":%" PRId64, token);
}

static void do_count(struct answer *answer, struct word *words)
{
    int64_t count = -1;

    CALL(answer, dlock_lock_hold_count(lock_of(words[0]), number(words[1]), &count, answer->box));
    fprintf(answer->more, ",\"count\":%" PRId64, count);
}

static void do_inspect(struct answer *answer, struct word *words)
{
    dlock_event *event = dlock_event_new();

    CALL(answer, dlock_lock_inspect(lock_of(words[0]), event, answer->box));
    put_event(answer, event);
    dlock_event_free(event);
}

/* words[2]: the size of the buffer. */
static void do_export(struct answer *answer, struct word *words)
{
    uint8_t buffer[4096];
    size_t size = 0;

    CALL(answer, dlock_lock_export_grant(lock_of(words[0]), number(words[1]), buffer, (size_t)number(words[2]), &size,
                                         answer->box));
    fputs(",\"grant\":\"", answer->more);
    for (size_t i = 0; i < size; i++)
        fprintf(answer->more, "%%%02x", buffer[i]);
    fputs("\"", answer->more);
}

static void do_adopt(struct answer *answer, struct word *words)
{
    int64_t token = -1;

    CALL(answer, dlock_lock_adopt_grant(lock_of(words[0]), number(words[1]), (const uint8_t *)words[2].text,
                                        words[2].size, &token, answer->box));
    fprintf(answer->more, ",\"token\":%" PRId64, token);
}

/* ---- kinds beside the mutex */

static void do_multi(struct answer *answer, struct word *words)
{
    int index = __atomic_fetch_add(&lock_count, 1, __ATOMIC_RELAXED);
    dlock_lock *members[WORDS];
    size_t count = 0;

    for (struct word *word = words + 1; word->size > 0; word++)
        members[count++] = lock_of(*word);
    CALL(answer, dlock_lock_new_multi(client_of(words[0]), members, count, &locks[index % LOCKS], answer->box));
    fprintf(answer->more, ",\"index\":%d,\"id\":%" PRId64, index,
            answer->status == DLOCK_OK ? dlock_lock_id(locks[index % LOCKS]) : 0);
}

static void do_close_gate(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_lock_close_gate(lock_of(words[0]), number(words[1]), answer->box));
}

static void do_open_gate(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_lock_open_gate(lock_of(words[0]), answer->box));
}

static void do_permits_set(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_semaphore_set(lock_of(words[0]), number(words[1]), answer->box));
}

static void do_permits_add(struct answer *answer, struct word *words)
{
    int64_t value = -1;

    CALL(answer, dlock_semaphore_add(lock_of(words[0]), number(words[1]), &value, answer->box));
    fprintf(answer->more, ",\"value\":%" PRId64, value);
}

static void do_permits_drain(struct answer *answer, struct word *words)
{
    int64_t value = -1;

    CALL(answer, dlock_semaphore_drain(lock_of(words[0]), &value, answer->box));
    fprintf(answer->more, ",\"value\":%" PRId64, value);
}

static void do_permits_reclaim(struct answer *answer, struct word *words)
{
    int64_t value = -1;

    CALL(answer, dlock_semaphore_reclaim(lock_of(words[0]), number(words[1]), &value, answer->box));
    fprintf(answer->more, ",\"value\":%" PRId64, value);
}

static void do_permits(struct answer *answer, struct word *words)
{
    int64_t value = -1;

    CALL(answer, dlock_semaphore_available(lock_of(words[0]), &value, answer->box));
    fprintf(answer->more, ",\"value\":%" PRId64, value);
}

/* words[3]: the size of the buffer. */
static void do_permit(struct answer *answer, struct word *words)
{
    char id[64] = "";

    CALL(answer, dlock_semaphore_permit(lock_of(words[0]), number(words[1]), number(words[2]), id,
                                        (size_t)number(words[3]), answer->box));
    fputs(",\"permit\":", answer->more);
    put_text(answer->more, id);
}

static void do_latch_set(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_latch_set(lock_of(words[0]), number(words[1]), answer->box));
}

static void do_latch_down(struct answer *answer, struct word *words)
{
    int64_t value = -1;

    CALL(answer, dlock_latch_count_down(lock_of(words[0]), number(words[1]), &value, answer->box));
    fprintf(answer->more, ",\"value\":%" PRId64, value);
}

static void do_latch_count(struct answer *answer, struct word *words)
{
    int64_t value = -1;

    CALL(answer, dlock_latch_count(lock_of(words[0]), &value, answer->box));
    fprintf(answer->more, ",\"value\":%" PRId64, value);
}

/* ---- submitted calls */

typedef dlock_status plain(dlock_lock *lock, int64_t tag, dlock_error *reterr);
typedef dlock_status numbered(dlock_lock *lock, int64_t number, int64_t tag, dlock_error *reterr);

static const struct {
    const char *name; /* the command that waits */
    plain *plain;
    numbered *numbered;
} submits[] = {
    {"force", dlock_lock_submit_force_release, NULL},      {"inspect", dlock_lock_submit_inspect, NULL},
    {"open_gate", dlock_lock_submit_open_gate, NULL},      {"close_gate", NULL, dlock_lock_submit_close_gate},
    {"permits_set", NULL, dlock_semaphore_submit_set},     {"permits_add", NULL, dlock_semaphore_submit_add},
    {"permits_drain", dlock_semaphore_submit_drain, NULL}, {"permits", dlock_semaphore_submit_available, NULL},
    {"latch_set", NULL, dlock_latch_submit_set},           {"latch_down", NULL, dlock_latch_submit_count_down},
    {"latch_count", dlock_latch_submit_count, NULL},       {"permits_reclaim", NULL, dlock_semaphore_submit_reclaim},
};

static dlock_status submit(struct answer *answer, dlock_lock *lock, const struct word *words)
{
    size_t i = 0;

    if (strcmp(words[0].text, "extend") == 0)
        return dlock_lock_submit_extend(lock, number(words[2]), number(words[3]), number(words[1]), answer->box);
    if (strcmp(words[0].text, "export") == 0)
        return dlock_lock_submit_export_grant(lock, number(words[2]), number(words[1]), answer->box);
    if (strcmp(words[0].text, "adopt") == 0)
        return dlock_lock_submit_adopt_grant(lock, number(words[2]), (const uint8_t *)words[3].text, words[3].size,
                                             number(words[1]), answer->box);
    while (strcmp(submits[i].name, words[0].text) != 0)
        i++;
    return submits[i].plain ? submits[i].plain(lock, number(words[1]), answer->box)
                            : submits[i].numbered(lock, number(words[2]), number(words[1]), answer->box);
}

/* words[1]: the command that waits, words[2]: the tag, then the arguments of that command. */
static void do_submit(struct answer *answer, struct word *words)
{
    CALL(answer, submit(answer, lock_of(words[0]), words + 1));
}

static void do_submit_ping(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_client_submit_ping(client_of(words[0]), number(words[2]), number(words[1]), answer->box));
}

static void do_submit_check(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_client_submit_check(client_of(words[0]), number(words[2]), number(words[1]), answer->box));
}

static void do_submit_provision(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_client_submit_provision(client_of(words[0]), number(words[2]), number(words[1]), answer->box));
}

/* ---- many steps in one answer */

/* words[3]: COUNT times in a row the submitted call of words[1], tags from words[2] on; answers how many were not
 * DLOCK_OK. */
static void do_flood(struct answer *answer, struct word *words)
{
    int64_t first = number(words[2]), bad = 0;

    begin(answer);
    for (int64_t tag = first; tag < first + number(words[3]); tag++) {
        char text[24];
        struct word call[] = {words[1], {text, 0}, words[4], words[5]};

        snprintf(text, sizeof text, "%" PRId64, tag);
        bad += submit(answer, lock_of(words[0]), call) != DLOCK_OK;
    }
    end(answer, DLOCK_OK);
    fprintf(answer->more, ",\"bad\":%" PRId64, bad);
}

/* Read COUNT events, for MS milliseconds or until the queue ends: [type, status, tag, value] of each. */
static void do_drain(struct answer *answer, struct word *words)
{
    dlock_event *event = dlock_event_new();
    int64_t fields[DLOCK_FIELD_COUNT], left = number(words[1]), limit;
    const char *comma = "";

    fputs(",\"events\":[", answer->more);
    begin(answer);
    limit = answer->began + 1000 * number(words[2]);
    while (left > 0 && now() < limit) {
        dlock_status status = dlock_client_next(client_of(words[0]), (limit - now()) / 1000 + 1, event, NULL);

        if (status == DLOCK_CLOSED)
            break;
        if (status != DLOCK_OK)
            continue;
        dlock_event_unpack(event, fields, DLOCK_FIELD_COUNT, NULL, NULL);
        fprintf(answer->more, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", comma, fields[DLOCK_FIELD_TYPE],
                fields[DLOCK_FIELD_STATUS], fields[DLOCK_FIELD_TAG], fields[DLOCK_FIELD_VALUE]);
        comma = ",";
        left--;
    }
    end(answer, DLOCK_OK);
    fputs("]", answer->more);
    dlock_event_free(event);
}

/* Acquire and release by COUNT owners from FIRST on, one after the other; answers how many steps were not DLOCK_OK. */
static void do_turns(struct answer *answer, struct word *words)
{
    dlock_lock *lock = lock_of(words[0]);
    int64_t first = number(words[1]), bad = 0;

    begin(answer);
    for (int64_t owner = first; owner < first + number(words[2]); owner++) {
        bad += dlock_lock_acquire(lock, owner, 10000, NULL, NULL) != DLOCK_OK;
        bad += dlock_lock_release(lock, owner, NULL) != DLOCK_OK;
    }
    end(answer, DLOCK_OK);
    fprintf(answer->more, ",\"bad\":%" PRId64, bad);
}

/* Read events for MS milliseconds or until COUNT locks were acquired: [status, owner, token, microseconds] of each
 * acquisition that ended, in order. Each lock is released at once. */
static void do_serve(struct answer *answer, struct word *words)
{
    dlock_client *client = client_of(words[0]);
    dlock_event *event = dlock_event_new();
    int64_t fields[DLOCK_FIELD_COUNT], left = number(words[2]), limit;
    const char *comma = "";

    fputs(",\"served\":[", answer->more);
    begin(answer);
    limit = answer->began + 1000 * number(words[3]);
    while (left > 0 && now() < limit) {
        if (dlock_client_next(client, (limit - now()) / 1000 + 1, event, NULL) != DLOCK_OK)
            continue;
        dlock_event_unpack(event, fields, DLOCK_FIELD_COUNT, NULL, NULL);
        if (fields[DLOCK_FIELD_TYPE] != DLOCK_EVENT_ACQUIRED && fields[DLOCK_FIELD_TYPE] != DLOCK_EVENT_ACQUIRE_FAILED)
            continue;
        fprintf(answer->more, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", comma, fields[DLOCK_FIELD_STATUS],
                fields[DLOCK_FIELD_OWNER], fields[DLOCK_FIELD_TOKEN], now());
        comma = ",";
        left--;
        if (fields[DLOCK_FIELD_TYPE] == DLOCK_EVENT_ACQUIRED)
            dlock_lock_submit_release(lock_of(words[1]), fields[DLOCK_FIELD_OWNER], 0, NULL);
    }
    end(answer, DLOCK_OK);
    fputs("]", answer->more);
    dlock_event_free(event);
}

/* ---- transactions */

static void do_txn(struct answer *answer, struct word *words)
{
    int index = __atomic_fetch_add(&txn_count, 1, __ATOMIC_RELAXED);

    CALL(answer, dlock_txn_new(client_of(words[0]), &txns[index % TXNS], answer->box));
    fprintf(answer->more, ",\"index\":%d", index);
}

static void do_end_txn(struct answer *answer, struct word *words)
{
    begin(answer);
    dlock_txn_free(txn_of(words[0]));
    end(answer, DLOCK_OK);
    txns[number(words[0]) % TXNS] = NULL;
}

static void do_watch(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_txn_watch(txn_of(words[0]), words[1].text, words[1].size, answer->box));
}

/* words[2]: the size of the buffer. */
static void do_get(struct answer *answer, struct word *words)
{
    static _Thread_local uint8_t buffer[2 << 20];
    size_t size = 0;

    CALL(answer, dlock_txn_get(txn_of(words[0]), words[1].text, words[1].size, buffer, (size_t)number(words[2]), &size,
                               answer->box));
    fprintf(answer->more, ",\"size\":%zu,\"value\":\"", size);
    for (size_t i = 0; answer->status == DLOCK_OK && i < size; i++)
        fprintf(answer->more, "%02x", buffer[i]);
    fputs("\"", answer->more);
}

static void do_set(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_txn_set(txn_of(words[0]), words[1].text, words[1].size, (const uint8_t *)words[2].text,
                               words[2].size, number(words[3]), answer->box));
}

static void do_incr(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_txn_incr(txn_of(words[0]), words[1].text, words[1].size, number(words[2]), answer->box));
}

static void do_delete(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_txn_delete(txn_of(words[0]), words[1].text, words[1].size, answer->box));
}

static void do_commit(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_txn_commit(txn_of(words[0]), answer->box));
}

static void do_rollback(struct answer *answer, struct word *words)
{
    CALL(answer, dlock_txn_rollback(txn_of(words[0]), answer->box));
}

static dlock_status submit_txn(struct answer *answer, dlock_txn *txn, const struct word *words)
{
    if (strcmp(words[0].text, "watch") == 0)
        return dlock_txn_submit_watch(txn, words[2].text, words[2].size, number(words[1]), answer->box);
    if (strcmp(words[0].text, "get") == 0)
        return dlock_txn_submit_get(txn, words[2].text, words[2].size, number(words[1]), answer->box);
    if (strcmp(words[0].text, "commit") == 0)
        return dlock_txn_submit_commit(txn, number(words[1]), answer->box);
    return dlock_txn_submit_rollback(txn, number(words[1]), answer->box);
}

/* words[1]: the command that waits, words[2]: the tag, words[3]: the key. */
static void do_submit_txn(struct answer *answer, struct word *words)
{
    CALL(answer, submit_txn(answer, txn_of(words[0]), words + 1));
}

/* ---- effects on the process */

/* Fails system calls in the next call of the library: WHAT AFTER ON. */
static void do_shim(struct answer *answer, struct word *words)
{
    answer->status = shim_arm ? DLOCK_OK : DLOCK_UNSUPPORTED;
    failure.after = number(words[1]);
    failure.on = (int)number(words[2]);
    if (shim_arm)
        snprintf(failure.what, sizeof failure.what, "%s", words[0].text);
}

static void do_live(struct answer *answer, struct word *words)
{
    (void)words;
    fprintf(answer->more, ",\"live\":%" PRId64, shim_live ? shim_live() : -1);
}

static void do_nofile(struct answer *answer, struct word *words)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)number(words[0]);
    answer->status = setrlimit(RLIMIT_NOFILE, &limit) ? DLOCK_SYSTEM_ERROR : DLOCK_OK;
}

static int signals; /* atomic */

static void on_signal(int signal)
{
    (void)signal;
    __atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
}

/* SIGALRM every so many microseconds (0: stop), with SA_RESTART or not; answers how many there were. */
static void do_signals(struct answer *answer, struct word *words)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = number(words[1]) ? SA_RESTART : 0};
    struct itimerval every = {.it_interval.tv_usec = number(words[0]), .it_value.tv_usec = number(words[0])};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    fprintf(answer->more, ",\"signals\":%d", __atomic_load_n(&signals, __ATOMIC_RELAXED));
}

/* Run a program with the descriptors of this process and answer its output. */
static void do_run(struct answer *answer, struct word *words)
{
    char piece[256];
    FILE *program = popen(words[0].text, "re");
    FILE *text = NULL;
    char *all = NULL;
    size_t size = 0, got;

    if (!program || !(text = open_memstream(&all, &size)))
        return;
    while ((got = fread(piece, 1, sizeof piece, program)) > 0)
        fwrite(piece, 1, got, text);
    pclose(program);
    fclose(text);
    fputs(",\"output\":", answer->more);
    put_text(answer->more, all);
    free(all);
}

static void do_exit(struct answer *answer, struct word *words)
{
    (void)answer;
    exit((int)number(words[0]));
}

static void carry_out(char *line, FILE *to);

/* In the child: runs the commands in words, answers go to fd. SIGALRM ends it when it hangs. */
static void be_child(struct word *words, int fd)
{
    FILE *to = fdopen(fd, "w");

    pthread_mutex_init(&out_mutex, NULL);
    signal(SIGALRM, SIG_DFL);
    alarm(20);
    for (; words->size > 0; words++)
        carry_out(words->text, to);
    fclose(to);
    exit(0);
}

/* COUNT LINE...: so many children, one after the other. Each runs the lines; their answers follow, one per line. */
static void do_fork(struct answer *answer, struct word *words)
{
    fputs(",\"children\":[", answer->more);
    for (int64_t i = 0; i < number(words[0]); i++) {
        int ends[2], code = 0;
        char *line = NULL;
        size_t room = 0;
        FILE *from;
        pid_t child;

        if (pipe2(ends, O_CLOEXEC) || (child = fork()) < 0)
            abort();
        if (child == 0)
            be_child(words + 1, ends[1]);
        close(ends[1]);
        from = fdopen(ends[0], "r");
        fputs(i ? ",{\"answers\":[" : "{\"answers\":[", answer->more);
        for (int first = 1; getline(&line, &room, from) > 0; first = 0)
            fprintf(answer->more, "%s%.*s", first ? "" : ",", (int)strcspn(line, "\n"), line);
        fclose(from);
        free(line);
        waitpid(child, &code, 0);
        fprintf(answer->more, "],\"code\":%d}", code);
    }
    fputs("]", answer->more);
}

/* ---- lines */

static const struct {
    const char *name;
    void (*call)(struct answer *answer, struct word *words);
} commands[] = {
    {"open", do_open},
    {"close", do_close},
    {"submit_close", do_submit_close},
    {"free", do_free},
    {"fd", do_fd},
    {"poll", do_poll},
    {"next", do_next},
    {"wake", do_wake},
    {"stats", do_stats},
    {"ping", do_ping},
    {"provision", do_provision},
    {"check", do_check},
    {"new", do_new},
    {"drop", do_drop},
    {"acquire", do_acquire},
    {"release", do_release},
    {"acquire_local", do_acquire_local},
    {"release_local", do_release_local},
    {"submit_acquire", do_submit_acquire},
    {"submit_release", do_submit_release},
    {"begin_acquire", do_begin_acquire},
    {"begin_release", do_begin_release},
    {"cancel", do_cancel},
    {"extend", do_extend},
    {"force", do_force},
    {"state", do_state},
    {"remaining", do_remaining},
    {"token", do_token},
    {"count", do_count},
    {"inspect", do_inspect},
    {"export", do_export},
    {"adopt", do_adopt},
    {"multi", do_multi},
    {"close_gate", do_close_gate},
    {"open_gate", do_open_gate},
    {"permits_set", do_permits_set},
    {"permits_add", do_permits_add},
    {"permits_drain", do_permits_drain},
    {"permits_reclaim", do_permits_reclaim},
    {"permits", do_permits},
    {"permit", do_permit},
    {"latch_set", do_latch_set},
    {"latch_down", do_latch_down},
    {"latch_count", do_latch_count},
    {"submit", do_submit},
    {"submit_ping", do_submit_ping},
    {"submit_provision", do_submit_provision},
    {"submit_check", do_submit_check},
    {"flood", do_flood},
    {"drain", do_drain},
    {"turns", do_turns},
    {"serve", do_serve},
    {"txn", do_txn},
    {"end_txn", do_end_txn},
    {"watch", do_watch},
    {"get", do_get},
    {"set", do_set},
    {"incr", do_incr},
    {"delete", do_delete},
    {"commit", do_commit},
    {"rollback", do_rollback},
    {"submit_txn", do_submit_txn},
    {"shim", do_shim},
    {"live", do_live},
    {"nofile", do_nofile},
    {"signals", do_signals},
    {"run", do_run},
    {"exit", do_exit},
    {"fork", do_fork},
};

/* Split the line into words and answer it. */
static void carry_out(char *line, FILE *to)
{
    struct answer answer = {.box = dlock_error_new()};
    struct word words[WORDS + 1] = {{NULL, 0}};
    size_t i = 0;

    answer.more = open_memstream(&answer.more_text, &answer.more_size);
    split(line, words);
    while (i < sizeof commands / sizeof *commands && strcmp(commands[i].name, words[2].text) != 0)
        i++;
    if (i == sizeof commands / sizeof *commands)
        abort();
    commands[i].call(&answer, words + 3);
    fclose(answer.more);
    pthread_mutex_lock(&out_mutex);
    fprintf(to,
            "{\"tag\":%s,\"status\":\"%s\",\"number\":%d,\"box\":\"%s\",\"retryable\":%d,\"began\":%" PRId64
            ",\"done\":%" PRId64 ",\"message\":",
            words[0].text, dlock_status_name(answer.status), answer.status,
            dlock_status_name(dlock_error_code(answer.box)), dlock_error_retryable(answer.box), answer.began,
            answer.done);
    put_text(to, dlock_error_message(answer.box));
    fprintf(to, "%s}\n", answer.more_text);
    fflush(to);
    pthread_mutex_unlock(&out_mutex);
    free(answer.more_text);
    dlock_error_free(answer.box);
}

static void *work(void *argument)
{
    int *ends = argument;
    char *line;

    for (;;) {
        if (read(ends[0], &line, sizeof line) != sizeof line)
            continue;
        carry_out(line, out);
        free(line);
    }
    return NULL;
}

/* Give the line to its own thread. */
static void hand_over(char *line, int64_t thread)
{
    int *ends = pipes[thread % THREADS];
    char *copy = strdup(line);

    if (!ends[1]) {
        pthread_t id;

        if (pipe2(ends, O_CLOEXEC) || pthread_create(&id, NULL, work, ends))
            abort();
        pthread_detach(id);
    }
    if (write(ends[1], &copy, sizeof copy) != sizeof copy)
        abort();
}

/* The next line of standard input, whatever signals arrive; NULL at its end. stdio would lose data that it has read. */
static char *next_line(void)
{
    static char buffer[1 << 20];
    static size_t start, size;
    char *end;

    while (!(end = memchr(buffer + start, '\n', size - start))) {
        ssize_t got;

        memmove(buffer, buffer + start, size - start);
        size -= start;
        start = 0;
        got = read(0, buffer + size, sizeof buffer - size);
        if (got == 0 || (got < 0 && errno != EINTR))
            return NULL;
        size += got > 0 ? (size_t)got : 0;
    }
    *end = '\0';
    end = buffer + start;
    start += strlen(end) + 1;
    return end;
}

int main(void)
{
    int fd = fcntl(1, F_DUPFD_CLOEXEC, 3); /* for answers: stray output to 1 and 2 stays apart */
    char *line;

    if (fd < 0 || !(out = fdopen(fd, "w")))
        return 1;
    dup2(2, 1);
    *(void **)&shim_arm = dlsym(RTLD_DEFAULT, "shim_arm");
    *(void **)&shim_disarm = dlsym(RTLD_DEFAULT, "shim_disarm");
    *(void **)&shim_live = dlsym(RTLD_DEFAULT, "shim_live");
    while ((line = next_line())) {
        const char *word = strchr(line, ' ');
        int64_t thread = word ? strtoll(word, NULL, 10) : 0;

        if (thread)
            hand_over(line, thread);
        else
            carry_out(line, out);
    }
    return 0;
}
