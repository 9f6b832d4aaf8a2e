/*
 * buyer_lock.c: a turn with the lock: lock, read the stock, think, write what is left, both with the token, release.
 * Who sells the last item closes the gate, if that is the variant: whoever waits is turned away.
 */
#include "buyer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ITEMS "items:{stock}"
#define SOLD  "sold:{stock}"

enum { EVENT_WAIT_MS = 1000, GATE_MS = 600000 };

struct desk {
    int stock;
    dlock_error *error;
};

/* ---- the stock */

static int connect_stock(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int stock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(sale.stock_path) >= sizeof address.sun_path)
        fail(sale.stock_path, "too long for a socket");
    memcpy(address.sun_path, sale.stock_path, strlen(sale.stock_path));
    if (stock < 0 || connect(stock, (struct sockaddr *)&address, sizeof address))
        fail(sale.stock_path, strerror(errno));
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

/* ---- a turn */

/* What the lock is for: read, think, write. */
static const char *buy(int stock, struct turn *turn)
{
    turn->left = ask(stock, "EVALSHA %s 2 " ITEMS " " SOLD " %" PRId64 "\r\n", sale.script, turn->token);
    if (turn->left < 0)
        return "refused";
    think(turn->buyer);
    if (turn->left == 0)
        return "sold out";
    halt_at(turn);
    return ask(stock, "EVALSHA %s 2 " ITEMS " " SOLD " %" PRId64 " %" PRId64 " %" PRId64 "\r\n", sale.script,
               turn->token, turn->left - 1, turn->buyer) >= 0
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

        if (dlock_client_next(sale.client, left, event, NULL) == DLOCK_OK &&
            dlock_event_unpack(event, field, DLOCK_FIELD_COUNT, NULL, NULL) == DLOCK_OK &&
            field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_LOST && field[DLOCK_FIELD_TOKEN] == token)
            cause = field[DLOCK_FIELD_CAUSE];
    }
    dlock_event_free(event);
    return cause;
}

static void tell_lost(const struct turn *turn, dlock_status released)
{
    int64_t cause = lost_event(turn->token), told = now();

    say("{\"is\": \"lost\", \"buyer\": %" PRId64 ", \"token\": %" PRId64 ", \"cause\": %" PRId64 ", \"told\": %" PRId64
        ", \"release\": \"%s\"}",
        turn->buyer, turn->token, cause, told, dlock_status_name(released));
}

static void close_gate(const struct turn *turn, dlock_error *error)
{
    int64_t asked = now();

    if (dlock_lock_close_gate(sale.lock, GATE_MS, error) != DLOCK_OK)
        fail("close_gate", dlock_error_message(error));
    say("{\"is\": \"closed\", \"buyer\": %" PRId64 ", \"token\": %" PRId64 ", \"asked\": %" PRId64
        ", \"closed\": %" PRId64 "}",
        turn->buyer, turn->token, asked, now());
}

static const char *turned_away(const struct turn *turn)
{
    say("{\"is\": \"turned away\", \"buyer\": %" PRId64 ", \"asked\": %" PRId64 ", \"told\": %" PRId64 "}", turn->buyer,
        turn->asked, now());
    return "turned away";
}

/* The turn is told before the release: who is killed later has told all it did. */
const char *lock_turn(struct desk *desk, int64_t buyer)
{
    struct turn turn = {.buyer = buyer, .asked = now()};
    dlock_status status = dlock_lock_acquire(sale.lock, 0, -1, &turn.token, desk->error);

    if (status == DLOCK_GATE_CLOSED)
        return turned_away(&turn);
    if (status != DLOCK_OK)
        fail("acquire", dlock_error_message(desk->error));
    turn.granted = now();
    turn.answer = buy(desk->stock, &turn);
    dlock_lock_state(sale.lock, 0, &turn.state, NULL);
    turn.checked = now();
    tell_turn(&turn);
    if (sale.variant == GATE && turn.left == 1 && strcmp(turn.answer, "bought") == 0)
        close_gate(&turn, desk->error);
    status = dlock_lock_release(sale.lock, 0, desk->error);
    if (status != DLOCK_OK && status != DLOCK_LOST)
        fail("release", dlock_error_message(desk->error));
    if (status == DLOCK_LOST || turn.state == DLOCK_STATE_LOST)
        tell_lost(&turn, status);
    return turn.answer;
}

/* ---- a thread's own */

struct desk *desk_open(void)
{
    struct desk *desk = calloc(1, sizeof *desk);

    if (!desk || !(desk->error = dlock_error_new()))
        fail("desk", "no memory");
    desk->stock = connect_stock();
    return desk;
}

void desk_close(struct desk *desk)
{
    close(desk->stock);
    dlock_error_free(desk->error);
    free(desk);
}
