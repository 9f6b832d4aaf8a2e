/*
 * wire.c: stands in for the connections of the library (net/conn.h), and carries bytes to the model and back, with faults. The
 * linker replaces the functions of net/ by those that begin with __wrap_.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "worlds.h"

struct w_chunk {
    struct w_wire *wire;
    struct w_chunk *next; /* in wire.unread */
    size_t size;
    char bytes[];
};

static struct w_wire *wire_of(const struct dli_conn *conn)
{
    for (struct w_wire *wire = w.wires; wire; wire = wire->next)
        if (wire->conn == conn)
            return wire;
    return NULL;
}

static struct w_chunk *chunk_new(struct w_wire *wire, const void *bytes, size_t size)
{
    struct w_chunk *chunk = malloc(sizeof *chunk + size);

    if (!chunk)
        abort();
    *chunk = (struct w_chunk){.wire = wire, .size = size};
    memcpy(chunk->bytes, bytes, size);
    return chunk;
}

static int64_t delay(void)
{
    return w_fault(W_DELAY) ? w_between(20 * W_MS, 600 * W_MS) : w_between(50, w.plan.delay);
}

/* ---- the server's end */

int w_serves(int member)
{
    return w.now >= w.member_down_until[member];
}

static void closed(struct w_wire *wire)
{
    if (!wire->open)
        return;
    wire->open = 0;
    w.model->gone(wire);
}

static void ends_here(void *what, int64_t number)
{
    if (number != INT64_MIN)
        closed(what);
}

static void ends_there(void *what, int64_t number)
{
    struct w_wire *wire = what;

    if (number == INT64_MIN || !wire->conn || wire->silent)
        return;
    wire->ended = 1;
    w_process_turn(wire->process);
}

static int64_t in_order(int64_t *last, int64_t at)
{
    return *last = at > *last ? at : *last;
}

void w_hang_up(struct w_wire *wire)
{
    closed(wire);
    w_at(in_order(&wire->down_at, w.now + delay()), ends_there, wire, 0);
}

/* Both sides notice it, each at its time. */
void w_cut(struct w_wire *wire)
{
    wire->up_at = wire->down_at = INT64_MAX / 2; /* nothing that is sent from now on arrives */
    w_at(w.now + w_between(0, 200 * W_MS), ends_here, wire, 0);
    w_at(w.now + w_between(0, 200 * W_MS), ends_there, wire, 0);
}

static void came_down(void *what, int64_t number)
{
    struct w_chunk *chunk = what;
    struct w_wire *wire = chunk->wire;

    if (number != INT64_MIN && wire->conn && !wire->silent && !wire->ended) {
        if (dli_buffer_add(&wire->in, chunk->bytes, chunk->size))
            abort();
        w_process_turn(wire->process);
    }
    free(chunk);
}

void w_reply(struct w_wire *wire, const void *bytes, size_t size)
{
    if (!wire->open || wire->silent || wire->down_at >= INT64_MAX / 2)
        return;
    if (w_fault(W_REPLY_LOST)) {
        w_cut(wire);
        return;
    }
    w_at(in_order(&wire->down_at, w.now + delay()), came_down, chunk_new(wire, bytes, size), 0);
}

/* A member that stands still, and all while there is no leader, answer later. */
static int64_t served_at(int member)
{
    int64_t at = w.member_down_until[member];

    return w.no_leader_until > at ? w.no_leader_until : at;
}

/* All that came while the server read nothing. */
static void reads_again(void *what, int64_t number)
{
    struct w_wire *wire = what;

    if (number != INT64_MIN && wire->open && served_at(wire->member) > w.now) {
        w_at(served_at(wire->member), reads_again, wire, 0);
        return;
    }
    while (wire->unread) {
        struct w_chunk *chunk = wire->unread;

        wire->unread = chunk->next;
        if (number != INT64_MIN && wire->open)
            w.model->came(wire, chunk->bytes, chunk->size);
        free(chunk);
    }
}

