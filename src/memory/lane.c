/*
 * lane.c: the lanes of a store: requests act, or wait for a fault to end; messages go to the hooks. Mutex: see inner.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inner.h"

/* ---- one request; world.mutex held */

static int is_denied(const struct dli_memory *memory, const struct dli_request *request)
{
    int denied = request->place && dli_memory_fault(memory, DLI_MEMORY_DENY, request->place);

    for (int i = 0; request->verb == DLI_VERB_RENEW && i < request->renew.count; i++)
        denied |= dli_memory_fault(memory, DLI_MEMORY_DENY, request->renew.row[i].place) != NULL;
    for (int i = 0; request->verb == DLI_VERB_ACQUIRE_ALL && i < request->multi.count; i++)
        denied |= dli_memory_fault(memory, DLI_MEMORY_DENY, request->multi.row[i].place) != NULL;
    return denied || (!request->place && dli_memory_fault(memory, DLI_MEMORY_DENY, NULL));
}

static void nothing(struct dli_memory *memory, struct dli_request *request)
{
    (void)memory, (void)request;
}

static void no_quarantine(struct dli_memory *memory, struct dli_request *request)
{
    (void)memory;
    dli_memory_fail(request, DLOCK_UNSUPPORTED, "in memory there is no quarantine");
}

static void do_verb(struct dli_memory *memory, struct dli_request *request)
{
    static void (*const verbs[DLI_VERBS + 1])(struct dli_memory *, struct dli_request *) = {
        [DLI_VERB_EXCHANGE] = dli_memory_exchange,
        [DLI_VERB_RENEW] = dli_memory_renew,
        [DLI_VERB_ACQUIRE_ALL] = dli_memory_acquire_all,
        [DLI_VERB_FORCE] = dli_memory_force,
        [DLI_VERB_INSPECT] = dli_memory_inspect,
        [DLI_VERB_GATE] = dli_memory_gate,
        [DLI_VERB_GATE_LEFT] = dli_memory_gate_left,
        [DLI_VERB_CHANGE] = dli_memory_change,
        [DLI_VERB_LIST] = dli_memory_list,
        [DLI_VERB_PING] = nothing,
        [DLI_VERB_CHECK] = nothing,
        [DLI_VERB_PROVISION] = no_quarantine,
        [DLI_VERBS] = dli_memory_round,
    };

    verbs[request->verb](memory, request);
}

static void fail(const struct dli_memory *memory, struct dli_request *request, dlock_status status, const char *why)
{
    request->status = dli_fail(request->reason, status, "%s %s", memory->text, why);
}

/* Fill in the answer to an exchange, whatever its outcome. */
static void complete(struct dli_request *request)
{
    if (request->verb != DLI_VERB_EXCHANGE)
        return;
    if (request->status != DLOCK_OK && request->status != DLOCK_SERVER_FORGOT)
        memset(&request->exchange.answer, 0, sizeof request->exchange.answer);
    request->exchange.answer.status = request->status;
    request->exchange.answer.sent = request->status != DLOCK_OK && request->sent;
    request->exchange.answer.refused = request->refused;
}

/* The request acts, is refused or fails, if it is time for that. Returns whether it is over. */
static int is_over(const struct dli_lane *lane, struct dli_memory_job *job, int64_t now)
{
    struct dli_memory *memory = lane->memory;
    struct dli_request *request = &job->request;

    request->status = DLOCK_OK;
    request->sent = 1;
    request->refused = 0;
    if (lane->shut) {
        request->sent = 0;
        request->status = dli_fail(request->reason, DLOCK_CLOSED, "the client was closed");
    } else if (dli_memory_cut_until(memory)) {
        request->sent = 0; /* it never acts */
        fail(memory, request, DLOCK_UNREACHABLE, "is cut off by a fault");
    } else if (dli_memory_due(memory, job->arrived) > now) {
        if (now < request->deadline)
            return 0;
        request->sent = 0;
        fail(memory, request, DLOCK_UNREACHABLE, "did not answer in time");
    } else if (is_denied(memory, request)) {
        request->refused = 1;
        fail(memory, request, DLOCK_DENIED, "refuses it because of a fault");
    } else {
        do_verb(memory, request);
    }
    complete(request);
    return 1;
}

