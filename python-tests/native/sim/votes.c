/*
 * votes.c: elections and renewals of engine/votes.c in a simulated world: virtual time, servers that act as the scripts
 * do, messages that are late, lost, doubled and overtake one another, connections that are cut, servers that forget.
 *
 *   votes FIRST COUNT GRANTS    so many seeds of so many grants each
 *
 * The seed chooses how many servers there are, how many must agree, and whether tokens begin with clocks (that differ)
 * or count from one. Up to 2 needed - servers - 1 of the servers forget everything now and then.
 *
 * Checked with each grant: nobody else has a valid one; its block of tokens is above all blocks before. The mutants
 * build it alone: cc -Isrc -Iabi votes.c src/engine/votes.c src/engine/lease.c
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lease.h"
#include "engine/votes.h"

enum { CLIENTS = 3, MESSAGES = 4096, LEASE = 300 * DLI_MS, ATTEMPT = 50 * DLI_MS, PPM = 10000 };

enum kind { ASK, FLOOR, DROP, RENEW, AGAIN, VOTED, WRITTEN, KEPT, FAILED, ACT };

struct message {
    int64_t at;
    enum kind kind;
    int client, server, round;
    int64_t id, a, b; /* of the attempt, and what its kind needs */
};

struct server {
    int64_t owner, expires, fence, clock; /* owner 0: free */
    int forgets;
};

enum state { IDLE, ASKING, HOLDING };

struct client {
    enum state state;
    int64_t id, stamp, limit, last, act_at, until;
    int spent, splits;
    struct dli_election election;
    int renewing, round;
    int64_t renewed_at, next;
    struct dli_tally tally;
    int lacks[DLI_VOTERS_MAX];
};

static struct {
    uint64_t noise;
    int64_t now, ids, block, above, granted_at;
    int servers, needed, clocks, lateness;
    int64_t cut_until[CLIENTS][DLI_VOTERS_MAX];
    struct server server[DLI_VOTERS_MAX];
    struct client client[CLIENTS];
    struct message heap[MESSAGES];
    int messages;
    int64_t grants, cut, lost, doubled, forgot, splits, topped, late, ordered, losses, blocks;
} w;

static int64_t any(int64_t range)
{
    w.noise ^= w.noise << 13;
    w.noise ^= w.noise >> 7;
    w.noise ^= w.noise << 17;
    return (int64_t)(w.noise % (uint64_t)range);
}

/* ---- messages by time */

static void post(struct message message)
{
    int i = w.messages++;

    if (w.messages == MESSAGES) {
        printf("too many messages\n");
        exit(2);
    }
    for (; i > 0 && w.heap[(i - 1) / 2].at > message.at; i = (i - 1) / 2)
        w.heap[i] = w.heap[(i - 1) / 2];
    w.heap[i] = message;
}

static struct message take(void)
{
    struct message first = w.heap[0], last = w.heap[--w.messages];
    int i = 0, child;

    while ((child = 2 * i + 1) < w.messages) {
        if (child + 1 < w.messages && w.heap[child + 1].at < w.heap[child].at)
            child++;
        if (last.at <= w.heap[child].at)
            break;
        w.heap[i] = w.heap[child];
        i = child;
    }
    w.heap[i] = last;
    return first;
}

/* Usually a millisecond, sometimes as long as a lease. */
static void send(struct message message)
{
    int to_server = message.kind < VOTED;

    if (w.now < w.cut_until[message.client][message.server]) {
        w.cut++;
        if (any(2))
            return;
        message.a = !to_server; /* it may have acted */
        message.kind = FAILED;
        message.at = w.now + 1 + any(DLI_MS);
        post(message);
        return;
    }
    if (any(150) == 0) {
        w.lost++;
        return;
    }
    message.at = w.now + 1 + any(any(w.lateness) ? 2 * DLI_MS : LEASE * 3 / 2);
    post(message);
    if (any(300) == 0) {
        w.doubled++;
        message.at += any(LEASE);
        post(message);
    }
}

