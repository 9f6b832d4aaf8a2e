/*
 * etcd_data.c: keys with revisions, leases, history. See etcd.h.
 */
#include <stdlib.h>
#include <string.h>

#include "etcd.h"

struct e_data e;

enum { LATE = 500 * W_MS };

/* ---- keys */

static int order(const char *a, size_t a_size, struct e_bytes b)
{
    int by = memcmp(a, b.bytes, a_size < b.size ? a_size : b.size);

    return by ? by : a_size < b.size ? -1 : a_size > b.size;
}

int e_matches(const char *name, size_t size, struct e_bytes key, struct e_bytes end)
{
    if (end.size == 0)
        return order(name, size, key) == 0;
    return order(name, size, key) >= 0 && order(name, size, end) < 0;
}

struct e_key *e_find(struct e_bytes name)
{
    struct e_key *key = e.keys;

    while (key && order(key->name, key->size, name) != 0)
        key = key->next;
    return key;
}

static void note(const struct e_key *key, int deleted, int64_t revision)
{
    struct e_event *event;

    if (e.events == e.room) {
        e.room = e.room ? 2 * e.room : 256;
        e.history = realloc(e.history, (size_t)e.room * sizeof *e.history);
        if (!e.history)
            abort();
    }
    event = &e.history[e.events++];
    *event = (struct e_event){.revision = revision, .deleted = deleted, .size = key->size};
    memcpy(event->name, key->name, key->size);
}

struct e_key *e_put(struct e_bytes name, int64_t lease, int64_t revision)
{
    struct e_key *key = e_find(name);

    if (!key) {
        key = calloc(1, sizeof *key);
        if (!key || name.size >= W_KEY)
            abort();
        memcpy(key->name, name.bytes, name.size);
        key->size = name.size;
        key->created = revision;
        key->next = e.keys;
        e.keys = key;
    }
    key->modified = revision;
    key->version++;
    key->lease = lease;
    note(key, 0, revision);
    return key;
}

static void free_keys(struct e_key *keys)
{
    for (struct e_key *next; keys; keys = next) {
        next = keys->next;
        free(keys);
    }
}

