/*
 * buyer.c: one process full of buyers in the flash sale of flash_sale.py, in C, with libdlock and nothing else.
 *
 *     buyer URL SOCKET SCRIPT THREADS SEED HALTS BUYERS
 *
 * URL is for dlock_client_open; SOCKET leads to the stock, SCRIPT is the sha of sell.lua there; HALTS and BUYERS are
 * lists, "12,11,7". The process says "ready" and waits for a byte on standard input: the sale is open. Then THREADS
 * threads take the next buyer each, until all are served. A buyer locks, reads the stock, thinks 1 to 3 ms, writes what
 * is left together with the token, releases. When the stock read is one of HALTS, the buyer says "inside" between
 * reading and writing and waits for a byte: that is where the conductor stops and kills.
 *
 * What happens is said on standard output in lines of JSON. A pipe takes a line of this size whole.
 * buyer.py is the same in Python.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "dlock.h"

#define LOCK  "sale:{stock}"
#define ITEMS "items:{stock}"
#define SOLD  "sold:{stock}"

enum { LINE_MAX_BYTES = 1024, REPLY_MAX = 256, NUMBERS_MAX = 4096, EVENT_WAIT_MS = 1000 };

struct numbers {
    int64_t at[NUMBERS_MAX];
    int count;
};

/* The same for all threads; only next changes. */
static const char *stock_path, *script;
static unsigned seed;
static struct numbers halts, buyers;
static atomic_int next_buyer;
static dlock_client *client;
static dlock_lock *lock;

struct turn {
    int64_t buyer, token, left;
    int64_t asked, granted, checked; /* CLOCK_MONOTONIC, microseconds */
    int32_t state;
    const char *answer;
};

/* ---- saying */

static void write_all(int fd, const char *text, size_t size)
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

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
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

static void fail(const char *what, const char *why)
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

    dlock_client_stats(client, all, DLOCK_STAT_COUNT, NULL, NULL);
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

static int64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000) + time.tv_nsec / 1000;
}

/* ---- the stock */

static int connect_stock(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int stock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(stock_path) >= sizeof address.sun_path)
        fail(stock_path, "too long for a socket");
    memcpy(address.sun_path, stock_path, strlen(stock_path));
    if (stock < 0 || connect(stock, (struct sockaddr *)&address, sizeof address))
        fail(stock_path, strerror(errno));
    return stock;
}

/* A whole reply that is an integer or a text of digits: 1 and its value; 0 while bytes are missing. */
static int parse(const char *reply, int64_t *value)
{
    const char *end = strstr(reply, "\r\n");

    if (!end)
        return 0;
    if (*reply == '$' && reply[1] != '-') {
        reply = end + 1; /* in front of the digits, as the ':' of an integer */
        if (!strstr(reply + 1, "\r\n"))
            return 0;
    } else if (*reply != ':') {
        fail("stock", reply);
    }
    *value = strtoll(reply + 1, NULL, 10);
    return 1;
}

/* One command of plain words; its reply as a number. */
__attribute__((format(printf, 2, 3))) static int64_t ask(int stock, const char *format, ...)
{
    char text[LINE_MAX_BYTES], reply[REPLY_MAX];
    size_t size = 0;
    int64_t value;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    write_all(stock, text, strlen(text));
    for (;;) {
        ssize_t got = recv(stock, reply + size, sizeof reply - 1 - size, 0);

        if (got == 0 || (got < 0 && errno != EINTR))
            fail("stock", got ? strerror(errno) : "connection closed");
        size += got > 0 ? (size_t)got : 0;
        reply[size] = '\0';
        if (parse(reply, &value))
            return value;
    }
}

/* ---- a buyer */

