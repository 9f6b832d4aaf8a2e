/*
 * route.c: a request on its way: to the owner of its slot, where redirects send it, or parked for a moment.
 *
 * A trip belongs to whoever drives it: the caller that carries it, or, from push on, the pipe it is in, the lane's thread
 * or, while it is parked, the lane's mutex.
 */
#include "inner.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

/* Servers that disagree for a moment are given one: the later redirects rest before they go on. */
enum { TURNS_MOST = 5, TURNS_AT_ONCE = 2, FIRM_RESTS = 2, SHORT_REST = 5000, LONG_REST = 100000, BLIND_REST = 1000000 };

static int turn(struct dli_errand *errand, dlock_status status, const struct dli_reply *reply);

static struct dli_trip *trip_of(struct dli_request *request)
{
    return DLI_OBJECT(dli_errand_of(request), struct dli_trip, errand);
}

/* The request is its first member; what is freed as such is the trip. */
static struct dli_request *first_of(void *trip)
{
    return trip;
}

struct dli_request *dli_trip_new(void)
{
    struct dli_trip *trip = calloc(1, sizeof *trip);

    if (!trip)
        return NULL;
    trip->errand.turn = turn;
    return first_of(trip);
}

static const struct dli_place *place_of(const struct dli_request *request)
{
    if (request->verb == DLI_VERB_RENEW)
        return request->renew.row[0].place;
    return request->verb == DLI_VERB_TAKE ? request->take.row[0].place : request->place;
}

static int slot_of(const struct dli_trip *trip)
{
    const struct dli_place *place = place_of(&trip->errand.request);

    return place ? place->slot : -1;
}

/* ---- the end */

static void end(struct dli_trip *trip, dlock_status status)
{
    trip->over = 1;
    dli_errand_fail(&trip->errand, status);
}

/* Nobody is known who would take it, and its time is over. */
static void end_blind(struct dli_trip *trip)
{
    struct dli_cluster *cluster = trip->lane->cluster;
    dlock_error why = {.code = DLOCK_OK};

    pthread_mutex_lock(&cluster->mutex);
    if (__atomic_load_n(&cluster->failed, __ATOMIC_ACQUIRE) == __atomic_load_n(&cluster->version, __ATOMIC_ACQUIRE))
        why = cluster->why;
    pthread_mutex_unlock(&cluster->mutex);
    if (why.code != DLOCK_OK)
        dli_fail(trip->errand.request.why, why.code, "%s", why.message);
    else if (__atomic_load_n(&cluster->known, __ATOMIC_ACQUIRE))
        why.code = dli_fail(trip->errand.request.why, DLOCK_UNREACHABLE, "no server has slot %d now", slot_of(trip));
    else
        why.code = dli_fail(trip->errand.request.why, DLOCK_UNREACHABLE, "no server described the slots in time");
    end(trip, why.code);
}

/* ---- where to */

/* 0, or -1 without memory: the command in the form for the servers as far as they are known. */
static int dress(struct dli_trip *trip)
{
    const struct dli_place *place = place_of(&trip->errand.request);
    int form = dli_cluster_form(trip->lane->cluster, place && place->plain);

    if (form == trip->errand.form)
        return 0;
    trip->errand.form = form;
    return trip->errand.call.encode(&trip->errand.call, 0);
}

/* The server to send it to now; NULL: nobody knows. */
static struct dli_node *next_node(struct dli_trip *trip)
{
    struct dli_cluster *cluster = trip->lane->cluster;

    trip->version = __atomic_load_n(&cluster->version, __ATOMIC_ACQUIRE);
    trip->errand.call.asking = trip->ask != NULL;
    trip->firm = 0;
    trip->node = trip->ask ? trip->ask : dli_node_owner(cluster, slot_of(trip));
    trip->ask = NULL;
    if (trip->node)
        return trip->node;
    trip->at = dli_now() + BLIND_REST;
    dli_look_want(cluster);
    return NULL;
}

/* Rest for a while that grows. */
static void rest(struct dli_trip *trip, int64_t now)
{
    int64_t pause = (int64_t)SHORT_REST << (trip->rests < 5 ? trip->rests : 5);

    trip->rests++;
    trip->at = now + (pause < LONG_REST ? pause : LONG_REST);
}

/* The server asks to come again. 0, at trip->at; -1, it was told that it ends here. */
static int come_again(struct dli_trip *trip, int down, int64_t now)
{
    struct dli_request *request = &trip->errand.request;

    trip->turns = 0;
    rest(trip, now);
    if (down)
        dli_look_want(trip->lane->cluster);
    request->torn = request->brisk && !down;
    if (!request->torn && trip->at < trip->errand.call.deadline)
        return 0;
    end(trip, dli_fail(request->why, DLOCK_SERVER_LOADING, "%s asks to try again: %s", trip->node->config.target.text,
                       down ? "the cluster is down" : "keys are on their way to another server"));
    return -1;
}

