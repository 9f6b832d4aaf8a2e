/*
 * handshake.c: the first commands on a connection: login, database, name, role.
 *
 * The handshake is one write: AUTH, SELECT, CLIENT SETNAME, ROLE, each only if it is needed. Replies come in that
 * order, so the lowest bit of conn->unanswered tells which command is answered next. A server may repeat a command in an
 * error, and AUTH holds the password: errors of AUTH are never shown.
 */
#include "call.h"

#include <stdio.h>
#include <string.h>

enum { SENT_AUTH = 1, SENT_SELECT = 2, SENT_NAME = 4, SENT_ROLE = 8 };

static int encode(struct dli_conn *conn, int argc, const char *const *argv)
{
    size_t sizes[3];
    for (int i = 0; i < argc; i++)
        sizes[i] = strlen(argv[i]);
    return dli_encode(&conn->out, argc, argv, sizes);
}

static int send_auth(struct dli_conn *conn)
{
    const char *user = conn->config->username, *password = conn->config->password;
    if (!user[0] && !password[0])
        return 0;
    conn->unanswered |= SENT_AUTH;
    if (user[0])
        return encode(conn, 3, (const char *[]){"AUTH", user, password});
    return encode(conn, 2, (const char *[]){"AUTH", password});
}

static int send_select(struct dli_conn *conn)
{
    char db[16];
    if (conn->config->db == 0)
        return 0;
    conn->unanswered |= SENT_SELECT;
    snprintf(db, sizeof db, "%d", conn->config->db);
    return encode(conn, 2, (const char *[]){"SELECT", db});
}

static int send_name(struct dli_conn *conn)
{
    char name[80];
    const char *given = conn->config->client_name;
    conn->unanswered |= SENT_NAME;
    snprintf(name, sizeof name, "dlock%s%s", given[0] ? "-" : "", given);
    return encode(conn, 3, (const char *[]){"CLIENT", "SETNAME", name});
}

/* A server that sentinels named must say itself whether it is the primary. */
static int send_role(struct dli_conn *conn)
{
    if (!conn->config->sentinels)
        return 0;
    conn->unanswered |= SENT_ROLE;
    return encode(conn, 1, (const char *[]){"ROLE"});
}

void dli_handshake_start(struct dli_conn *conn)
{
    if (send_auth(conn) || send_select(conn) || send_name(conn) || send_role(conn))
        dli_conn_fail(conn, DLOCK_OUT_OF_MEMORY, "cannot begin the handshake", "no memory");
}

/*
 * Whether the server refused us: it takes no connection (in place of the first reply), or it wants a password (in place
 * of any reply but AUTH's). FAILED then.
 */
static int is_refused(struct dli_conn *conn, const struct dli_reply *error)
{
    if (dli_error_begins(error, "DENIED "))
        dli_conn_fail(conn, DLOCK_DENIED, "refused the connection", "it is in protected mode");
    else if (dli_error_begins(error, "NOAUTH "))
        dli_conn_fail(conn, DLOCK_DENIED, "wants a password", NULL);
    else if (dli_error_begins(error, "ERR max number of clients"))
        dli_conn_fail(conn, DLOCK_SERVER_BUSY, "refused the connection", "it has too many clients");
    else
        return 0;
    return 1;
}

static void fail_auth(struct dli_conn *conn, dlock_status status)
{
    if (status == DLOCK_SERVER_ERROR || status == DLOCK_DENIED)
        dli_conn_fail(conn, DLOCK_DENIED, "refused the user name or password", NULL);
    else
        dli_conn_fail(conn, status, "did not accept the login now", NULL);
}

static void fail_select(struct dli_conn *conn, const struct dli_reply *error)
{
    char what[48], escaped[256];
    snprintf(what, sizeof what, "refused database %d", conn->config->db);
    dli_conn_fail(conn, dli_error_status(error), what, dli_escape_error(escaped, sizeof escaped, error));
}

static void take_role(struct dli_conn *conn, const struct dli_reply *reply)
{
    char escaped[256];
    if (reply->type == DLI_REPLY_ERROR)
        dli_conn_fail(conn, dli_error_status(reply), "does not say its role",
                      dli_escape_error(escaped, sizeof escaped, reply));
    else if (reply->type != DLI_REPLY_ARRAY || reply->size < 1 || reply->items[0].type != DLI_REPLY_TEXT)
        dli_conn_fail(conn, DLOCK_PROTOCOL_ERROR, "did not answer the handshake as Redis does", NULL);
    else if (strcmp(reply->items[0].text, "master") != 0)
        dli_conn_fail(conn, DLOCK_UNREACHABLE, "is not a primary, although a sentinel named it", NULL);
}

/* Process the reply to the handshake command; FAILED on failure. */
static void take_answer(struct dli_conn *conn, unsigned command, const struct dli_reply *reply)
{
    if (command == SENT_ROLE)
        take_role(conn, reply);
    else if (reply->type == DLI_REPLY_TEXT)
        return;
    else if (reply->type != DLI_REPLY_ERROR)
        dli_conn_fail(conn, DLOCK_PROTOCOL_ERROR, "did not answer the handshake as Redis does", NULL);
    else if (!is_refused(conn, reply) && command == SENT_AUTH)
        fail_auth(conn, dli_error_status(reply));
    else if (conn->state == DLI_CONN_HANDSHAKE && command == SENT_SELECT)
        fail_select(conn, reply);
}

static void take_answers(struct dli_conn *conn)
{
    const struct dli_reply *reply;
    while (conn->state == DLI_CONN_HANDSHAKE && conn->unanswered && dli_conn_next(conn, &reply) == 1) {
        unsigned command = conn->unanswered & -conn->unanswered;
        conn->unanswered &= ~command;
        take_answer(conn, command, reply);
    }
}

void dli_handshake_step(struct dli_conn *conn)
{
    dli_conn_flush(conn);
    while (conn->state == DLI_CONN_HANDSHAKE && conn->unanswered && dli_conn_receive(conn) == 1)
        take_answers(conn);
    if (conn->state != DLI_CONN_HANDSHAKE || conn->unanswered || conn->out.size > 0)
        return;
    if (dli_reader_left(conn->reader) > 0) {
        dli_conn_fail(conn, DLOCK_PROTOCOL_ERROR, "sent more than it was asked for", NULL);
        return;
    }
    explicit_bzero(conn->out.bytes, conn->out.room);
    conn->state = DLI_CONN_READY;
}

int dli_conn_demoted(const struct dli_conn *conn, const struct dli_reply *reply)
{
    return conn->config->leave && reply->type == DLI_REPLY_ERROR &&
           ((dli_error_status(reply) == DLOCK_SERVER_READ_ONLY && !dli_error_has(reply, "MISCONF ")) ||
            dli_error_has(reply, "MASTERDOWN ") || dli_error_has(reply, "LOADING "));
}
