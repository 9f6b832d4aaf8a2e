/*
 * route.c: the route of a request: to the owner of its slot, to where a redirect sends it, or parked for a while.
 *
 * A route has one owner at a time: the caller that executes it; or, once pushed, the pipe it is in, the lane's thread,
 * or, while it is parked, the lane's mutex.
 */
#include "inner.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

/*
 * Servers may disagree for a moment: after TURNS_AT_ONCE, redirects rest before they are followed. Rests in
 * microseconds.
 */
enum { TURNS_MOST = 5, TURNS_AT_ONCE = 2, FIRM_RESTS = 2, SHORT_REST = 5000, LONG_REST = 100000, BLIND_REST = 1000000 };

enum { LATER_MOVING = 1, LATER_DOWN }; /* what a server that asks to try again says of itself */

static int kind(struct dli_job *job, dlock_status status, const struct dli_reply *reply);

static struct dli_route *route_of(struct dli_request *request)
{
    return DLI_OBJECT(dli_job_of(request), struct dli_route, job);
}

/* The request is the first member of the route: freeing the request frees the route. */
static struct dli_request *first_of(void *route)
{
    return route;
}

struct dli_request *dli_route_new(void)
{
    struct dli_route *route = calloc(1, sizeof *route);

    if (!route)
        return NULL;
    route->job.intercept = kind;
    return first_of(route);
}

static const struct dli_place *place_of(const struct dli_request *request)
{
    if (request->verb == DLI_VERB_RENEW)
        return request->renew.row[0].place;
    return request->verb == DLI_VERB_ACQUIRE_ALL ? request->multi.row[0].place : request->place;
}

static int slot_of(const struct dli_route *route)
{
    const struct dli_place *place = place_of(&route->job.request);

    if (route->job.request.verb == DLI_VERB_LIST)
        return route->job.request.list.server;
    return place ? place->slot : -1;
}

/* ---- the end */

static void end(struct dli_route *route, dlock_status status)
{
    route->over = 1;
    dli_job_fail(&route->job, status);
}

/* Its time is over, and its server asked to try again later. */
static void refuse(struct dli_route *route)
{
    const char *why = route->later == LATER_MOVING && route->why ? route->why : "";

    end(route,
        dli_fail(route->job.request.reason, DLOCK_SERVER_LOADING, "%s asks to try again: %s%s%s",
                 route->node->config.target.text,
                 route->later == LATER_DOWN ? "the cluster is down" : "the slot is being moved to another server",
                 why[0] ? ", and this lock waits: " : "", why));
}

/* Its time is over, and no server is known for it. */
static void end_without_server(struct dli_route *route)
{
    struct dli_cluster *cluster = route->lane->cluster;
    dlock_error reason = {.code = DLOCK_OK};

    if (route->later) {
        refuse(route);
        return;
    }
    pthread_mutex_lock(&cluster->mutex);
    if (__atomic_load_n(&cluster->failed, __ATOMIC_ACQUIRE) == __atomic_load_n(&cluster->version, __ATOMIC_ACQUIRE))
        reason = cluster->reason;
    pthread_mutex_unlock(&cluster->mutex);
    if (reason.code != DLOCK_OK)
        dli_fail(route->job.request.reason, reason.code, "%s", reason.message);
    else if (__atomic_load_n(&cluster->known, __ATOMIC_ACQUIRE))
        reason.code =
            dli_fail(route->job.request.reason, DLOCK_UNREACHABLE, "no server has slot %d now", slot_of(route));
    else
        reason.code = dli_fail(route->job.request.reason, DLOCK_UNREACHABLE, "no server described the slots in time");
    end(route, reason.code);
}

/* ---- the next server */

/* Whether a script uses a key that it does not declare: that of a fair lock's tombstones. A renewal does not. */
static int makes_more(const struct dli_route *route)
{
    const struct dli_request *request = &route->job.request;
    const struct dli_place *place = place_of(request);

    return place && dli_wire_at(place->wire)->id == DLOCK_KIND_FAIR && request->verb != DLI_VERB_RENEW;
}

/* Whether it may declare that key. With a quarantine the marker must be last, and a gate's keys are others: these wait. */
static int may_declare(const struct dli_request *request)
{
    return request->verb != DLI_VERB_GATE && !request->quarantine;
}