/* What a redirect means for the trip: 1, it goes on at once; 0, at trip->at; -1, it was told that it ends here. */
static int judge(struct dli_trip *trip, const struct dli_redirect *redirect)
{
    struct dli_cluster *cluster = trip->lane->cluster;
    dlock_error *why = trip->errand.request.why;
    int64_t now = dli_now();
    struct dli_node *node;

    if (redirect->turn == DLI_TURN_LATER)
        return come_again(trip, redirect->down, now);
    if (++trip->turns > TURNS_MOST || now >= trip->errand.call.deadline) {
        end(trip, dli_fail(why, DLOCK_UNREACHABLE, "%s sends slot %d elsewhere, for the %dth time",
                           trip->node->config.target.text, redirect->slot, trip->turns));
        return -1;
    }
    node = dli_look_moved(cluster, trip->node, redirect);
    if (node && redirect->turn == DLI_TURN_ASK)
        trip->ask = node;
    trip->firm = node && node != trip->node;
    if (trip->firm && trip->turns <= TURNS_AT_ONCE)
        return 1;
    if (trip->firm && trip->rests < FIRM_RESTS)
        trip->rests = FIRM_RESTS;
    rest(trip, now);
    trip->at = node ? trip->at : now + BLIND_REST;
    return 0;
}

/* ---- carried by its caller */

static void ask(struct dli_trip *trip)
{
    struct dli_cluster *cluster = trip->lane->cluster;
    struct dli_call *call = &trip->errand.call;
    struct dli_node_pipe *at = trip->node->pipe[trip->lane->index];
    struct dli_pipe *pipe = &at->pipe;

    __atomic_add_fetch(&cluster->commands, 1, __ATOMIC_RELAXED);
    trip->turned.turn = DLI_TURN_NONE;
    if (dli_replicas_want(&at->replicas, &trip->errand.request)) {
        dli_replicas_carry(&at->replicas, &trip->errand);
        return;
    }
    if (!call->asking && __atomic_load_n(&pipe->load, __ATOMIC_RELAXED) == 0) {
        int before = call->fallback;

        call->sleeps = 0;
        if (dli_private_call(&trip->node->pool, call)) {
            if (call->fallback && !before)
                __atomic_add_fetch(&cluster->reloads, 1, __ATOMIC_RELAXED);
            return;
        }
    }
    call->sleeps = 1;
    if (dli_pipe_push(pipe, call) == 0)
        dli_pipe_wait(pipe, call);
    else
        end(trip, DLOCK_CLOSED);
}

/* Wait for trip->at, or for news of the map. 0 when there is no time for that. */
static int await(struct dli_trip *trip)
{
    struct dli_cluster *cluster = trip->lane->cluster;
    int64_t deadline = trip->errand.call.deadline, until = trip->at < deadline ? trip->at : deadline;

    for (uint32_t seen = trip->version; dli_now() < until && (trip->firm || seen == trip->version);
         seen = __atomic_load_n(&cluster->version, __ATOMIC_ACQUIRE))
        dli_futex_wait(&cluster->version, seen, until);
    return dli_now() < deadline;
}

/* Whether the map is still missing after a look that failed. */
static int hopeless(const struct dli_trip *trip)
{
    const struct dli_cluster *cluster = trip->lane->cluster;
    uint32_t version = __atomic_load_n(&cluster->version, __ATOMIC_ACQUIRE);

    return !__atomic_load_n(&cluster->known, __ATOMIC_ACQUIRE) && version != trip->version &&
           __atomic_load_n(&cluster->failed, __ATOMIC_ACQUIRE) == version;
}

static dlock_status begin(struct dli_lane *lane, struct dli_trip *trip, int carried)
{
    trip->lane = lane;
    trip->carried = carried;
    trip->turns = trip->rests = trip->over = 0;
    trip->node = trip->ask = NULL;
    trip->errand.form = DLI_FORM_PLAIN;
    return dli_errand_begin(&trip->errand) || dress(trip) ? DLOCK_OUT_OF_MEMORY : DLOCK_OK;
}