static void think(int64_t buyer)
{
    unsigned state = seed + (unsigned)buyer;
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

/* Between reading and writing. Whether the conductor stops the process meanwhile is not seen. */
static void halt(const struct turn *turn)
{
    char counters[LINE_MAX_BYTES / 2];

    say("{\"is\": \"inside\", \"buyer\": %" PRId64 ", \"token\": %" PRId64 ", \"left\": %" PRId64
        ", \"asked\": %" PRId64 ", \"granted\": %" PRId64 ", \"stats\": %s}",
        turn->buyer, turn->token, turn->left, turn->asked, turn->granted, stats(counters));
    await_word();
}

/* What the lock is for: read, think, write. */
static const char *buy(int stock, struct turn *turn)
{
    turn->left = ask(stock, "HGET " ITEMS " left\r\n");
    think(turn->buyer);
    if (turn->left <= 0)
        return "sold out";
    if (in(&halts, turn->left))
        halt(turn);
    return ask(stock, "EVALSHA %s 2 " ITEMS " " SOLD " %" PRId64 " %" PRId64 " %" PRId64 "\r\n", script, turn->token,
               turn->left - 1, turn->buyer)
               ? "bought"
               : "refused";
}

/* The cause in the LOST event of this grant, 0 when none comes. */
static int64_t lost_event(int64_t token)
{
    int64_t until = now() + EVENT_WAIT_MS * 1000, cause = 0, left;
    dlock_event *event = dlock_event_new();

    while (!cause && (left = (until - now()) / 1000) > 0) {
        int64_t field[DLOCK_FIELD_COUNT] = {0};

        if (dlock_client_next(client, left, event, NULL) == DLOCK_OK &&
            dlock_event_unpack(event, field, DLOCK_FIELD_COUNT, NULL, NULL) == DLOCK_OK &&
            field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_LOST && field[DLOCK_FIELD_TOKEN] == token)
            cause = field[DLOCK_FIELD_CAUSE];
    }
    dlock_event_free(event);
    return cause;
}

static void tell_turn(const struct turn *turn)
{
    say("{\"is\": \"turn\", \"buyer\": %" PRId64 ", \"token\": %" PRId64 ", \"left\": %" PRId64 ", \"asked\": %" PRId64
        ", \"granted\": %" PRId64 ", \"checked\": %" PRId64 ", \"state\": \"%s\", \"answer\": \"%s\"}",
        turn->buyer, turn->token, turn->left, turn->asked, turn->granted, turn->checked, state_name(turn->state),
        turn->answer);
}

static void tell_lost(const struct turn *turn, dlock_status released)
{
    int64_t cause = lost_event(turn->token), told = now();

    say("{\"is\": \"lost\", \"buyer\": %" PRId64 ", \"token\": %" PRId64 ", \"cause\": %" PRId64 ", \"told\": %" PRId64
        ", \"release\": \"%s\"}",
        turn->buyer, turn->token, cause, told, dlock_status_name(released));
}

/* One turn with the lock. The turn is told before the release: who is killed later has told all it did. */
static const char *take_turn(int stock, int64_t buyer, dlock_error *error)
{
    struct turn turn = {.buyer = buyer, .asked = now()};
    dlock_status released;

    if (dlock_lock_acquire(lock, 0, -1, &turn.token, error) != DLOCK_OK)
        fail("acquire", dlock_error_message(error));
    turn.granted = now();
    turn.answer = buy(stock, &turn);
    dlock_lock_state(lock, 0, &turn.state, NULL);
    turn.checked = now();
    tell_turn(&turn);
    released = dlock_lock_release(lock, 0, error);
    if (released != DLOCK_OK && released != DLOCK_LOST)
        fail("release", dlock_error_message(error));
    if (released == DLOCK_LOST || turn.state == DLOCK_STATE_LOST)
        tell_lost(&turn, released);
    return turn.answer;
}

static void *serve(void *unused)
{
    dlock_error *error = dlock_error_new();
    int stock = connect_stock(), place;

    while ((place = atomic_fetch_add(&next_buyer, 1)) < buyers.count)
        while (strcmp(take_turn(stock, buyers.at[place], error), "refused") == 0)
            ; /* nothing was written: ask again */
    close(stock);
    dlock_error_free(error);
    return unused;
}

/* ---- the process */

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

static void open_lock(const char *url)
{
    dlock_error *error = dlock_error_new();

    if (dlock_client_open(url, NULL, &client, error) != DLOCK_OK ||
        dlock_lock_new(client, DLOCK_KIND_MUTEX, LOCK, strlen(LOCK), NULL, &lock, error) != DLOCK_OK)
        fail("open", dlock_error_message(error));
    dlock_error_free(error);
}

static void run_threads(int count)
{
    pthread_t *threads = calloc((size_t)count, sizeof *threads);

    for (int i = 0; i < count; i++)
        if (!threads || pthread_create(&threads[i], NULL, serve, NULL))
            fail("threads", "cannot start");
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

int main(int count, char **arguments)
{
    char counters[LINE_MAX_BYTES / 2];

    if (count != 8) {
        fputs("usage: buyer URL SOCKET SCRIPT THREADS SEED HALTS BUYERS\n", stderr);
        return 2;
    }
    stock_path = arguments[2];
    script = arguments[3];
    seed = (unsigned)strtoul(arguments[5], NULL, 10);
    read_numbers(arguments[6], &halts);
    read_numbers(arguments[7], &buyers);
    open_lock(arguments[1]);
    say("{\"is\": \"ready\"}");
    await_word();
    run_threads((int)strtol(arguments[4], NULL, 10));
    say("{\"is\": \"end\", \"stats\": %s}", stats(counters));
    dlock_client_close(client, 2000, NULL);
    dlock_lock_free(lock);
    dlock_client_free(client);
    return 0;
}
