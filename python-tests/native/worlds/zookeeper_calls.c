/*
 * zookeeper_calls.c: requests: those that go to the leader and back, the others that a member answers; watches. See zookeeper.h.
 */
#include <stdlib.h>
#include <string.h>

#include "zookeeper.h"

/* ---- at the leader */

static void greeted(struct z_request *request)
{
    struct z_session *session = request->session ? z_session(request->session) : z_session_begin(request->timeout);

    if (!session) {
        request->error = Z_EXPIRED;
        return;
    }
    if (!request->session)
        request->zxid = z.truth.zxid;
    request->session = session->id;
    session->member = request->member;
    z_keep(session);
}

/* Whether an earlier part makes the node that this one is below, or removes the only one that is below this one. */
static int is_after(const struct z_request *request, int at)
{
    const char *path = request->part[at].path, *before = at > 0 ? request->part[at - 1].path : "";
    const struct z_node *node = z_find(&z.truth, path);
    size_t size = strlen(before);

    if (request->part[at].error == Z_NO_NODE)
        return size > 0 && strncmp(path, before, size) == 0 && path[size] == '/';
    size = strlen(path);
    return node && node->children == 1 && strncmp(before, path, size) == 0 && before[size] == '/';
}

static void change(struct z_part *part, int64_t session)
{
    if (part->op == Z_SET_DATA)
        part->error = z_set(part);
    else
        part->error = part->op == Z_DELETE ? z_remove(part->path, part->version, 0) : z_make(part, session);
}

/* All or nothing: what comes behind a failure is not tried. */
static void transact(struct z_request *request)
{
    int failed = 0;

    for (int i = 0; i < request->parts; i++) {
        struct z_part *part = &request->part[i];

        part->error = failed ? Z_NOT_TRIED : z_may(part);
        if ((part->error == Z_NO_NODE && part->op == Z_CREATE) || part->error == Z_NOT_EMPTY)
            part->error = is_after(request, i) ? 0 : part->error;
        failed |= part->error != 0;
    }
    z_together(1);
    for (int i = 0; i < request->parts && !failed; i++)
        change(&request->part[i], request->session);
    z_together(0);
}

static void decide(struct z_request *request)
{
    struct z_session *session = z_session(request->session);

    request->zxid = z.truth.zxid;
    z.caller = request->process;
    if (request->op == Z_HELLO) {
        request->zxid = 0;
        greeted(request);
        z.caller = NULL;
        return;
    }
    if (!session)
        request->error = Z_EXPIRED;
    else if (request->op == Z_CLOSE)
        z_session_end(session, 0);
    else if (session->member != request->member)
        request->error = Z_MOVED;
    else if (request->op == Z_MULTI)
        transact(request);
    else if (request->op != Z_SYNC)
        change(&request->part[0], session->id);
    if (!request->error && request->op != Z_MULTI)
        request->error = request->part[0].error;
    request->zxid = z.truth.zxid;
    request->owner = session ? request->session : 0;
    z.caller = NULL;
}

/* ---- on the way */

static void comes_back(void *what, int64_t member)
{
    (void)what;
    if (member == INT64_MIN)
        return;
    if (z_busy_until((int)member) > w.now)
        w_at(z_busy_until((int)member), comes_back, NULL, member);
    else
        z_advance((int)member);
}

/* It has left its queue. */
static void decided(struct z_request *request, int64_t back)
{
    w_trace("the leader decides op %d %s of session %lld: %d", (int)request->op, request->part[0].path,
            (long long)request->session, (int)request->error);
    if (!request->conn) {
        free(request);
        return;
    }
    request->done = 1;
    w_at(w.now + back, comes_back, NULL, request->member);
}

static struct z_request *pop(int member)
{
    struct z_request *request = z.queue[member];

    z.queue[member] = request->behind;
    return request;
}

static int64_t hop(int member)
{
    return z_leads(member) ? 0 : w_between(50, 2 * W_MS);
}

static void reaches(void *what, int64_t number)
{
    int member = (int)number;
    int64_t until;

    (void)what;
    if (number == INT64_MIN)
        return;
    until = w.no_leader_until ? w.no_leader_until + 1 : z_busy_until(w.leader);
    if (until > w.now) {
        w_at(until, reaches, NULL, number);
        return;
    }
    while (z.queue[member] && z.queue[member]->at <= w.now) {
        struct z_request *request = pop(member);
        int64_t back = hop(member);

        decide(request);
        decided(request, back);
    }
}

static void forward(struct z_request *request)
{
    int member = request->member;
    struct z_request **at = &z.queue[member];
    int64_t when = w.now + hop(member) + (w_fault(W_LAG) ? w_between(10 * W_MS, 500 * W_MS) : 0);

    while (*at)
        at = &(*at)->behind;
    *at = request;
    request->sent = 1;
    request->at = z.up_at[member] = when > z.up_at[member] ? when : z.up_at[member];
    w_at(request->at, reaches, NULL, member);
}

/* Some had reached most of the members, and the new leader has them. */
void z_queues_end(void)
{
    for (int i = 0; i < W_MEMBERS; i++)
        while (z.queue[i]) {
            struct z_request *request = pop(i);

            if (!w.over && w_percent(30))
                decide(request);
            request->sent = 0; /* never to be answered */
            if (!request->conn)
                free(request);
        }
}

/* ---- watches */