void dli_trip_carry(struct dli_lane *lane, struct dli_request *request)
{
    struct dli_trip *trip = trip_of(request);
    int next;

    if (begin(lane, trip, 1) != DLOCK_OK) {
        dli_fail(request->why, DLOCK_OUT_OF_MEMORY, "no memory for the command");
        end(trip, DLOCK_OUT_OF_MEMORY);
        return;
    }
    for (;;) {
        next = 0;
        if (next_node(trip)) {
            if (dress(trip)) {
                end(trip, DLOCK_OUT_OF_MEMORY);
                return;
            }
            ask(trip);
            if (trip->turned.turn == DLI_TURN_NONE || (next = judge(trip, &trip->turned)) < 0)
                return;
        }
        if (next == 0 && (!await(trip) || hopeless(trip))) {
            end_blind(trip);
            return;
        }
    }
}

/* ---- pushed */

/* Behind those that are parked. 0, or -1 when the lane was shut. */
static int append(struct dli_lane *lane, struct dli_trip *trip)
{
    int shut;

    trip->next = NULL;
    pthread_mutex_lock(&lane->mutex);
    shut = lane->shut;
    if (!shut)
        lane->parked_end = &(*lane->parked_end = trip)->next;
    pthread_mutex_unlock(&lane->mutex);
    return shut ? -1 : 0;
}

static int park(struct dli_trip *trip)
{
    int shut = append(trip->lane, trip);

    if (!shut)
        dli_wake_set(trip->lane->wake_fd);
    return shut;
}

/* To whom it belongs now, or into the park. 0, or -1 when the lane was shut. */
static int send_off(struct dli_trip *trip, int urgent)
{
    if (!next_node(trip))
        return park(trip);
    __atomic_add_fetch(&trip->lane->cluster->commands, 1, __ATOMIC_RELAXED);
    return dli_node_push(trip->node, trip->lane->index, &trip->errand, urgent);
}

dlock_status dli_trip_push(struct dli_lane *lane, struct dli_request *request, int urgent)
{
    struct dli_trip *trip = trip_of(request);
    dlock_status status = begin(lane, trip, 0);

    if (status != DLOCK_OK)
        return status;
    return send_off(trip, urgent) ? DLOCK_CLOSED : DLOCK_OK;
}

/* The same for one that is on its way: who asked must be told. */
static void go_on(struct dli_trip *trip)
{
    if (dress(trip))
        end(trip, DLOCK_OUT_OF_MEMORY);
    else if (send_off(trip, 0))
        end(trip, DLOCK_CLOSED);
}

/* An end of the call: 1 when the trip takes it from here. On the caller's thread when it is carried, else the lane's. */
static int turn(struct dli_errand *errand, dlock_status status, const struct dli_reply *reply)
{
    struct dli_trip *trip = DLI_OBJECT(errand, struct dli_trip, errand);
    struct dli_redirect redirect = {.turn = DLI_TURN_NONE};
    int next;

    if (trip->over)
        return 0;
    if (status == DLOCK_OK)
        redirect = dli_redirect_of(reply);
    else if (status == DLOCK_UNREACHABLE)
        dli_look_want(trip->lane->cluster);
    if (redirect.turn == DLI_TURN_NONE)
        return 0;
    if (trip->carried) {
        trip->turned = redirect;
        return 1;
    }
    next = judge(trip, &redirect);
    if (next > 0)
        go_on(trip);
    else if (next == 0 && park(trip))
        end(trip, DLOCK_CLOSED);
    return 1;
}

/* ---- the park */

static struct dli_trip *take_parked(struct dli_lane *lane, int shut)
{
    struct dli_trip *all;

    pthread_mutex_lock(&lane->mutex);
    all = lane->parked;
    lane->parked = NULL;
    lane->parked_end = &lane->parked;
    lane->shut |= shut;
    pthread_mutex_unlock(&lane->mutex);
    return all;
}

static void put_back(struct dli_lane *lane, struct dli_trip *trip)
{
    int64_t due = trip->at < trip->errand.call.deadline ? trip->at : trip->errand.call.deadline;

    if (append(lane, trip) == 0 && due < lane->parked_at)
        lane->parked_at = due;
}

void dli_trip_step(struct dli_lane *lane, int64_t now)
{
    struct dli_trip *trip = take_parked(lane, 0), *next;
    uint32_t version = __atomic_load_n(&lane->cluster->version, __ATOMIC_ACQUIRE);

    lane->parked_at = INT64_MAX;
    for (; trip; trip = next) {
        next = trip->next;
        if (now >= trip->errand.call.deadline || hopeless(trip))
            end_blind(trip);
        else if (now >= trip->at || (!trip->firm && trip->version != version))
            go_on(trip);
        else
            put_back(lane, trip);
    }
}

void dli_trip_shut(struct dli_lane *lane)
{
    struct dli_trip *trip = take_parked(lane, 1), *next;

    for (; trip; trip = next) {
        next = trip->next;
        dli_fail(trip->errand.request.why, DLOCK_CLOSED, "the client was closed");
        end(trip, DLOCK_CLOSED);
    }
}