static void act_at(int client, int64_t at)
{
    w.client[client].act_at = at;
    post((struct message){.at = at, .kind = ACT, .client = client});
}

/* ---- a server: acquire.lua, floor.lua, release.lua, renew.lua and again.lua */

static void answer(const struct message *asked, enum kind kind, int64_t a, int64_t b)
{
    send((struct message){.kind = kind,
                          .client = asked->client,
                          .server = asked->server,
                          .round = asked->round,
                          .id = asked->id,
                          .a = a,
                          .b = b});
}

static void ask_server(struct server *server, const struct message *m)
{
    int64_t before = server->fence, last = w.clocks ? w.now + server->clock : 0, tokens = 1;

    if (server->owner && server->owner != m->id) {
        answer(m, VOTED, 0, server->expires - w.now);
        return;
    }
    if (!server->owner) { /* as tokens.lua; without clocks any number above those before */
        last = w.clocks ? last : before + 1 + any(w.block);
        server->fence = last > before ? last : before + 1;
        if (before > 0)
            tokens = w.block < server->fence - before ? w.block : server->fence - before;
    }
    server->owner = m->id;
    server->expires = w.now + LEASE > server->expires ? w.now + LEASE : server->expires;
    answer(m, VOTED, server->fence - tokens + 1, tokens);
}

static void floor_server(struct server *server, const struct message *m)
{
    int stands = server->owner == m->id && (server->fence == m->a || server->fence == m->b) && server->fence <= m->b;

    if (stands)
        server->fence = m->b;
    answer(m, WRITTEN, stands, 0);
}

static void serve(const struct message *m)
{
    struct server *server = &w.server[m->server];

    if (server->owner && w.now >= server->expires)
        server->owner = server->expires = 0;
    if (m->kind == ASK) {
        ask_server(server, m);
    } else if (m->kind == FLOOR) {
        floor_server(server, m);
    } else if (m->kind == DROP && server->owner == m->id) {
        server->owner = server->expires = 0;
    } else if (m->kind == RENEW) {
        if (server->owner == m->id && server->expires < w.now + LEASE)
            server->expires = w.now + LEASE;
        answer(m, KEPT, server->owner == m->id, 0);
    } else if (m->kind == AGAIN && !server->owner) {
        server->owner = m->id;
        server->expires = w.now + LEASE;
        server->fence = server->fence > m->a ? server->fence : m->a;
        w.topped++;
    }
}

/* One client loses some servers for a while. */
static void cut(void)
{
    int c = (int)any(CLIENTS), most = 1 + (int)any(w.servers);

    for (int i = 0; i < most; i++)
        w.cut_until[c][any(w.servers)] = w.now + any(3 * LEASE);
}

static void forget(void)
{
    struct server *server = &w.server[any(w.servers)];

    if (any(6000) == 0)
        cut();
    if (!server->forgets || any(2000))
        return;
    server->owner = server->expires = server->fence = 0;
    w.forgot++;
}

/* ---- a client */

static void say(int c, int server, enum kind kind, int64_t a, int64_t b)
{
    send((struct message){
        .kind = kind, .client = c, .server = server, .round = w.client[c].round, .id = w.client[c].id, .a = a, .b = b});
}

static void give_up(int c)
{
    struct client *client = &w.client[c];

    for (int i = 0; client->spent && i < w.servers; i++)
        say(c, i, DROP, 0, 0);
    client->state = IDLE;
    act_at(c, w.now + any((int64_t)20 * DLI_MS << (client->splits < 3 ? client->splits : 3)));
}

static void fail(const char *what, int c)
{
    printf("%s: client %d at %" PRId64 ", servers %d, needed %d\n", what, c, w.now, w.servers, w.needed);
    exit(1);
}