/* watch: of the node itself, or of those below; a node that goes ends both. */
static void tell(int member, const char *path, int children, int type)
{
    for (struct z_watch **at = &z.watches; *at;) {
        struct z_watch *watch = *at;

        if (watch->conn->wire->member != member || strcmp(watch->path, path) != 0 ||
            (type != Z_DELETED && watch->children != children)) {
            at = &watch->next;
            continue;
        }
        *at = watch->next;
        z_tell(watch->conn, type, watch->path);
        free(watch);
    }
}

static void tell_parent(int member, const char *path)
{
    char parent[W_KEY];

    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
    tell(member, parent, 1, Z_CHILDREN);
}

void z_changed(int member, const struct z_change *change)
{
    if (change->kind == Z_SET)
        tell(member, change->path, 0, Z_CHANGED);
    if (change->kind == Z_MAKE || change->kind == Z_REMOVE) {
        tell(member, change->path, 0, change->kind == Z_MAKE ? Z_CREATED : Z_DELETED);
        tell_parent(member, change->path);
    }
    if (change->kind != Z_END_SESSION)
        return;
    z_advance(member); /* a good-bye is answered first */
    for (struct z_conn *conn = z.conns, *next; conn; conn = next) {
        next = conn->next;
        if (conn->session == change->owner && conn->wire->member == member)
            w_hang_up(conn->wire);
    }
}

static void watch(struct z_conn *conn, const char *path, int children)
{
    struct z_watch *one = z.watches;

    while (one && (one->conn != conn || one->children != children || strcmp(one->path, path) != 0))
        one = one->next;
    if (one)
        return;
    if (!(one = calloc(1, sizeof *one)))
        abort();
    one->conn = conn;
    one->children = children;
    snprintf(one->path, sizeof one->path, "%s", path);
    one->next = z.watches;
    z.watches = one;
}

/* ---- at the member */

static void read_here(struct z_request *request)
{
    const struct z_tree *tree = &z.tree[request->member];
    const char *path = request->part[0].path;

    if (!z_find(tree, path))
        request->error = Z_NO_NODE;
    if (request->watch && (!request->error || request->op == Z_EXISTS))
        watch(request->conn, path, request->op == Z_GET_CHILDREN);
    z_answer(request, tree->zxid, tree);
}

static void greet(struct z_request *request)
{
    struct z_conn *conn = request->conn;

    if (!request->error)
        conn->session = request->session;
    z_welcome(conn, request->error ? NULL : z_session(request->session));
    if (request->error)
        w_hang_up(conn->wire);
}

/* After a failure of the leader nobody may know what became of a request. */
static void written(struct z_request *request)
{
    const struct z_tree *tree = &z.tree[request->member];

    if (request->error == Z_MOVED || (request->op != Z_SYNC && request->op != Z_CLOSE && w_fault(W_UNSURE)))
        w_hang_up(request->conn->wire);
    else
        z_answer(request, request->zxid, tree);
}

/* Answer the first one. 0: it cannot be. */
static int answer_first(struct z_conn *conn)
{
    struct z_request *request = conn->first;

    if (!request || (!z_is_read(request->op) && (!request->done || z.tree[request->member].zxid < request->zxid)))
        return 0;
    conn->first = request->next;
    if (request->op == Z_HELLO)
        greet(request);
    else if (z_is_read(request->op))
        read_here(request);
    else
        written(request);
    free(request);
    return 1;
}

static int is_there(const struct z_conn *conn)
{
    const struct z_conn *one = z.conns;

    while (one && one != conn)
        one = one->next;
    return one != NULL;
}

void z_advance(int member)
{
    for (struct z_conn *conn = z.conns, *next; conn; conn = next) {
        next = conn->next; /* an answer ends its own connection at most */
        while (conn->wire->member == member && answer_first(conn) && is_there(conn))
            continue;
    }
}

/* The session is heard of; another connection of it at this member ends. */
static void hear(const struct z_request *request)
{
    struct z_session *session = z_session(request->session);

    if (session && z_leads(request->member))
        z_keep(session);
    else if (session && request->op != Z_HELLO)
        session->touched |= 1 << request->member;
    for (struct z_conn *conn = z.conns, *next; conn && request->op == Z_HELLO && request->session; conn = next) {
        next = conn->next;
        if (conn != request->conn && conn->session == request->session && conn->wire->member == request->member)
            w_hang_up(conn->wire);
    }
}

void z_request_came(struct z_request *request)
{
    struct z_conn *conn = request->conn;
    struct z_request **at = &conn->first;

    while (*at)
        at = &(*at)->next;
    *at = request;
    hear(request);
    if (request->op == Z_HELLO && request->seen > z.tree[request->member].zxid) { /* it would go back in time */
        w_hang_up(conn->wire);
        return;
    }
    if (!z_is_read(request->op))
        forward(request);
    z_advance(request->member);
}

/* ---- the end of a connection */

void z_conn_gone(struct z_conn *conn)
{
    for (struct z_watch **at = &z.watches; *at;) {
        struct z_watch *one = *at;

        if (one->conn != conn) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        free(one);
    }
    for (struct z_request *request = conn->first, *next; request; request = next) {
        next = request->next;
        request->conn = NULL;
        if (!request->sent || request->done)
            free(request);
    }
}

static void cut(struct w_wire *wire)
{
    if (w_percent(70))
        w_cut(wire);
    else
        w_hang_up(wire);
}

/* No member keeps its connections when it loses its leader. */
void z_calls_elected(void)
{
    w_wires_of(-1, cut);
}