static void came_up(void *what, int64_t number)
{
    struct w_chunk *chunk = what, **at;
    struct w_wire *wire = chunk->wire;

    if (number == INT64_MIN || !wire->open) {
        free(chunk);
    } else if (wire->unread || served_at(wire->member) > w.now) {
        if (!wire->unread)
            w_at(served_at(wire->member), reads_again, wire, 0);
        for (at = &wire->unread; *at; at = &(*at)->next)
            ;
        *at = chunk;
    } else {
        w.model->came(wire, chunk->bytes, chunk->size);
        free(chunk);
    }
}

static void arrives(void *what, int64_t number)
{
    struct w_wire *wire = what;

    if (number == INT64_MIN || !wire->conn)
        return;
    if (wire->process->crashed || !w_serves(wire->member)) {
        ends_there(wire, 0);
        return;
    }
    wire->open = 1;
    w.model->opened(wire);
    wire->conn->state = DLI_CONN_HANDSHAKE;
    wire->conn->config->protocol->greet(wire->conn);
    w_process_turn(wire->process);
}

void w_wires_of(int member, void (*each)(struct w_wire *wire))
{
    for (struct w_wire *wire = w.wires, *next; wire; wire = next) {
        next = wire->next;
        if (wire->open && (member < 0 || wire->member == member))
            each(wire);
    }
}

void w_wires_end(void)
{
    for (struct w_wire *wire = w.wires, *next; wire; wire = next) {
        next = wire->next;
        closed(wire);
        reads_again(wire, INT64_MIN);
        dli_buffer_free(&wire->in);
        free(wire);
    }
    w.wires = NULL;
}

/* ---- the client's end */

static void let_go(const struct dli_conn *conn)
{
    struct w_wire *wire = wire_of(conn);

    if (!wire)
        return;
    wire->conn = NULL;
    dli_buffer_free(&wire->in);
    w_at(in_order(&wire->up_at, w.now + delay()), ends_here, wire, 0);
}

void __real_dli_conn_close(struct dli_conn *conn);
void __wrap_dli_conn_close(struct dli_conn *conn);
void __wrap_dli_conn_close(struct dli_conn *conn)
{
    let_go(conn);
    __real_dli_conn_close(conn);
}

void __real_dli_conn_free(struct dli_conn *conn);
void __wrap_dli_conn_free(struct dli_conn *conn);
void __wrap_dli_conn_free(struct dli_conn *conn)
{
    if (conn)
        let_go(conn);
    __real_dli_conn_free(conn);
}

void __real_dli_conn_fail(struct dli_conn *conn, dlock_status status, const char *what, const char *detail);
void __wrap_dli_conn_fail(struct dli_conn *conn, dlock_status status, const char *what, const char *detail);
void __wrap_dli_conn_fail(struct dli_conn *conn, dlock_status status, const char *what, const char *detail)
{
    let_go(conn);
    __real_dli_conn_fail(conn, status, what, detail);
    w_trace("process %d: %s", w.current->index, conn->reason.message);
}

void __wrap_dli_conn_go(struct dli_conn *conn, int64_t now);
void __wrap_dli_conn_go(struct dli_conn *conn, int64_t now)
{
    struct w_wire *wire = calloc(1, sizeof *wire);

    if (!wire)
        abort();
    w_trace("process %d connects to %s", w.current->index, conn->target->text);
    wire->process = w.current;
    wire->conn = conn;
    wire->member = conn->target->port % 10;
    wire->next = w.wires;
    w.wires = wire;
    conn->state = DLI_CONN_CONNECTING;
    conn->deadline = now + conn->config->connect_timeout;
    w_at(w.now + delay(), arrives, wire, 0);
}

void __wrap_dli_conn_step(struct dli_conn *conn, int64_t now);
void __wrap_dli_conn_close(struct dli_conn *conn);

