/*
 * greeting.c: the first words on a connection, and what the error replies of a server mean.
 *
 * The greeting is one write: AUTH, SELECT, CLIENT SETNAME, ROLE, as far as they are needed. Replies come in that order, so the
 * lowest bit of conn->asked tells whose turn it is. A server may repeat our words in an error, and those of AUTH are
 * secret: its errors are never quoted.
 */
#include "redis/conn_inner.h"

#include <stdio.h>
#include <string.h>

enum { ASKED_AUTH = 1, ASKED_SELECT = 2, ASKED_NAME = 4, ASKED_ROLE = 8 };

/* ---- what errors mean */

static const struct {
    const char *code;
    dlock_status status;
} codes[] = {
    {"NOAUTH", DLOCK_DENIED},
    {"WRONGPASS", DLOCK_DENIED},
    {"NOPERM", DLOCK_DENIED},
    {"DENIED", DLOCK_DENIED},
    {"LOADING", DLOCK_SERVER_LOADING},
    {"MASTERDOWN", DLOCK_SERVER_LOADING},
    {"BUSY", DLOCK_SERVER_BUSY},
    {"OOM", DLOCK_SERVER_OUT_OF_MEMORY},
    {"READONLY", DLOCK_SERVER_READ_ONLY},
    {"WRONGTYPE", DLOCK_WRONG_KIND},
    {"NOREPLICAS", DLOCK_NOT_REPLICATED},
    {"TRYAGAIN", DLOCK_SERVER_LOADING},
    {"CLUSTERDOWN", DLOCK_SERVER_LOADING},
    {"MOVED", DLOCK_WRONG_SETUP},
    {"ASK", DLOCK_WRONG_SETUP},
    {"CROSSSLOT", DLOCK_WRONG_SETUP},
    {"MISCONF", DLOCK_SERVER_READ_ONLY},
};

/* Sentences of servers that give no code; scripts pass some of them on, with words in front. */
static const struct {
    const char *words;
    dlock_status status;
} sentences[] = {
    {"ERR max number of clients reached", DLOCK_SERVER_BUSY},
    {"The user executing the script can't", DLOCK_DENIED},
    {"ACL failure in script", DLOCK_DENIED},
};

static int has(const struct dli_reply *error, const char *words)
{
    return memmem(error->text, error->size, words, strlen(words)) != NULL;
}

/* The status of the code that text begins with, or DLOCK_OK. */
static dlock_status code_status(const char *text, size_t size)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        size_t length = strlen(codes[i].code);
        if (size >= length && memcmp(text, codes[i].code, length) == 0 && (size == length || text[length] == ' '))
            return codes[i].status;
    }
    return DLOCK_OK;
}

static int begins(const struct dli_reply *error, const char *words)
{
    size_t length = strlen(words);
    return error->size >= length && memcmp(error->text, words, length) == 0;
}

/* "ERR Error running script (call to f_<sha>): @user_script:2: @user_script: 2: -OOM command not allowed ..." */
static dlock_status wrapped_status(const struct dli_reply *error)
{
    for (size_t at = 0; at + 2 < error->size; at++) {
        if (memcmp(error->text + at, ": ", 2) != 0)
            continue;
        size_t from = at + 2 + (error->text[at + 2] == '-');
        dlock_status status = code_status(error->text + from, error->size - from);
        if (status)
            return status;
        if (error->size - from >= 8 && memcmp(error->text + from, "The user", 8) == 0)
            return DLOCK_DENIED;
    }
    return DLOCK_SERVER_ERROR;
}

dlock_status dli_error_status(const struct dli_reply *error)
{
    dlock_status status = code_status(error->text, error->size);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++) {
        if (has(error, sentences[i].words))
            return sentences[i].status;
    }
    return begins(error, "ERR Error running script") ? wrapped_status(error) : DLOCK_SERVER_ERROR;
}

/* Every release from 2.6 on names the line then. Who takes no writes refuses every one: the first has failed. */
int dli_error_midway(const struct dli_reply *error)
{
    return has(error, "user_script:") && !has(error, "READONLY ") && !has(error, "MISCONF ") &&
           !has(error, "NOREPLICAS ");
}

int dli_error_unknown(const struct dli_reply *error)
{
    return begins(error, "ERR unknown command") || has(error, "Unknown Redis command called from");
}

int dli_conn_demoted(const struct dli_conn *conn, const struct dli_reply *reply)
{
    return conn->config->finder && reply->type == DLI_REPLY_ERROR &&
           dli_error_status(reply) == DLOCK_SERVER_READ_ONLY && !has(reply, "MISCONF ");
}

/* ---- greeting */

static int encode(struct dli_conn *conn, int argc, const char *const *argv)
{
    size_t sizes[3];
    for (int i = 0; i < argc; i++)
        sizes[i] = strlen(argv[i]);
    return dli_encode(&conn->out, argc, argv, sizes);
}

