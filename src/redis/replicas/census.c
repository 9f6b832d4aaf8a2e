/*
 * census.c: asks all sentinels how many replicas there are, again and again. Threads: see census.h.
 */
#include "census.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

enum {
    PERIOD = 2000000,
    PAUSE = 60000000,   /* without a request: nobody is asked any more */
    PATIENCE = 500000,  /* how long a request waits for a sentinel that is silent */
    LINKED_MOST = 1024, /* replicas of one primary that are told apart */
};

void dli_census_init(struct dli_census *census, const struct dli_sentinels *sentinels)
{
    memset(census, 0, sizeof *census);
    census->sentinels = sentinels;
    census->settled = !sentinels;
}

static void part(struct dli_census_member *member)
{
    dli_conn_free(member->conn);
    member->conn = NULL;
    member->asked = 0;
}

void dli_census_fini(struct dli_census *census)
{
    for (int i = 0; i < DLI_NODES_MAX; i++)
        part(&census->member[i]);
}

int dli_census_ready(const struct dli_census *census)
{
    return census->settled;
}

/* ---- one sentinel */

static void ask(const struct dli_census *census, struct dli_census_member *member)
{
    if (member->asked || !dli_conn_quiet(member->conn))
        return;
    member->asked = 1;
    if (dli_sentinel_ask_replicas(member->conn, census->sentinels->service))
        part(member);
}

static void hear(struct dli_census_member *member, const struct dli_reply *reply)
{
    int count = dli_sentinel_read_replicas(reply);

    member->asked = 0;
    member->heard = 1;
    if (count >= 0)
        member->count = count;
    else
        part(member);
}

static void go_on(const struct dli_census *census, struct dli_census_member *member, int64_t now)
{
    const struct dli_reply *reply;

    if (dli_conn_under_way(member->conn))
        dli_conn_step(member->conn, now);
    if (member->conn->state == DLI_CONN_READY && !member->heard)
        ask(census, member);
    if (member->conn && member->asked && member->conn->state == DLI_CONN_READY) {
        dli_conn_flush(member->conn);
        if (dli_conn_receive(member->conn) == 1 && dli_conn_next(member->conn, &reply) == 1)
            hear(member, reply);
    }
    if (member->conn && member->conn->state == DLI_CONN_FAILED) {
        part(member);
        member->heard = 1;
    }
}

/* ---- rounds */

static void begin_round(struct dli_census *census, int64_t now)
{
    census->begun = now;
    for (int i = 0; i < census->sentinels->count; i++) {
        struct dli_census_member *member = &census->member[i];

        if (member->asked) /* since the last round */
            part(member);
        member->heard = 0;
        if (!member->conn && (member->conn = dli_conn_new(&census->sentinels->sentinel[i])))
            dli_conn_start(member->conn, now);
    }
}

static void sum_up(struct dli_census *census, int64_t now)
{
    int most = 0, heard = 0, waited = now - census->begun >= PATIENCE;

    for (int i = 0; i < census->sentinels->count; i++) {
        const struct dli_census_member *member = &census->member[i];

        most = member->count > most ? member->count : most;
        heard += member->heard || !member->conn;
    }
    census->listed.count = most;
    if (heard < census->sentinels->count && !waited)
        return;
    census->settled = 1;
    census->listed.at = census->begun;
}

static void stop(struct dli_census *census)
{
    for (int i = 0; i < census->sentinels->count; i++)
        part(&census->member[i]);
    census->begun = 0;
    census->settled = 0;
}

void dli_census_step(struct dli_census *census, int busy, int64_t now)
{
    if (!census->sentinels)
        return;
    if (busy)
        census->wanted = now;
    if (census->begun && now - census->wanted >= PAUSE)
        stop(census);
    if (census->wanted && now - census->wanted < PAUSE && (!census->begun || now - census->begun >= PERIOD))
        begin_round(census, now);
    if (!census->begun)
        return;
    for (int i = 0; i < census->sentinels->count; i++)
        if (census->member[i].conn)
            go_on(census, &census->member[i], now);
    sum_up(census, now);
}

int64_t dli_census_alarm(const struct dli_census *census)
{
    int64_t at;

    if (!census->begun)
        return INT64_MAX;
    at = census->begun +
         (census->listed.at == census->begun ? PERIOD : PATIENCE); /* a silent one is waited for each time */
    for (int i = 0; i < census->sentinels->count; i++) {
        const struct dli_conn *conn = census->member[i].conn;

        if (conn && dli_conn_under_way(conn) && conn->deadline < at)
            at = conn->deadline;
    }
    return at;
}

int dli_census_fds(const struct dli_census *census, struct pollfd *fds)
{
    int count = 0;

    for (int i = 0; census->begun && i < census->sentinels->count; i++) {
        const struct dli_census_member *member = &census->member[i];

        if (member->conn && member->conn->fd >= 0 && (member->asked || dli_conn_under_way(member->conn)))
            fds[count++] = dli_conn_poll(member->conn);
    }
    return count;
}

/* ---- what the primary says */

/* The place in a line "slave0:ip=10.0.0.1,port=6379,state=online,...": from "ip=" up to ",state=". NULL: it is none. */
static const char *place_in(const char *line, size_t size, size_t *length)
{
    const char *place = size > 5 && memcmp(line, "slave", 5) == 0 ? memmem(line, size, ":ip=", 4) : NULL;
    const char *end = place ? memmem(place, size - (size_t)(place - line), ",state=", 7) : NULL;

    if (!end || memmem(place, (size_t)(end - place) + 1, ",port=0,", 8)) /* without a port: no server, but a tool */
        return NULL;
    *length = (size_t)(end - place);
    return place;
}

int dli_linked_replicas(const char *text, size_t size)
{
    const char *seen[LINKED_MOST], *end = text + size;
    size_t length[LINKED_MOST];
    int count = 0;

    for (const char *line = text, *stop; line < end && count < LINKED_MOST; line = stop + 1) {
        int known = 0;

        stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        if (!(seen[count] = place_in(line, (size_t)(stop - line), &length[count])))
            continue;
        for (int i = 0; i < count && !known; i++)
            known = length[i] == length[count] && memcmp(seen[i], seen[count], length[i]) == 0;
        count += !known;
    }
    return count;
}