void __wrap_dli_conn_start(struct dli_conn *conn, int64_t now);
void __wrap_dli_conn_start(struct dli_conn *conn, int64_t now)
{
    const struct dli_protocol *protocol = conn->config->protocol;

    __wrap_dli_conn_close(conn);
    conn->reason = (dlock_error){.code = DLOCK_OK};
    conn->target = &conn->config->target;
    conn->deadline = conn->give_up = now + conn->config->connect_timeout;
    if (!protocol->search || !protocol->search(conn, now))
        __wrap_dli_conn_go(conn, now);
    else
        __wrap_dli_conn_step(conn, now);
}

void __wrap_dli_conn_step(struct dli_conn *conn, int64_t now)
{
    const struct w_wire *wire;

    if (conn->state == DLI_CONN_SEARCHING)
        conn->config->protocol->search_step(conn, now);
    wire = wire_of(conn);
    if (conn->state == DLI_CONN_CONNECTING && (!wire || wire->ended))
        __wrap_dli_conn_fail(conn, DLOCK_UNREACHABLE, "cannot be reached", NULL);
    if (conn->state == DLI_CONN_HANDSHAKE)
        conn->config->protocol->greet_step(conn);
    if (dli_conn_under_way(conn) && now >= conn->deadline)
        __wrap_dli_conn_fail(conn, DLOCK_UNREACHABLE, "cannot be reached", NULL);
}

/* What is sent with a cut connection may arrive nevertheless, or much later: nobody can know. */
static void send_up(struct w_wire *wire, const void *bytes, size_t size)
{
    struct w_chunk *chunk;

    if (wire->silent || wire->up_at >= INT64_MAX / 2)
        return;
    if (w_fault(W_SILENT)) {
        wire->silent = 1;
        return;
    }
    if (w_fault(W_REQUEST_LOST)) {
        w_cut(wire);
        return;
    }
    chunk = chunk_new(wire, bytes, size);
    if (w_fault(W_LATE)) { /* the client gives up, the server reads it some time */
        wire->silent = 1;
        w_at(in_order(&wire->up_at, w.now + w_between(10 * W_MS, 4 * W_SECOND)), came_up, chunk, 0);
        return;
    }
    w_at(in_order(&wire->up_at, w.now + delay()), came_up, chunk, 0);
    if (w_fault(W_CUT))
        w_cut(wire);
}

void __wrap_dli_conn_flush(struct dli_conn *conn);
void __wrap_dli_conn_flush(struct dli_conn *conn)
{
    struct w_wire *wire = wire_of(conn);

    if ((conn->state != DLI_CONN_READY && conn->state != DLI_CONN_HANDSHAKE) || conn->out.size == 0 || !wire)
        return;
    w.stats.calls++;
    send_up(wire, conn->out.bytes, conn->out.size);
    dli_buffer_drop(&conn->out, conn->out.size);
}

int __wrap_dli_conn_send(struct dli_conn *conn);
int __wrap_dli_conn_send(struct dli_conn *conn)
{
    __wrap_dli_conn_flush(conn);
    return 0;
}

ssize_t __wrap_dli_conn_read(struct dli_conn *conn, char *bytes, size_t size);
ssize_t __wrap_dli_conn_read(struct dli_conn *conn, char *bytes, size_t size)
{
    struct w_wire *wire = wire_of(conn);

    if (!wire || (wire->ended && wire->in.size == 0))
        return 0;
    if (wire->in.size == 0) {
        errno = EAGAIN;
        return -1;
    }
    size = size < wire->in.size ? size : wire->in.size;
    memcpy(bytes, wire->in.bytes, size);
    dli_buffer_drop(&wire->in, size);
    return (ssize_t)size;
}

/* The world goes on meanwhile. */
void __wrap_dli_conn_wait(const struct dli_conn *conn, short events, int64_t deadline);
void __wrap_dli_conn_wait(const struct dli_conn *conn, short events, int64_t deadline)
{
    struct w_process *self = w.current;
    const struct w_wire *wire = wire_of(conn);
    int64_t until = w_when(self, deadline);

    (void)events;
    while (!w.over && w.now < until && wire && wire->in.size == 0 && !wire->ended && w_step(until))
        w.current = self;
    if ((w.over || !wire) && w.now < until)
        w.now = until;
    w.current = self;
}