/* ---- requests of callers */

static struct dli_memory_job *begin(struct dli_lane *lane, struct dli_request *request)
{
    struct dli_memory_job *job = dli_memory_job_of(request);

    request->repeated = request->torn = 0;
    job->arrived = dli_now();
    __atomic_add_fetch(&lane->memory->commands, 1, __ATOMIC_RELAXED);
    return job;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Faults hold the request up: sleep until something changes. world.mutex held, released meanwhile. */
static void await_change(struct dli_lane *lane, const struct dli_memory_job *job)
{
    struct dli_world *world = lane->memory->world;
    uint32_t seen = __atomic_load_n(&world->changed, __ATOMIC_SEQ_CST);
    int64_t until = earlier(dli_memory_due(lane->memory, job->arrived), job->request.deadline);

    pthread_mutex_unlock(&world->mutex);
    dli_futex_wait(&world->changed, seen, until);
    pthread_mutex_lock(&world->mutex);
}

void dli_memory_execute(struct dli_lane *lane, struct dli_request *request)
{
    struct dli_world *world = lane->memory->world;
    struct dli_memory_job *job = begin(lane, request);

    pthread_mutex_lock(&world->mutex);
    for (int64_t now = job->arrived; !is_over(lane, job, now); now = dli_now())
        await_change(lane, job);
    pthread_mutex_unlock(&world->mutex);
}

dlock_status dli_memory_push(struct dli_lane *lane, struct dli_request *request)
{
    struct dli_world *world = lane->memory->world;
    struct dli_memory_job *job = begin(lane, request);
    int shut, over;

    pthread_mutex_lock(&world->mutex);
    shut = lane->shut;
    over = !shut && request->direct && is_over(lane, job, job->arrived);
    if (!shut && !over) {
        dli_list_append(&lane->jobs, &job->link);
        dli_memory_wake_lane(lane);
    }
    pthread_mutex_unlock(&world->mutex);
    if (over && request->done)
        request->done(request);
    return shut ? DLOCK_CLOSED : DLOCK_OK;
}

/* ---- the lane's thread */

/* world.mutex held: let a request act, if its time has come. */
static void act(void *owner, struct dli_link *link)
{
    struct dli_lane *lane = owner;

    if (!is_over(lane, DLI_OBJECT(link, struct dli_memory_job, link), dli_now()))
        return;
    dli_list_remove(link);
    dli_list_append(&lane->over, link);
}

/* Returns whether there was something to do. */
static int do_jobs(struct dli_lane *lane)
{
    struct dli_world *world = lane->memory->world;
    struct dli_link *link;
    int some;

    pthread_mutex_lock(&world->mutex);
    lane->fresh = 0;
    dli_list_each(&lane->jobs, act, lane);
    pthread_mutex_unlock(&world->mutex);
    some = !dli_list_empty(&lane->over);
    while ((link = dli_list_pop(&lane->over))) {
        struct dli_request *request = &DLI_OBJECT(link, struct dli_memory_job, link)->request;

        if (request->done)
            request->done(request);
    }
    return some;
}

static void deliver(const struct dli_store *store, struct dli_memory_message *message)
{
    if (message->what == DLI_MEMORY_GATE)
        store->hooks->gate(store->owner, &message->target, message->ms);
    else if (message->what == DLI_MEMORY_LAPSED)
        store->hooks->lapsed(store->owner, -1, INT64_MAX);
    else
        store->hooks->hint(store->owner, &message->target);
    free(message);
}

static struct dli_memory_message *next_message(struct dli_memory *memory, int *missed)
{
    struct dli_link *link;

