/*
 * buyer.c: one process full of buyers in the flash sale of flash_sale.py, in C, with libdlock and nothing else.
 *
 *     buyer VARIANT URL SOCKET SCRIPT THREADS SEED HALTS BUYERS
 *
 * VARIANT is lock, fair, gate or optimistic. URL is for dlock_client_open; SOCKET leads to the stock, SCRIPT is the sha
 * of sell.lua there; HALTS and BUYERS are lists, "12,11,7". The process says "ready" and waits for a byte on standard
 * input: the sale is open. Then THREADS threads take the next buyer each, until all are served. A buyer locks, reads the
 * stock, thinks 1 to 3 ms, writes what is left, both with the token, releases; or does without a lock (buyer_txn.c).
 * When the stock read is one of HALTS, the buyer says "inside" between reading and writing and waits for a byte: that
 * is where the conductor stops and kills.
 *
 * What happens is said on standard output in lines of JSON. A pipe takes a line of this size whole.
 * buyer.py is the same in Python.
 */
#include "buyer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME "sale:{stock}"

struct sale sale;
static atomic_int next_buyer;

/* ---- saying */

void write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t wrote = write(fd, text, size);

        if (wrote < 0 && errno != EINTR)
            _exit(1);
        if (wrote > 0) {
            text += wrote;
            size -= (size_t)wrote;
        }
    }
}

void say(const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size > sizeof line - 2)
        _exit(1);
    line[size] = '\n';
    write_all(STDOUT_FILENO, line, (size_t)size + 1);
}

_Noreturn void fail(const char *what, const char *why)
{
    char plain[REPLY_MAX];

    snprintf(plain, sizeof plain, "%s: %s", what, why);
    for (char *at = plain; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
            *at = ' ';
    say("{\"is\": \"error\", \"text\": \"%s\"}", plain);
    _exit(1);
}

static const char *stats(char text[LINE_MAX_BYTES / 2])
{
    int64_t all[DLOCK_STAT_COUNT] = {0};

    dlock_client_stats(sale.client, all, DLOCK_STAT_COUNT, NULL, NULL);
    snprintf(text, LINE_MAX_BYTES / 2,
             "{\"acquired\": %" PRId64 ", \"wire_grants\": %" PRId64 ", \"pushed_grants\": %" PRId64
             ", \"handovers\": %" PRId64 ", \"lost\": %" PRId64 ", \"renewed\": %" PRId64 "}",
             all[DLOCK_STAT_ACQUIRED], all[DLOCK_STAT_WIRE_GRANTS], all[DLOCK_STAT_PUSHED_GRANTS],
             all[DLOCK_STAT_HANDOVERS], all[DLOCK_STAT_LOST], all[DLOCK_STAT_RENEWED]);
    return text;
}

static const char *state_name(int32_t state)
{
    static const char *const names[] = {"NONE", "WAITING", "HELD", "AT_RISK", "LOST"};

    return state >= 0 && state <= DLOCK_STATE_LOST ? names[state] : "UNKNOWN";
}

int64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000) + time.tv_nsec / 1000;
}

void tell_turn(const struct turn *turn)
{
    say("{\"is\": \"turn\", \"buyer\": %" PRId64 ", \"token\": %" PRId64 ", \"left\": %" PRId64 ", \"asked\": %" PRId64
        ", \"granted\": %" PRId64 ", \"checked\": %" PRId64 ", \"conflicts\": %" PRId64
        ", \"state\": \"%s\", \"answer\": \"%s\"}",
        turn->buyer, turn->token, turn->left, turn->asked, turn->granted, turn->checked, turn->conflicts,
        state_name(turn->state), turn->answer);
}

/* ---- between reading and writing */

void think(int64_t buyer)
{
    unsigned state = sale.seed + (unsigned)buyer;
    struct timespec time = {.tv_nsec = 1000000 + rand_r(&state) % 2000001};

    while (nanosleep(&time, &time) && errno == EINTR)
        ;
}

static int in(const struct numbers *numbers, int64_t number)
{
    for (int i = 0; i < numbers->count; i++)
        if (numbers->at[i] == number)
            return 1;
    return 0;
}

