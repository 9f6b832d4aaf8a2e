/*
 * sentinel.c: asks sentinels for the primary, see sentinel.h. No mutex; first is an atomic.
 */
#include "sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "call.h"

enum { MS = 1000, PORT_MOST = 65535, REPLICAS_MOST = 10000 };

struct dli_sentinels *dli_sentinels_new(const struct dlock_options *options, const struct dli_site *site,
                                        struct dli_tls *tls, struct dli_reply_room *replies)
{
    struct dli_sentinels *sentinels =
        calloc(1, sizeof *sentinels + (size_t)site->count * sizeof sentinels->sentinel[0]);

    if (!sentinels)
        return NULL;
    sentinels->count = site->count;
    sentinels->counts = dli_options_replicas(options) < 0;
    memcpy(sentinels->service, site->service, sizeof sentinels->service);
    for (int i = 0; i < site->count; i++) {
        struct dli_conn_config *config = &sentinels->sentinel[i];

        config->protocol = &dli_redis_protocol;
        config->target = site->node[i];
        config->username = dli_options_text(options, DLI_OPT_SENTINEL_USERNAME);
        config->password = dli_options_text(options, DLI_OPT_SENTINEL_PASSWORD);
        config->client_name = dli_options_text(options, DLI_OPT_CLIENT_NAME);
        config->connect_timeout = options->number[DLI_OPT_CONNECT_TIMEOUT_MS] * MS;
        config->replies = replies;
        config->tls = tls;
    }
    return sentinels;
}

void dli_sentinels_free(struct dli_sentinels *sentinels)
{
    free(sentinels);
}

struct dli_sentinel_search *dli_sentinel_search_new(void)
{
    return calloc(1, sizeof(struct dli_sentinel_search));
}

/* The outer connection polls what the connection to the sentinel wants polled, until that one's deadline. */
static void follow(struct dli_conn *conn)
{
    const struct dli_sentinel_search *search = conn->search;

    conn->fd = search->sentinel->fd;
    conn->want_write = search->sentinel->want_write;
    conn->deadline = search->give_up;
    if (dli_conn_under_way(search->sentinel) && search->sentinel->deadline < conn->deadline)
        conn->deadline = search->sentinel->deadline;
}

/* No sentinel knew: fail with the reason of the one asked last. */
static void fail(struct dli_conn *conn, const dlock_error *reason)
{
    dlock_error last = *reason;
    size_t size = strlen(last.message);

    if (size > 0 && last.message[size - 1] == '.')
        last.message[size - 1] = '\0';
    dli_conn_fail(conn, last.code, "was not found", last.message);
}

/* Ask the next sentinel, or fail. Each has an equal share of the time left. */
static void query_next(struct dli_conn *conn, int64_t now)
{
    const struct dli_sentinels *sentinels = conn->config->sentinels;
    struct dli_sentinel_search *search = conn->search;
    dlock_error reason = {.code = DLOCK_OUT_OF_MEMORY, .message = "no memory"};
    int left = sentinels->count - search->tried;

    if (search->sentinel)
        reason = search->sentinel->reason;
    dli_sentinel_search_stop(conn);
    if (left == 0) {
        fail(conn, &reason);
        return;
    }
    search->at = (uint32_t)(search->at + (search->tried > 0)) % (uint32_t)sentinels->count;
    search->tried++;
    search->sent = search->known = 0;
    search->give_up = now + (conn->give_up - now) / left;
    if (!(search->sentinel = dli_conn_new(&sentinels->sentinel[search->at]))) {
        fail(conn, &reason);
        return;
    }
    dli_conn_start(search->sentinel, now);
    follow(conn);
}

void dli_sentinel_search_start(struct dli_conn *conn, int64_t now)
{
    const struct dli_sentinels *sentinels = conn->config->sentinels;

    conn->state = DLI_CONN_SEARCHING;
    conn->search->tried = 0;
    conn->search->at = __atomic_load_n(&sentinels->first, __ATOMIC_RELAXED) % (uint32_t)sentinels->count;
    query_next(conn, now);
}

void dli_sentinel_search_stop(struct dli_conn *conn)
{
    if (!conn->search || !conn->search->sentinel)
        return;
    dli_conn_free(conn->search->sentinel);
    conn->search->sentinel = NULL;
    conn->fd = -1;
    conn->want_write = 0;
}

static void put_question(struct dli_conn *conn)
{
    struct dli_sentinel_search *search = conn->search;
    const char *service = conn->config->sentinels->service;

    search->sent = 1;
    if (dli_encode_args(&search->sentinel->out, 3, (const char *[]){"SENTINEL", "get-master-addr-by-name", service}) ||
        (conn->config->sentinels->counts && dli_sentinel_ask_replicas(search->sentinel, service)))
        dli_conn_fail(search->sentinel, DLOCK_OUT_OF_MEMORY, "cannot be asked", "no memory");
}

/* A decimal number of at most most; -1: it is none. */
static int number_of(const struct dli_reply *word, int most)
{
    int number = 0;

    for (size_t i = 0; i < word->size; i++) {
        if (word->text[i] < '0' || word->text[i] > '9' || number > most)
            return -1;
        number = number * 10 + word->text[i] - '0';
    }
    return word->size > 0 && number <= most ? number : -1;
}