/*
 * Whether the command is encoded for ASKING. The slot's last server must have said for all its keys that it has none.
 */
static int asks(const struct dli_route *route)
{
    return route->job.call.asking && place_of(&route->job.request) && (!makes_more(route) || route->all);
}

/* Encode the command again when the form of its channel has changed, or ASKING. 0, or -1 without memory. */
static int encode_for_form(struct dli_route *route)
{
    const struct dli_place *place = place_of(&route->job.request);
    int form = dli_cluster_form(route->lane->cluster, place && place->plain), asked = asks(route);

    if (route->move)
        return 0;
    if (form == route->job.form && asked == route->job.asked && route->all == route->job.all)
        return 0;
    route->job.form = form;
    route->job.asked = asked;
    route->job.all = route->all;
    route->job.call.fallback = route->job.call.refused = 0;
    return route->job.call.encode(&route->job.call, 0);
}

/* The server to send it to now. NULL: unknown; a refresh is requested. */
static struct dli_node *next_node(struct dli_route *route)
{
    struct dli_cluster *cluster = route->lane->cluster;

    if (route->move)
        return route->node;
    route->version = __atomic_load_n(&cluster->version, __ATOMIC_ACQUIRE);
    route->job.call.asking = route->ask_node != NULL;
    route->firm = route->later = 0;
    route->node = route->ask_node ? route->ask_node : dli_node_owner(cluster, slot_of(route));
    route->ask_node = NULL;
    if (route->node)
        return route->node;
    route->at = dli_now() + BLIND_REST;
    dli_refresh_want(cluster);
    return NULL;
}

/* Rest: twice as long as the last time, at most LONG_REST. */
static void back_off(struct dli_route *route, int64_t now)
{
    int64_t pause = (int64_t)SHORT_REST << (route->rests < 5 ? route->rests : 5);

    route->rests++;
    route->at = now + (pause < LONG_REST ? pause : LONG_REST);
}

/* The server asks to try again later. As judge: 0 or -1. */
static int rest(struct dli_route *route, int down, int64_t now)
{
    struct dli_request *request = &route->job.request;

    route->redirects = 0;
    route->later = down ? LATER_DOWN : LATER_MOVING;
    back_off(route, now);
    if (down)
        dli_refresh_want(route->lane->cluster);
    request->torn = request->brisk && !down;
    if (!request->torn && route->at < route->job.call.deadline)
        return 0;
    refuse(route);
    return -1;
}

/* The same, unless the keys can be moved. As judge. */
static int try_later(struct dli_route *route, int down, int64_t now)
{
    return !down && dli_move_begin(route) ? 1 : rest(route, down, now);
}

/* A step of moving its keys is over. As judge. */
static int move_on(struct dli_route *route, int64_t now)
{
    int move = route->move;

    if (move != DLI_MOVE_DONE && move != DLI_MOVE_STUCK)
        return 1;
    route->move = DLI_MOVE_NONE;
    return move == DLI_MOVE_DONE ? 1 : rest(route, 0, now);
}

/* ASK: its server has none of the keys. First it says so for all of them. */
static void follow(struct dli_route *route, struct dli_node *node)
{
    if (makes_more(route) && may_declare(&route->job.request) && !route->all)
        route->all = 1;
    else
        route->ask_node = node;
}

/* Follow a redirect. 1: at once. 0: at route->at. -1: the route has ended and was reported. */
static int judge(struct dli_route *route, const struct dli_redirect *redirect)
{
    struct dli_cluster *cluster = route->lane->cluster;
    dlock_error *reason = route->job.request.reason;
    int64_t now = dli_now();
    struct dli_node *node;

    if (route->move)
        return move_on(route, now);
    if (redirect->kind == DLI_REDIRECT_LATER)
        return try_later(route, redirect->down, now);
    if (++route->redirects > TURNS_MOST || now >= route->job.call.deadline) {
        end(route, dli_fail(reason, DLOCK_UNREACHABLE, "%s sends slot %d elsewhere, for the %dth time",
                            route->node->config.target.text, redirect->slot, route->redirects));
        return -1;
    }
    node = dli_refresh_moved(cluster, route->node, redirect);
    if (node && redirect->kind == DLI_REDIRECT_ASK)
        follow(route, node);
    route->firm = node && node != route->node;
    if (route->firm && route->redirects <= TURNS_AT_ONCE)
        return 1;
    if (route->firm && route->rests < FIRM_RESTS)
        route->rests = FIRM_RESTS;
    back_off(route, now);
    route->at = node ? route->at : now + BLIND_REST;
    return 0;
}