/* Wait until the conductor says go on. */
static void await_word(void)
{
    char word;
    ssize_t got;

    while ((got = read(STDIN_FILENO, &word, 1)) < 0 && errno == EINTR)
        ;
    if (got != 1)
        fail("halt", "the conductor is gone");
}

/* Whether the conductor stops the process meanwhile is not seen. */
void halt_at(const struct turn *turn)
{
    char counters[LINE_MAX_BYTES / 2];

    if (!in(&sale.halts, turn->left))
        return;
    say("{\"is\": \"inside\", \"buyer\": %" PRId64 ", \"token\": %" PRId64 ", \"left\": %" PRId64
        ", \"asked\": %" PRId64 ", \"granted\": %" PRId64 ", \"stats\": %s}",
        turn->buyer, turn->token, turn->left, turn->asked, turn->granted, stats(counters));
    await_word();
}

/* ---- the process */

static int next(int64_t *buyer)
{
    int place = atomic_fetch_add(&next_buyer, 1);

    if (place < sale.buyers.count)
        *buyer = sale.buyers.at[place];
    return place < sale.buyers.count;
}

static void *serve(void *unused)
{
    struct desk *desk = desk_open();
    int64_t buyer;

    while (next(&buyer))
        while (strcmp(lock_turn(desk, buyer), "refused") == 0)
            ; /* nothing was written: ask again */
    desk_close(desk);
    return unused;
}

static void *serve_without_lock(void *unused)
{
    dlock_txn *txn = NULL;
    int64_t buyer;

    if (dlock_txn_new(sale.client, &txn, NULL) != DLOCK_OK)
        fail("transaction", "cannot be made");
    while (next(&buyer))
        txn_turn(txn, buyer);
    dlock_txn_free(txn);
    return unused;
}

static void read_numbers(const char *text, struct numbers *numbers)
{
    while (*text) {
        char *end;

        if (numbers->count == NUMBERS_MAX)
            fail("arguments", "too many numbers");
        numbers->at[numbers->count++] = strtoll(text, &end, 10);
        if (end == text || (*end && *end != ','))
            fail("arguments", text);
        text = *end ? end + 1 : end;
    }
}

static enum variant variant_named(const char *name)
{
    static const char *const names[] = {"lock", "fair", "gate", "optimistic"};

    for (int i = LOCK; i <= OPTIMISTIC; i++)
        if (strcmp(names[i], name) == 0)
            return (enum variant)i;
    fail("variant", name);
}

static void open_sale(const char *url)
{
    int32_t kind = sale.variant == FAIR ? DLOCK_KIND_FAIR : DLOCK_KIND_MUTEX;
    dlock_error *error = dlock_error_new();

    if (dlock_client_open(url, NULL, &sale.client, error) != DLOCK_OK ||
        (sale.variant != OPTIMISTIC &&
         dlock_lock_new(sale.client, kind, NAME, strlen(NAME), NULL, &sale.lock, error) != DLOCK_OK))
        fail("open", dlock_error_message(error));
    dlock_error_free(error);
}

static void run_threads(int count)
{
    void *(*run)(void *) = sale.variant == OPTIMISTIC ? serve_without_lock : serve;
    pthread_t *threads = calloc((size_t)count, sizeof *threads);

    for (int i = 0; i < count; i++)
        if (!threads || pthread_create(&threads[i], NULL, run, NULL))
            fail("threads", "cannot start");
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

int main(int count, char **arguments)
{
    char counters[LINE_MAX_BYTES / 2];

    if (count != 9) {
        fputs("usage: buyer VARIANT URL SOCKET SCRIPT THREADS SEED HALTS BUYERS\n", stderr);
        return 2;
    }
    sale.variant = variant_named(arguments[1]);
    sale.stock_path = arguments[3];
    sale.script = arguments[4];
    sale.seed = (unsigned)strtoul(arguments[6], NULL, 10);
    read_numbers(arguments[7], &sale.halts);
    read_numbers(arguments[8], &sale.buyers);
    open_sale(arguments[2]);
    say("{\"is\": \"ready\"}");
    await_word();
    run_threads((int)strtol(arguments[5], NULL, 10));
    say("{\"is\": \"end\", \"stats\": %s}", stats(counters));
    dlock_client_close(sale.client, 2000, NULL);
    dlock_lock_free(sale.lock);
    dlock_client_free(sale.client);
    return 0;
}