/* The host for messages. A sentinel may name it by a password; the URL, which names the sentinels' hosts, does not. */
static const char *shown_host(char *out, size_t size, const struct dli_conn *conn)
{
    const struct dli_sentinels *sentinels = conn->config->sentinels;
    const char *host = conn->search->found.host;
    const char *secrets[] = {conn->config->password, sentinels->sentinel[0].password};

    for (int i = 0; i < sentinels->count; i++)
        if (strcmp(sentinels->sentinel[i].target.host, host) == 0)
            return host;
    return dli_mask(out, size, &(struct dli_said){host, strlen(host), 0}, secrets, 2);
}

/* {host, port}. 0, or -1: the reply is something else. */
static int read_place(struct dli_conn *conn, const struct dli_reply *reply)
{
    const char *service = conn->config->sentinels->service, *named;
    const struct dli_reply *host = reply->items, *port;
    struct dli_target *found = &conn->search->found;
    char shown[104], masked[sizeof found->host];

    if (reply->type != DLI_REPLY_ARRAY || reply->size != 2)
        return -1;
    port = host + 1;
    if (host->type != DLI_REPLY_TEXT || port->type != DLI_REPLY_TEXT || !dli_is_host(host->text, host->size) ||
        number_of(port, PORT_MOST) < 1)
        return -1;
    memcpy(found->host, host->text, host->size + 1);
    found->port = number_of(port, PORT_MOST);
    named = shown_host(masked, sizeof masked, conn);
    snprintf(found->text, sizeof found->text,
             strchr(found->host, ':') ? "[%s]:%d (primary of '%s')" : "%s:%d (primary of '%s')", named, found->port,
             dli_escape(shown, sizeof shown, service, strlen(service)));
    return 0;
}

/* Process a sentinel's answer. 1: the primary is known. */
static int judge(struct dli_conn *conn, const struct dli_reply *reply)
{
    struct dli_sentinel_search *search = conn->search;
    struct dli_conn *sentinel = search->sentinel;
    char escaped[200];

    if (reply->type == DLI_REPLY_ERROR)
        dli_conn_fail(sentinel, dli_error_status(reply), "is no sentinel, or refuses to say where the primary is",
                      dli_escape_error(escaped, sizeof escaped, reply));
    else if (reply->type == DLI_REPLY_NIL)
        dli_conn_fail(sentinel, DLOCK_UNREACHABLE, "knows no such service", NULL);
    else if (read_place(conn, reply))
        dli_conn_fail(sentinel, DLOCK_PROTOCOL_ERROR, "does not answer as a sentinel does", NULL);
    else
        return 1;
    return 0;
}

int dli_sentinel_ask_replicas(struct dli_conn *sentinel, const char *service)
{
    return dli_encode_args(&sentinel->out, 3, (const char *[]){"SENTINEL", "master", service});
}

int dli_sentinel_read_replicas(const struct dli_reply *reply)
{
    static const char name[] = "num-slaves";
    int number = -1;

    for (size_t i = 0; reply->type == DLI_REPLY_ARRAY && i + 1 < reply->size; i += 2) {
        const struct dli_reply *said = &reply->items[i];

        if (said[0].type == DLI_REPLY_TEXT && said[1].type == DLI_REPLY_TEXT && strcmp(said[0].text, name) == 0)
            number = number_of(&said[1], REPLICAS_MOST);
    }
    return number;
}

/* 1: the sentinel can say how many replicas there are. A census counts them. */
static int can_count(struct dli_conn *conn, const struct dli_reply *reply)
{
    char escaped[200];

    if (dli_sentinel_read_replicas(reply) >= 0)
        return 1;
    if (reply->type == DLI_REPLY_ERROR)
        dli_conn_fail(conn->search->sentinel, dli_error_status(reply), "does not say how many replicas there are",
                      dli_escape_error(escaped, sizeof escaped, reply));
    else
        dli_conn_fail(conn->search->sentinel, DLOCK_PROTOCOL_ERROR, "does not say how many replicas there are", NULL);
    return 0;
}

/* Send, and process the answers that are there. 1: the primary is known. */
static int exchange_commands(struct dli_conn *conn)
{
    struct dli_conn *sentinel = conn->search->sentinel;
    const struct dli_reply *reply;

    if (!conn->search->sent && dli_conn_quiet(sentinel))
        put_question(conn);
    dli_conn_flush(sentinel);
    if (sentinel->state != DLI_CONN_READY || dli_conn_receive(sentinel) != 1)
        return 0;
    while (sentinel->state == DLI_CONN_READY && dli_conn_next(sentinel, &reply) == 1) {
        if (conn->search->known)
            return can_count(conn, reply);
        conn->search->known = judge(conn, reply);
        if (conn->search->known && !conn->config->sentinels->counts)
            return 1;
    }
    return 0;
}

void dli_sentinel_search_step(struct dli_conn *conn, int64_t now)
{
    struct dli_sentinel_search *search = conn->search;
    struct dli_sentinels *sentinels = conn->config->sentinels;

    if (dli_conn_under_way(search->sentinel))
        dli_conn_step(search->sentinel, now);
    if (search->sentinel->state == DLI_CONN_READY && exchange_commands(conn)) {
        __atomic_store_n(&sentinels->first, search->at, __ATOMIC_RELAXED);
        dli_sentinel_search_stop(conn);
        conn->target = &search->found;
        conn->addr_known = 0; /* the primary may be another server now */
        dli_conn_go(conn, now);
        return;
    }
    if (search->sentinel->state != DLI_CONN_FAILED && now >= search->give_up)
        dli_conn_fail(search->sentinel, DLOCK_UNREACHABLE, "did not answer in time", NULL);
    while (search->sentinel && search->sentinel->state == DLI_CONN_FAILED) /* some fail at once */
        query_next(conn, now);
    if (search->sentinel)
        follow(conn);
}