    pthread_mutex_lock(&memory->world->mutex);
    link = dli_list_pop(&memory->messages);
    *missed = !link && memory->missed && !dli_memory_cut_until(memory);
    memory->missed &= !*missed;
    pthread_mutex_unlock(&memory->world->mutex);
    return link ? DLI_OBJECT(link, struct dli_memory_message, link) : NULL;
}

/* Lane 0: a cut has begun or ended. */
static void follow_cut(struct dli_memory *memory)
{
    const struct dli_store *store = &memory->store;
    char text[sizeof memory->text + 32];
    int cut;

    pthread_mutex_lock(&memory->world->mutex);
    cut = dli_memory_cut_until(memory) != 0;
    pthread_mutex_unlock(&memory->world->mutex);
    if (cut == memory->down)
        return;
    memory->down = cut;
    snprintf(text, sizeof text, cut ? "%s is cut off by a fault" : "%s: connected again", memory->text);
    store->hooks->log(store->owner, cut ? DLOCK_UNREACHABLE : DLOCK_OK, text);
    if (cut)
        store->hooks->down(store->owner);
    else
        store->hooks->up(store->owner);
}

void dli_memory_step(struct dli_lane *lane, int64_t now)
{
    struct dli_memory *memory = lane->memory;
    struct dli_memory_message *message;
    int missed = 0;

    (void)now;
    while (do_jobs(lane))
        continue;
    if (lane->index > 0)
        return;
    follow_cut(memory);
    while ((message = next_message(memory, &missed)))
        deliver(&memory->store, message);
    if (missed)
        memory->store.hooks->up(memory->store.owner); /* as after a cut */
}

int64_t dli_memory_alarm(const struct dli_lane *lane)
{
    const struct dli_memory *memory = lane->memory;
    int64_t at = INT64_MAX, cut;

    pthread_mutex_lock(&memory->world->mutex);
    for (struct dli_link *link = lane->jobs.next; link != &lane->jobs; link = link->next) {
        const struct dli_memory_job *job = DLI_OBJECT(link, struct dli_memory_job, link);

        at = earlier(at, earlier(dli_memory_due(memory, job->arrived), job->request.deadline));
    }
    cut = dli_memory_cut_until(memory);
    pthread_mutex_unlock(&memory->world->mutex);
    return lane->index == 0 && cut ? earlier(at, cut) : at;
}

int dli_memory_sleep(struct dli_lane *lane, struct pollfd *fds)
{
    int idle;

    (void)fds;
    pthread_mutex_lock(&lane->memory->world->mutex);
    idle = lane->sleeping = !lane->fresh;
    pthread_mutex_unlock(&lane->memory->world->mutex);
    return idle ? 0 : -1;
}

void dli_memory_awake(struct dli_lane *lane)
{
    pthread_mutex_lock(&lane->memory->world->mutex);
    lane->sleeping = 0;
    pthread_mutex_unlock(&lane->memory->world->mutex);
}

void dli_memory_shut(struct dli_lane *lane)
{
    pthread_mutex_lock(&lane->memory->world->mutex);
    lane->shut = 1;
    dli_memory_stir(lane->memory->world);
    pthread_mutex_unlock(&lane->memory->world->mutex);
    while (do_jobs(lane))
        continue;
    dli_memory_quit(lane->memory);
}

/* ---- life */

struct dli_lane *dli_memory_lane_new(struct dli_store *store, int index, int wake_fd)
{
    struct dli_memory *memory = dli_memory_of(store);
    struct dli_lane *lane = calloc(1, sizeof *lane);

    if (!lane)
        return NULL;
    if (dli_memory_enter(memory)) {
        free(lane);
        return NULL;
    }
    lane->memory = memory;
    lane->index = index;
    lane->wake_fd = wake_fd;
    dli_list_init(&lane->jobs);
    dli_list_init(&lane->over);
    pthread_mutex_lock(&memory->world->mutex);
    memory->lane[index] = lane;
    pthread_mutex_unlock(&memory->world->mutex);
    return lane;
}

void dli_memory_lane_free(struct dli_lane *lane)
{
    if (!lane)
        return;
    pthread_mutex_lock(&lane->memory->world->mutex);
    lane->memory->lane[lane->index] = NULL;
    pthread_mutex_unlock(&lane->memory->world->mutex);
    free(lane);
}