static void granted(int c)
{
    struct client *client = &w.client[c];
    int64_t limit = dli_lease_limit(client->stamp, LEASE, PPM);

    client->spent = 1;
    if (w.now >= limit) {
        w.late++;
        give_up(c);
        return;
    }
    for (int i = 0; i < CLIENTS; i++)
        if (i != c && w.client[i].state == HOLDING && w.now < w.client[i].limit)
            fail("two holders", c);
    if (client->election.token <= w.above || client->election.last < client->election.token)
        fail("a token that is not above all before", c);
    w.above = client->last = client->election.last;
    w.blocks += client->election.last > client->election.token;
    w.grants++;
    w.granted_at = w.now;
    client->splits = 0;
    client->state = HOLDING;
    client->limit = limit;
    client->until = w.now + any(any(30) ? 20 * DLI_MS : 4 * LEASE);
    client->renewing = 0;
    client->next = client->stamp + LEASE / 3;
    act_at(c, client->next < client->until ? client->next : client->until);
}

/* What the election wants now, and whether it has ended. */
static void go_on(int c, int must)
{
    struct client *client = &w.client[c];
    struct dli_election *e = &client->election;
    enum dli_outcome outcome;
    int i;

    while ((i = dli_election_ask(e)) >= 0)
        say(c, i, ASK, 0, 0);
    while ((i = dli_election_write(e)) >= 0)
        say(c, i, FLOOR, e->voter[i].last, e->last);
    if (client->state != ASKING)
        return;
    outcome = dli_election_outcome(e);
    if (outcome == DLI_OUTCOME_WON) {
        granted(c);
    } else if (outcome != DLI_OUTCOME_OPEN || must) {
        client->spent = dli_election_spent(e);
        client->splits = dli_election_split(e) ? client->splits + 1 : 0;
        w.splits += client->splits > 0;
        give_up(c);
    }
}

/* An id that is not used up is requested again. */
static void begin(int c)
{
    struct client *client = &w.client[c];
    int in_order = client->splits >= 5 && client->splits % 2;

    if (client->spent || !client->id)
        client->id = ++w.ids;
    client->spent = 0;
    client->state = ASKING;
    client->stamp = w.now;
    client->round++;
    w.ordered += in_order;
    dli_election_init(&client->election, w.servers, w.needed, in_order);
    act_at(c, w.now + ATTEMPT);
    go_on(c, 0);
}

static void renew(int c)
{
    struct client *client = &w.client[c];

    client->renewing = 1;
    client->round++;
    client->renewed_at = w.now;
    client->tally = (struct dli_tally){.count = w.servers, .needed = w.needed};
    memset(client->lacks, 0, sizeof client->lacks);
    for (int i = 0; i < w.servers; i++)
        say(c, i, RENEW, 0, 0);
    client->next = w.now + ATTEMPT;
}

static void kept(int c, const struct message *m)
{
    struct client *client = &w.client[c];
    enum dli_verdict verdict;

    client->tally.yes += m->a == 1;
    client->tally.no += m->a == 0;
    client->lacks[m->server] = m->a == 0;
    verdict = dli_tally_verdict(&client->tally);
    if (verdict == DLI_VERDICT_NO) {
        w.losses++;
        give_up(c);
    } else if (verdict == DLI_VERDICT_YES) {
        int64_t limit = dli_lease_limit(client->renewed_at, LEASE, PPM);

        client->limit = limit > client->limit ? limit : client->limit;
        client->next = client->renewed_at + LEASE / 3 > w.now ? client->renewed_at + LEASE / 3 : w.now + 1;
        for (int i = 0; i < w.servers; i++)
            if (client->lacks[i])
                say(c, i, AGAIN, client->last, 0);
        memset(client->lacks, 0, sizeof client->lacks);
    }
}

static void act(int c)
{
    struct client *client = &w.client[c];
    int64_t at;

    if (client->act_at != w.now)
        return;
    if (client->state == IDLE) {
        begin(c);
        return;
    }
    if (client->state == ASKING) {
        go_on(c, 1);
        return;
    }
    if (w.now >= client->limit || w.now >= client->until) {
        w.losses += w.now >= client->limit;
        give_up(c);
        return;
    }
    if (w.now >= client->next)
        renew(c);
    at = client->next < client->until ? client->next : client->until;
    act_at(c, at < client->limit ? at : client->limit);
}

