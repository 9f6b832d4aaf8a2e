/*
 * zookeeper_data.c: the truth, the log, the members' trees, sessions. See zookeeper.h.
 */
#include <stdlib.h>
#include <string.h>

#include "zookeeper.h"

struct z_data z;

enum { LATE = 200 * W_MS };

int z_leads(int member)
{
    return !w.no_leader_until && w.leader == member;
}

/* A member that stands still does nothing before. */
int64_t z_busy_until(int member)
{
    return w.member_down_until[member] > w.now ? w.member_down_until[member] : w.now;
}

/* ---- trees */

struct z_node *z_find(const struct z_tree *tree, const char *path)
{
    struct z_node *node = tree->nodes;

    while (node && strcmp(node->path, path) != 0)
        node = node->next;
    return node;
}

static struct z_node *parent_of(const struct z_tree *tree, const char *path)
{
    char parent[W_KEY];
    const char *end = strrchr(path, '/');

    snprintf(parent, sizeof parent, "%.*s", (int)(end - path), path);
    return z_find(tree, end == path ? "/" : parent);
}

static void tree_make(struct z_tree *tree, const struct z_change *change)
{
    struct z_node *node = calloc(1, sizeof *node), *parent;

    if (!node)
        abort();
    snprintf(node->path, sizeof node->path, "%s", change->path);
    node->czxid = change->zxid;
    node->owner = change->owner;
    node->container = change->container;
    node->data = change->data;
    if ((parent = parent_of(tree, change->path))) {
        parent->made++;
        parent->children++;
    }
    node->next = tree->nodes;
    tree->nodes = node;
}

static void tree_set(struct z_tree *tree, const struct z_change *change)
{
    struct z_node *node = z_find(tree, change->path);

    node->data = change->data;
    node->version++;
}

static void tree_remove(struct z_tree *tree, const char *path)
{
    struct z_node **at = &tree->nodes, *node;

    while (*at && strcmp((*at)->path, path) != 0)
        at = &(*at)->next;
    if (!(node = *at))
        return;
    *at = node->next;
    parent_of(tree, path)->children--;
    free(node);
}

static void tree_apply(struct z_tree *tree, const struct z_change *change)
{
    if (change->kind == Z_MAKE)
        tree_make(tree, change);
    else if (change->kind == Z_SET)
        tree_set(tree, change);
    else if (change->kind == Z_REMOVE)
        tree_remove(tree, change->path);
    tree->zxid = change->zxid;
    tree->applied++;
}

static void tree_begin(struct z_tree *tree)
{
    struct z_node *root = calloc(1, sizeof *root);

    if (!root)
        abort();
    root->path[0] = '/';
    tree->nodes = root;
    tree->zxid = z.truth.zxid;
}

static void tree_end(struct z_tree *tree)
{
    for (struct z_node *node = tree->nodes, *next; node; node = next) {
        next = node->next;
        free(node);
    }
}

/* ---- the log */

/* A transaction is applied as a whole. */
static int goes_on(const struct z_tree *tree)
{
    return tree->applied > 0 && tree->applied < z.changes && z.log[tree->applied].zxid == tree->zxid;
}

static void catch_up(int member, int count)
{
    struct z_tree *tree = &z.tree[member];

    while (tree->applied < count || goes_on(tree)) {
        struct z_change change = z.log[tree->applied];

        tree_apply(tree, &change);
        z_changed(member, &change);
    }
    z_advance(member);
}

/* The members follow a new leader: they have all that it has. */
void z_follow(void)
{
    for (int i = 0; i < W_MEMBERS; i++) {
        catch_up(i, z.changes);
        z.tree[i].zxid = z.truth.zxid;
    }
}

static void applies(void *what, int64_t number)
{
    int member = (int)(number % W_MEMBERS);

    (void)what;
    if (number == INT64_MIN)
        return;
    if (z_busy_until(member) > w.now)
        w_at(z_busy_until(member), applies, NULL, number);
    else
        catch_up(member, (int)(number / W_MEMBERS));
}

static void count(const struct z_change *change)
{
    int lock = change->path[0] ? w_latch_of(change->path + 1, strlen(change->path) - 1) : -1;

    if (lock >= 0 && change->kind == Z_REMOVE)
        w_judge_counted(z.caller, lock, 0, 0);
    else if (lock >= 0)
        w_judge_counted(z.caller, lock, strtoll(change->data.bytes, NULL, 10),
                        w_latch_number(change->data.bytes, (size_t)change->data.size));
}

static void commit(const struct z_change *change)
{
    if (z.changes == z.room) {
        z.room = z.room ? 2 * z.room : 256;
        z.log = realloc(z.log, (size_t)z.room * sizeof *z.log);
        if (!z.log)
            abort();
    }
    z.log[z.changes++] = *change;
    tree_apply(&z.truth, change);
    count(change);
    for (int i = 0; i < W_MEMBERS; i++) {
        int64_t at = w.now + (i == w.leader    ? 0
                              : w_fault(W_LAG) ? w_between(50 * W_MS, 2 * W_SECOND)
                                               : w_below(2 * W_MS));

        z.log_at[i] = at > z.log_at[i] ? at : z.log_at[i];
        w_at(z.log_at[i], applies, NULL, (int64_t)z.changes * W_MEMBERS + i);
    }
}

/* ---- nodes. 0, or an error. */

static int64_t next_zxid(void)
{
    return z.together ? z.together : z.truth.zxid + 1;
}