/* ---- executed by its caller */

static void execute_attempt(struct dli_route *route)
{
    struct dli_cluster *cluster = route->lane->cluster;
    struct dli_call *call = &route->job.call;
    struct dli_node_pipe *at = route->node->pipe[route->lane->index];
    struct dli_pipe *pipe = &at->pipe;

    __atomic_add_fetch(&cluster->commands, 1, __ATOMIC_RELAXED);
    route->turned.kind = DLI_REDIRECT_NONE;
    if (!route->move && dli_replicas_want(&at->replicas, &route->job.request)) {
        dli_replicas_execute(&at->replicas, &route->job);
        return;
    }
    if (!call->asking && __atomic_load_n(&pipe->load, __ATOMIC_RELAXED) == 0) {
        int before = call->fallback;

        call->sleeps = 0;
        if (dli_private_call(&route->node->pool, call, dli_pipe_ready(pipe))) {
            if (call->fallback && !before)
                __atomic_add_fetch(&cluster->reloads, 1, __ATOMIC_RELAXED);
            return;
        }
    }
    call->sleeps = 1;
    if (dli_pipe_push(pipe, call) == 0)
        dli_pipe_wait(pipe, call);
    else
        end(route, DLOCK_CLOSED);
}

/* Wait until route->at or, unless firm, until a refresh ends. 0 when the deadline has passed. */
static int await(struct dli_route *route)
{
    struct dli_cluster *cluster = route->lane->cluster;
    int64_t deadline = route->job.call.deadline, until = route->at < deadline ? route->at : deadline;

    for (uint32_t seen = route->version; dli_now() < until && (route->firm || seen == route->version);
         seen = __atomic_load_n(&cluster->version, __ATOMIC_ACQUIRE))
        dli_futex_wait(&cluster->version, seen, until);
    return dli_now() < deadline;
}

/* Whether there is still no map after a failed refresh. */
static int has_no_map(const struct dli_route *route)
{
    const struct dli_cluster *cluster = route->lane->cluster;
    uint32_t version = __atomic_load_n(&cluster->version, __ATOMIC_ACQUIRE);

    return !__atomic_load_n(&cluster->known, __ATOMIC_ACQUIRE) && version != route->version &&
           __atomic_load_n(&cluster->failed, __ATOMIC_ACQUIRE) == version;
}

static dlock_status begin(struct dli_lane *lane, struct dli_route *route, int carried)
{
    route->lane = lane;
    route->carried = carried;
    route->redirects = route->rests = route->over = route->later = route->move = route->moves = 0;
    route->node = route->ask_node = NULL;
    route->why = NULL;
    route->job.form = DLI_FORM_PLAIN;
    route->job.asked = route->job.all = route->all = 0;
    return dli_job_begin(&route->job) || encode_for_form(route) ? DLOCK_OUT_OF_MEMORY : DLOCK_OK;
}

void dli_route_execute(struct dli_lane *lane, struct dli_request *request)
{
    struct dli_route *route = route_of(request);
    int next;

    if (begin(lane, route, 1) != DLOCK_OK) {
        dli_fail(request->reason, DLOCK_OUT_OF_MEMORY, "no memory for the command");
        end(route, DLOCK_OUT_OF_MEMORY);
        return;
    }
    for (;;) {
        next = 0;
        if (next_node(route)) {
            if (encode_for_form(route)) {
                end(route, DLOCK_OUT_OF_MEMORY);
                return;
            }
            execute_attempt(route);
            if (route->turned.kind == DLI_REDIRECT_NONE || (next = judge(route, &route->turned)) < 0)
                return;
        }
        if (next == 0 && (!await(route) || has_no_map(route))) {
            end_without_server(route);
            return;
        }
    }
}

/* ---- pushed */