static int ask_auth(struct dli_conn *conn)
{
    const char *user = conn->config->username, *password = conn->config->password;
    if (!user[0] && !password[0])
        return 0;
    conn->asked |= ASKED_AUTH;
    if (user[0])
        return encode(conn, 3, (const char *[]){"AUTH", user, password});
    return encode(conn, 2, (const char *[]){"AUTH", password});
}

static int ask_select(struct dli_conn *conn)
{
    char db[16];
    if (conn->config->db == 0)
        return 0;
    conn->asked |= ASKED_SELECT;
    snprintf(db, sizeof db, "%d", conn->config->db);
    return encode(conn, 2, (const char *[]){"SELECT", db});
}

static int ask_name(struct dli_conn *conn)
{
    char name[80];
    const char *given = conn->config->client_name;
    conn->asked |= ASKED_NAME;
    snprintf(name, sizeof name, "dlock%s%s", given[0] ? "-" : "", given);
    return encode(conn, 3, (const char *[]){"CLIENT", "SETNAME", name});
}

/* Who was found by the word of others says itself whether it is the primary. */
static int ask_role(struct dli_conn *conn)
{
    if (!conn->config->finder)
        return 0;
    conn->asked |= ASKED_ROLE;
    return encode(conn, 1, (const char *[]){"ROLE"});
}

void dli_greeting_start(struct dli_conn *conn)
{
    conn->state = DLI_CONN_GREETING;
    conn->want_write = 1;
    if (ask_auth(conn) || ask_select(conn) || ask_name(conn) || ask_role(conn))
        dli_conn_fail(conn, DLOCK_OUT_OF_MEMORY, "cannot be greeted", "no memory");
}

/* A server that takes no more connections says so instead of the first answer; one with a password to every word but AUTH. */
static int is_turned_away(struct dli_conn *conn, const struct dli_reply *error)
{
    if (begins(error, "DENIED "))
        dli_conn_fail(conn, DLOCK_DENIED, "refused the connection", "it is in protected mode");
    else if (begins(error, "NOAUTH "))
        dli_conn_fail(conn, DLOCK_DENIED, "wants a password", NULL);
    else if (begins(error, "ERR max number of clients"))
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
    char what[48], quote[256];
    snprintf(what, sizeof what, "refused database %d", conn->config->db);
    dli_conn_fail(conn, dli_error_status(error), what, dli_quote_error(quote, sizeof quote, error));
}

static void take_role(struct dli_conn *conn, const struct dli_reply *reply)
{
    char quote[256];
    if (reply->type == DLI_REPLY_ERROR)
        dli_conn_fail(conn, dli_error_status(reply), "does not say its role",
                      dli_quote_error(quote, sizeof quote, reply));
    else if (reply->type != DLI_REPLY_ARRAY || reply->size < 1 || reply->items[0].type != DLI_REPLY_TEXT)
        dli_conn_fail(conn, DLOCK_PROTOCOL_ERROR, "did not answer the greeting as Redis does", NULL);
    else if (strcmp(reply->items[0].text, "master") != 0)
        dli_conn_fail(conn, DLOCK_UNREACHABLE, "is not a primary, although a sentinel named it", NULL);
}

/* Judge the reply to the greeting asked; on trouble FAILED. */
static void take_answer(struct dli_conn *conn, unsigned asked, const struct dli_reply *reply)
{
    if (asked == ASKED_ROLE)
        take_role(conn, reply);
    else if (reply->type == DLI_REPLY_TEXT)
        return;
    else if (reply->type != DLI_REPLY_ERROR)
        dli_conn_fail(conn, DLOCK_PROTOCOL_ERROR, "did not answer the greeting as Redis does", NULL);
    else if (!is_turned_away(conn, reply) && asked == ASKED_AUTH)
        fail_auth(conn, dli_error_status(reply));
    else if (conn->state == DLI_CONN_GREETING && asked == ASKED_SELECT)
        fail_select(conn, reply);
}

static void take_answers(struct dli_conn *conn)
{
    const struct dli_reply *reply;
    while (conn->state == DLI_CONN_GREETING && conn->asked && dli_conn_next(conn, &reply) == 1) {
        unsigned asked = conn->asked & -conn->asked;
        conn->asked &= ~asked;
        take_answer(conn, asked, reply);
    }
}

void dli_greeting_step(struct dli_conn *conn)
{
    dli_conn_flush(conn);
    while (conn->state == DLI_CONN_GREETING && conn->asked && dli_conn_receive(conn) == 1)
        take_answers(conn);
    if (conn->state != DLI_CONN_GREETING || conn->asked || conn->out.size > 0)
        return;
    explicit_bzero(conn->out.bytes, conn->out.room);
    conn->state = DLI_CONN_READY;
}