int e_delete(struct e_bytes key, struct e_bytes end, int64_t revision)
{
    struct e_key *gone = NULL; /* freed at the end: key may be the name of one of them */
    int count = 0;

    for (struct e_key **at = &e.keys; *at;) {
        struct e_key *one = *at;

        if (!e_matches(one->name, one->size, key, end)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        note(one, 1, revision);
        w_judge_freed(one->created, 0);
        if (w_latch_of(one->name, one->size) >= 0)
            w_judge_counted(e.caller, w_latch_of(one->name, one->size), 0, 0);
        one->next = gone;
        gone = one;
        count++;
    }
    free_keys(gone);
    return count;
}

/* ---- leases */

struct e_lease *e_lease(int64_t id)
{
    struct e_lease *lease = e.leases;

    while (lease && lease->id != id)
        lease = lease->next;
    return lease;
}

static void expires(void *what, int64_t id)
{
    struct e_lease *lease = e_lease(id);

    (void)what;
    if (id == INT64_MIN || !lease)
        return;
    if (w.no_leader_until || lease->expires > w.now) {
        w_at(lease->expires > w.now ? lease->expires + w_below(LATE) : w.no_leader_until, expires, NULL, id);
        return;
    }
    w.stats.expired++;
    w_trace("lease %lld expires", (long long)id);
    e_revoke(lease, 0);
}

/* The leader's clock runs a little wrong, too. */
void e_keep(struct e_lease *lease)
{
    lease->expires = w.now + lease->ttl * W_SECOND - lease->ttl * e.rate;
}

struct e_lease *e_grant(int64_t seconds)
{
    struct e_lease *lease = calloc(1, sizeof *lease);

    if (!lease)
        abort();
    lease->id = ++e.ids * 1000 + w_below(1000);
    lease->ttl = seconds < 2 ? 2 : seconds;
    lease->next = e.leases;
    e.leases = lease;
    e_keep(lease);
    w_at(lease->expires + w_below(LATE), expires, NULL, lease->id);
    return lease;
}

static void unlink_lease(struct e_lease *lease)
{
    struct e_lease **at = &e.leases;

    while (*at != lease)
        at = &(*at)->next;
    *at = lease->next;
    free(lease);
}

void e_revoke(struct e_lease *lease, int forced)
{
    int64_t id = lease->id, revision = e.revision + 1;

    unlink_lease(lease);
    for (struct e_key *key = e.keys, *next; key; key = next) {
        struct e_bytes name = {key->name, key->size};

        next = key->next;
        if (key->lease != id)
            continue;
        if (forced)
            w_judge_forced(key->created);
        e_delete(name, (struct e_bytes){NULL, 0}, revision);
        e_commit(revision);
        revision = e.revision + 1;
        next = e.keys; /* from the beginning: the list has changed */
    }
}

/* ---- what operators and time do */

static void begin(void)
{
    memset(&e, 0, sizeof e);
    e.revision = 1 + w_below(1000000);
    e.compacted = e.revision - 1;
    e.ids = w_below(1000);
}

static void end(void)
{
    e_watches_end();
    while (e.leases)
        unlink_lease(e.leases);
    free_keys(e.keys);
    free(e.history);
    memset(&e, 0, sizeof e);
}

/* A new leader gives all leases their whole time again. */
static void elected(void)
{
    e.rate = w.plan.calm ? 0 : w_between(-4000, 4000);
    for (struct e_lease *lease = e.leases; lease; lease = lease->next)
        e_keep(lease);
    e_http_elected();
}

static int expire(void)
{
    if (!e.leases || w.no_leader_until)
        return 0;
    w_trace("an operator revokes lease %lld", (long long)e.leases->id);
    e_revoke(e.leases, 1);
    return 1;
}

/* How many permits there are stays when all is over, and what is left of a latch. */
static int stays(const struct e_key *key)
{
    return (key->size > 6 && memcmp(key->name + key->size - 6, "/total", 6) == 0) ||
           w_latch_of(key->name, key->size) >= 0;
}

static int is_claim(const struct e_key *key)
{
    return key->size > 4 && memcmp(key->name, "lock", 4) == 0 && (w.latches || !stays(key));
}

static int remove_claim(void)
{
    int64_t revision = e.revision + 1;
    struct e_key *key = e.keys;

    while (key && (!is_claim(key) || w_percent(50)))
        key = key->next;
    if (!key || w.no_leader_until)
        return 0;
    w_trace("an operator deletes %.*s", (int)key->size, key->name);
    w_judge_forced(key->created);
    e_delete((struct e_bytes){key->name, key->size}, (struct e_bytes){NULL, 0}, revision);
    e_commit(revision);
    return 1;
}

static int forget(void)
{
    if (e.compacted == e.revision)
        return 0;
    e.compacted = e.revision;
    return 1;
}

static int left(char out[W_KEY])
{
    int count = 0;

    for (struct e_key *key = e.keys; key; key = key->next)
        if (!stays(key) && ++count)
            snprintf(out, W_KEY, "%.*s", (int)key->size, key->name);
    for (struct e_lease *lease = e.leases; lease; lease = lease->next, count++)
        snprintf(out, W_KEY, "lease %lld", (long long)lease->id);
    return count;
}

static int64_t claim_of(const struct w_owner *owner)
{
    return owner->token / 128;
}

const struct w_model w_etcd = {
    .scheme = "etcd",
    .without = 1U << W_LAG | W_OF_MEMORY,
    .without_latches = 1U << W_EXPIRE,
    .looked_for = 1U << W_SILENT | 1U << W_LATE, /* without a lease there are no heartbeats */
    .begin = begin,
    .end = end,
    .opened = e_http_opened,
    .came = e_http_came,
    .gone = e_http_gone,
    .elected = elected,
    .expire = expire,
    .remove = remove_claim,
    .forget = forget,
    .left = left,
    .claim_of = claim_of,
    .waiting = e_watched,
};