/* Append to the parked routes. 0, or -1 when the lane is shut. */
static int append(struct dli_lane *lane, struct dli_route *route)
{
    int shut;

    route->next = NULL;
    pthread_mutex_lock(&lane->mutex);
    shut = lane->shut;
    if (!shut)
        lane->parked_end = &(*lane->parked_end = route)->next;
    pthread_mutex_unlock(&lane->mutex);
    return shut ? -1 : 0;
}

static int park(struct dli_route *route)
{
    int shut = append(route->lane, route);

    if (!shut)
        dli_wake_set(route->lane->wake_fd);
    return shut;
}

/* Push it to its next server, or park it. 0, or -1 when the lane is shut. */
static int send_off(struct dli_route *route, int urgent)
{
    if (!next_node(route))
        return park(route);
    __atomic_add_fetch(&route->lane->cluster->commands, 1, __ATOMIC_RELAXED);
    if (route->move)
        return dli_pipe_push(&route->node->pipe[route->lane->index]->pipe, &route->job.call);
    return dli_node_push(route->node, route->lane->index, &route->job, urgent);
}

dlock_status dli_route_push(struct dli_lane *lane, struct dli_request *request, int urgent)
{
    struct dli_route *route = route_of(request);
    dlock_status status = begin(lane, route, 0);

    if (status != DLOCK_OK)
        return status;
    return send_off(route, urgent) ? DLOCK_CLOSED : DLOCK_OK;
}

/* The same for a route under way: a failure is reported. */
static void go_on(struct dli_route *route)
{
    if (!route->move)
        route->job.call.asking = route->ask_node != NULL;
    if (encode_for_form(route))
        end(route, DLOCK_OUT_OF_MEMORY);
    else if (send_off(route, 0))
        end(route, DLOCK_CLOSED);
}

/* A call has ended: 1 when the route goes on. On the caller's thread when it is executed, else on the lane's. */
static int kind(struct dli_job *job, dlock_status status, const struct dli_reply *reply)
{
    struct dli_route *route = DLI_OBJECT(job, struct dli_route, job);
    struct dli_redirect redirect = {.kind = DLI_REDIRECT_NONE};
    int next;

    if (route->over)
        return 0;
    if (route->move && status != DLOCK_CLOSED) {
        dli_move_turn(route, status == DLOCK_OK ? reply : NULL);
        redirect.kind = DLI_REDIRECT_LATER;
    } else if (status == DLOCK_OK)
        redirect = dli_redirect_of(reply);
    else if (status == DLOCK_UNREACHABLE)
        dli_refresh_want(route->lane->cluster);
    if (redirect.kind == DLI_REDIRECT_NONE)
        return 0;
    if (route->carried) {
        route->turned = redirect;
        return 1;
    }
    next = judge(route, &redirect);
    if (next > 0)
        go_on(route);
    else if (next == 0 && park(route))
        end(route, DLOCK_CLOSED);
    return 1;
}

/* ---- parked routes */

static struct dli_route *take_parked(struct dli_lane *lane, int shut)
{
    struct dli_route *all;

    pthread_mutex_lock(&lane->mutex);
    all = lane->parked;
    lane->parked = NULL;
    lane->parked_end = &lane->parked;
    lane->shut |= shut;
    pthread_mutex_unlock(&lane->mutex);
    return all;
}

static void put_back(struct dli_lane *lane, struct dli_route *route)
{
    int64_t due = route->at < route->job.call.deadline ? route->at : route->job.call.deadline;

    if (append(lane, route) == 0 && due < lane->parked_at)
        lane->parked_at = due;
}

void dli_route_step(struct dli_lane *lane, int64_t now)
{
    struct dli_route *route, *parked = take_parked(lane, 0);
    uint32_t version = __atomic_load_n(&lane->cluster->version, __ATOMIC_ACQUIRE);

    lane->parked_at = INT64_MAX;
    while ((route = parked)) {
        parked = route->next;
        if (now >= route->job.call.deadline || has_no_map(route))
            end_without_server(route);
        else if (now >= route->at || (!route->firm && route->version != version))
            go_on(route);
        else
            put_back(lane, route);
    }
}

void dli_route_shut(struct dli_lane *lane)
{
    struct dli_route *route, *parked = take_parked(lane, 1);

    while ((route = parked)) {
        parked = route->next;
        dli_fail(route->job.request.reason, DLOCK_CLOSED, "the client was closed");
        end(route, DLOCK_CLOSED);
    }
}