void z_together(int begin)
{
    z.together = begin ? z.truth.zxid + 1 : 0;
}

static int is_sequential(const struct z_part *part)
{
    return part->op == Z_CREATE && part->flags == 3;
}

static int32_t may_change(const struct z_node *node, int32_t version)
{
    return !node ? Z_NO_NODE : version >= 0 && version != node->version ? Z_BAD_VERSION : 0;
}

static int32_t may_remove(const struct z_node *node, int32_t version)
{
    int32_t error = may_change(node, version);

    return error ? error : node->children > 0 ? Z_NOT_EMPTY : 0;
}

int32_t z_may(const struct z_part *part)
{
    const struct z_node *node = z_find(&z.truth, part->path);

    if (part->op == Z_DELETE)
        return may_remove(node, part->version);
    if (part->op == Z_SET_DATA)
        return may_change(node, part->version);
    if (!parent_of(&z.truth, part->path))
        return Z_NO_NODE;
    return node && !is_sequential(part) ? Z_NODE_EXISTS : 0;
}

int32_t z_make(struct z_part *part, int64_t session)
{
    struct z_change change = {.kind = Z_MAKE, .zxid = next_zxid(), .data = part->data};
    const struct z_node *parent = parent_of(&z.truth, part->path);
    int32_t error = z_may(part);

    if (error)
        return error;
    if (is_sequential(part)) {
        snprintf(part->path + strlen(part->path), W_KEY - strlen(part->path), "%010d", (int)parent->made);
        change.owner = session;
    }
    change.container = part->op == Z_CREATE_CONTAINER;
    memcpy(change.path, part->path, W_KEY);
    commit(&change);
    return 0;
}

int32_t z_set(const struct z_part *part)
{
    struct z_change change = {.kind = Z_SET, .zxid = next_zxid(), .data = part->data};
    int32_t error = z_may(part);

    memcpy(change.path, part->path, W_KEY);
    if (!error)
        commit(&change);
    return error;
}

int32_t z_remove(const char *path, int32_t version, int forced)
{
    struct z_change change = {.kind = Z_REMOVE, .zxid = next_zxid()};
    const struct z_node *node = z_find(&z.truth, path);
    int64_t claim = node ? node->czxid : 0;
    int32_t error = may_remove(node, version);

    if (error)
        return error;
    if (forced)
        w_judge_forced(claim);
    snprintf(change.path, sizeof change.path, "%s", path);
    commit(&change);
    w_judge_freed(claim, 0);
    return 0;
}

/* ---- sessions */

struct z_session *z_session(int64_t id)
{
    struct z_session *session = z.sessions;

    while (session && session->id != id)
        session = session->next;
    return session;
}

static void expires(void *what, int64_t id)
{
    struct z_session *session = z_session(id);
    int64_t at;

    (void)what;
    if (id == INT64_MIN || !session)
        return;
    at = w.no_leader_until ? w.no_leader_until : z_busy_until(w.leader);
    at = session->expires > at ? session->expires : at;
    if (w.no_leader_until || at > w.now) {
        w_at(at + w_below(LATE), expires, NULL, id);
        return;
    }
    w.stats.expired++;
    w_trace("session %lld expires", (long long)id);
    z_session_end(session, 0);
}

/* The leader has heard of it. It looks once a tick, and its clock runs a little wrong. */
void z_keep(struct z_session *session)
{
    int64_t at = w.now + session->timeout - session->timeout / W_SECOND * z.rate;

    session->expires = at + w_below(2) * w_below(z.tick);
}

struct z_session *z_session_begin(int32_t timeout)
{
    struct z_session *session = calloc(1, sizeof *session);
    struct z_change change = {.kind = Z_BEGIN_SESSION, .zxid = z.truth.zxid + 1};
    int64_t asked = (int64_t)timeout * W_MS, least = 2 * z.tick, most = 20 * z.tick;

    if (!session)
        abort();
    session->id = ++z.ids * 1000 + w_below(1000);
    session->timeout = asked < least ? least : asked > most ? most : asked;
    session->next = z.sessions;
    z.sessions = session;
    commit(&change);
    z_keep(session);
    w_at(session->expires, expires, NULL, session->id);
    return session;
}

void z_session_end(struct z_session *session, int forced)
{
    struct z_change change = {.kind = Z_END_SESSION, .owner = session->id};
    struct z_session **at = &z.sessions;

    for (struct z_node *node = z.truth.nodes, *next; node; node = next) {
        next = node->next;
        if (node->owner == session->id)
            z_remove(node->path, -1, forced);
    }
    change.zxid = z.truth.zxid + 1;
    commit(&change);
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    free(session);
}

/* ---- begin and end */

void z_data_begin(void)
{
    memset(&z, 0, sizeof z);
    z.truth.zxid = (1 + w_below(1000)) << 32;
    z.ids = w_below(1000);
    z.tick = w_between(500, 2000) * W_MS;
    tree_begin(&z.truth);
    for (int i = 0; i < W_MEMBERS; i++)
        tree_begin(&z.tree[i]);
    z_time_begin();
}

void z_data_end(void)
{
    z_queues_end();
    while (z.sessions) {
        struct z_session *next = z.sessions->next;

        free(z.sessions);
        z.sessions = next;
    }
    tree_end(&z.truth);
    for (int i = 0; i < W_MEMBERS; i++)
        tree_end(&z.tree[i]);
    free(z.log);
    memset(&z, 0, sizeof z);
}
