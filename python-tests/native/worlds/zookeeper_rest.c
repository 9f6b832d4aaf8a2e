/*
 * zookeeper_rest.c: what operators and time do, and what is left at the end. See zookeeper.h.
 */
#include <string.h>

#include "zookeeper.h"

enum { SOON = 2 * W_MS };

/* ---- which sessions the members have heard of */

void z_ping_answer(int member)
{
    z.owes[member] = 0;
    for (struct z_session *session = z.sessions; session; session = session->next) {
        if (session->touched & 1 << member && !w.no_leader_until)
            z_keep(session);
        session->touched &= ~(1 << member);
    }
}

/* A leader that stood still asks at once. */
static void pings(void *what, int64_t number)
{
    int asks = !w.no_leader_until && z_busy_until(w.leader) == w.now;

    (void)what;
    if (number == INT64_MIN)
        return;
    for (int i = 0; i < W_MEMBERS && asks; i++) {
        z.owes[i] = 1;
        if (z_busy_until(i) == w.now)
            z_ping_answer(i);
    }
    w_at(w.now + (asks ? z.tick / 2 : SOON), pings, NULL, 0);
}

/* ---- what operators and time do */

/* Containers that are empty, and were not always. */
static void sweeps(void *what, int64_t number)
{
    (void)what;
    if (number == INT64_MIN)
        return;
    for (struct z_node *node = z.truth.nodes, *next; node && !w.no_leader_until; node = next) {
        next = node->next;
        if (node->container && node->made > 0 && node->children == 0)
            z_remove(node->path, -1, 0);
    }
    w_at(w.now + w_between(200 * W_MS, 5 * W_SECOND), sweeps, NULL, 0);
}

void z_time_begin(void)
{
    w_at(w.now + w_below(z.tick), pings, NULL, 0);
    w_at(w.now + w_below(W_SECOND), sweeps, NULL, 0);
}

/* A new leader has all that was committed, and gives all sessions their whole time again. */
static void elected(void)
{
    z_queues_end();
    z.truth.zxid = ((z.truth.zxid >> 32) + 1) << 32;
    z.rate = w.plan.calm ? 0 : w_between(-4000, 4000);
    z_follow();
    for (struct z_session *session = z.sessions; session; session = session->next) {
        session->touched = 0;
        z_keep(session);
    }
    z_calls_elected();
}

static int expire(void)
{
    if (!z.sessions || w.no_leader_until)
        return 0;
    w_trace("an operator ends session %lld", (long long)z.sessions->id);
    z_session_end(z.sessions, 1);
    return 1;
}

/* What an operator may take away: what stands in line, or is left of a latch. */
static int is_claim(const struct z_node *node)
{
    return w.latches ? w_latch_of(node->path + 1, strlen(node->path) - 1) >= 0 : node->owner != 0;
}

/* The number of a semaphore or a latch stays, with one node below that of a latch. So do containers. */
static int stays(const struct z_node *node)
{
    size_t size = strlen(node->path);

    if (w.latches && w_latch_of(node->path + 1, size - 1) >= 0)
        return node->children == 1;
    return node->container || size == 1 || (w.latches && strstr(node->path, "/count/")) ||
           (size > 6 && strcmp(node->path + size - 6, "/total") == 0);
}

static void remove_below(const char *path)
{
    size_t size = strlen(path);

    for (struct z_node *node = z.truth.nodes, *next; node; node = next) {
        next = node->next;
        if (strncmp(node->path, path, size) == 0 && node->path[size] == '/')
            z_remove(node->path, -1, 1);
    }
}

static int remove_claim(void)
{
    char path[W_KEY];
    const struct z_node *node = z.truth.nodes;

    while (node && (!is_claim(node) || w_percent(50)))
        node = node->next;
    if (!node || w.no_leader_until)
        return 0;
    memcpy(path, node->path, sizeof path);
    w_trace("an operator deletes %s", path);
    remove_below(path);
    return z_remove(path, -1, 1) == 0;
}

static int left(char out[W_KEY])
{
    int count = 0;

    for (const struct z_node *node = z.truth.nodes; node; node = node->next)
        if (!stays(node) && ++count)
            snprintf(out, W_KEY, "%s", node->path);
    for (const struct z_session *session = z.sessions; session; session = session->next, count++)
        snprintf(out, W_KEY, "session %lld", (long long)session->id);
    return count;
}

static int none(void)
{
    return 0;
}

static int64_t claim_of(const struct w_owner *owner)
{
    return owner->token;
}

const struct w_model w_zookeeper = {
    .scheme = "zookeeper",
    .without = 1U << W_FORGET | W_OF_MEMORY | W_OF_LATCHES,
    .begin = z_data_begin,
    .end = z_data_end,
    .opened = z_opened,
    .came = z_came,
    .gone = z_gone,
    .elected = elected,
    .expire = expire,
    .remove = remove_claim,
    .forget = none,
    .left = left,
    .claim_of = claim_of,
};