/* A doubled answer counts once: the transport delivers it once. */
static void receive(const struct message *m)
{
    struct client *client = &w.client[m->client];
    struct dli_voter *voter = &client->election.voter[m->server];

    if (m->id != client->id || m->round != client->round || client->state == IDLE)
        return;
    if (m->kind == VOTED && voter->vote == DLI_VOTE_OPEN) {
        dli_election_voted(&client->election, m->server, m->a ? DLI_TRY_GRANTED : DLI_TRY_HELD, m->a, m->b, m->b);
        go_on(m->client, 0);
    } else if (m->kind == WRITTEN && voter->vote == DLI_VOTE_WRITING) {
        dli_election_written(&client->election, m->server, (int)m->a);
        go_on(m->client, 0);
    } else if (m->kind == FAILED && client->state == ASKING && voter->vote == DLI_VOTE_OPEN) {
        dli_election_failed(&client->election, m->server, (int)m->a);
        go_on(m->client, 0);
    } else if (m->kind == FAILED && client->state == ASKING && voter->vote == DLI_VOTE_WRITING) {
        dli_election_written(&client->election, m->server, -1);
        go_on(m->client, 0);
    } else if (m->kind == KEPT && client->state == HOLDING && client->renewing && w.now < client->limit &&
               !client->lacks[m->server]) {
        kept(m->client, m);
    }
}

/* ---- a seed */

static void seed(int64_t number)
{
    memset(&w.server, 0, sizeof w.server);
    memset(&w.client, 0, sizeof w.client);
    w.noise = (uint64_t)number * UINT64_C(0x9e3779b97f4a7c15) | 1;
    w.now = w.ids = w.above = w.granted_at = w.messages = 0;
    for (int i = 0; i < 20; i++)
        any(2);
    w.servers = 3 + 2 * (int)any(3);
    w.needed = w.servers / 2 + 1 + (int)any(w.servers / 2);
    w.clocks = (int)any(2);
    w.lateness = any(2) ? 500 : 40;
    memset(w.cut_until, 0, sizeof w.cut_until);
    w.block = any(2) ? 1 : 65;
    for (int i = 0; i < w.servers; i++) {
        w.server[i].clock = any(LEASE);
        w.server[i].forgets = i < 2 * w.needed - w.servers - 1;
    }
    for (int c = 0; c < CLIENTS; c++)
        act_at(c, 1 + any(1000));
}

static void run(int64_t number, int64_t grants)
{
    int64_t until = w.grants + grants;

    seed(number);
    while (w.grants < until) {
        struct message m = take();

        w.now = m.at;
        forget();
        if (m.kind == ACT)
            act(m.client);
        else if (m.kind < VOTED)
            serve(&m);
        else
            receive(&m);
        if (w.now > w.granted_at + (int64_t)1000 * LEASE)
            fail("no grant any more", -1);
    }
}

int main(int argc, char **argv)
{
    int64_t first = argc > 1 ? atoll(argv[1]) : 1, count = argc > 2 ? atoll(argv[2]) : 10,
            grants = argc > 3 ? atoll(argv[3]) : 1000;

    for (int64_t i = 0; i < count; i++) {
        run(first + i, grants);
    }
    printf("grants %" PRId64 " cut %" PRId64 " lost %" PRId64 " doubled %" PRId64 " forgot %" PRId64 " splits %" PRId64
           " ordered %" PRId64 " topped %" PRId64 " late %" PRId64 " losses %" PRId64 " blocks %" PRId64 "\n",
           w.grants, w.cut, w.lost, w.doubled, w.forgot, w.splits, w.ordered, w.topped, w.late, w.losses, w.blocks);
    return 0;
}
