/*
 * lane.c: the jobs that wait for a connection, and the operations of the lane. Threads and mutex: see replicas.h.
 */
#include "replicas.h"

#include <poll.h>
#include <string.h>

#include "redis/link/link.h"
#include "sys/sys.h"

void dli_replicas_init(struct dli_replicas *replicas, const struct dli_conn_config *config, struct dli_budget *budget,
                       int wake_fd, int needed, int64_t *reloads)
{
    memset(replicas, 0, sizeof *replicas);
    pthread_mutex_init(&replicas->mutex, NULL);
    for (int i = 0; i < 2; i++) {
        replicas->pushed[i].end = &replicas->pushed[i].first;
        replicas->waiting[i].end = &replicas->waiting[i].first;
    }
    replicas->config = config;
    replicas->budget = budget;
    replicas->wake_fd = wake_fd;
    replicas->needed = needed;
    replicas->reloads = reloads;
    dli_census_init(&replicas->census, needed < 0 ? config->sentinels : NULL);
    replicas->listed = &replicas->census.listed;
}

void dli_replicas_fini(struct dli_replicas *replicas)
{
    for (int i = 0; i < DLI_REPLICAS_CONNS; i++)
        dli_conn_free(replicas->carrier[i].conn);
    dli_census_fini(&replicas->census);
    pthread_mutex_destroy(&replicas->mutex);
}

int dli_replicas_want(const struct dli_replicas *replicas, const struct dli_request *request)
{
    if (replicas->needed == 0)
        return 0;
    if (request->verb == DLI_VERB_EXCHANGE)
        return request->exchange.wish.want != 0 && request->kind->id != DLOCK_KIND_LATCH;
    return request->verb == DLI_VERB_RENEW || request->verb == DLI_VERB_ACQUIRE_ALL;
}

/* ---- the lane */

int dli_replicas_push(struct dli_replicas *replicas, struct dli_job *job, int urgent)
{
    struct dli_call_queue *line = &replicas->pushed[urgent != 0];
    struct dli_call *call = &job->call;
    int shut;

    call->done = 0;
    call->next = NULL;
    pthread_mutex_lock(&replicas->mutex);
    shut = replicas->shut;
    if (!shut) {
        *line->end = call;
        line->end = &call->next;
    }
    pthread_mutex_unlock(&replicas->mutex);
    if (!shut)
        dli_wake_set(replicas->wake_fd);
    return shut ? -1 : 0;
}

void dli_replicas_execute(struct dli_replicas *replicas, struct dli_job *job)
{
    job->call.sleeps = 1;
    if (dli_replicas_push(replicas, job, 0)) {
        dli_job_fail(job, DLOCK_CLOSED);
        return;
    }
    while (!__atomic_load_n(&job->call.done, __ATOMIC_ACQUIRE))
        dli_futex_sleep(&job->call.done, 0);
}

/* Append one queue to the other. */
static void move(struct dli_call_queue *from, struct dli_call_queue *to)
{
    if (!from->first)
        return;
    *to->end = from->first;
    to->end = from->end;
    from->first = NULL;
    from->end = &from->first;
}

/* Move the pushed calls behind the waiting ones. */
static void collect(struct dli_replicas *replicas, int shut)
{
    pthread_mutex_lock(&replicas->mutex);
    replicas->shut |= shut;
    for (int i = 0; i < 2; i++)
        move(&replicas->pushed[i], &replicas->waiting[i]);
    pthread_mutex_unlock(&replicas->mutex);
}

static struct dli_job *next(struct dli_replicas *replicas)
{
    struct dli_call_queue *line = &replicas->waiting[replicas->waiting[1].first != NULL];
    struct dli_call *call = line->first;

    if (!call)
        return NULL;
    line->first = call->next;
    if (!line->first)
        line->end = &line->first;
    return DLI_OBJECT(call, struct dli_job, call);
}

static void begin(struct dli_replicas_carrier *carrier, struct dli_job *job, int64_t now)
{
    carrier->job = job;
    carrier->said = carrier->waits = carrier->asks = carrier->fresh = carrier->skip = 0;
    carrier->alarm = now;
}

/* End the calls whose deadline has passed. */
static void expire(struct dli_replicas *replicas, struct dli_call_queue *line, int64_t now)
{
    struct dli_call **link = &line->first, *call;

    while ((call = *link)) {
        if (now < call->deadline) {
            link = &call->next;
            continue;
        }
        *link = call->next;
        dli_replicas_end(replicas, DLI_OBJECT(call, struct dli_job, call), DLOCK_UNREACHABLE);
    }
    line->end = link;
}

static int is_busy(const struct dli_replicas *replicas)
{
    int busy = replicas->waiting[0].first || replicas->waiting[1].first;

    for (int i = 0; i < DLI_REPLICAS_CONNS; i++)
        busy |= replicas->carrier[i].job != NULL;
    return busy;
}

void dli_replicas_step(struct dli_replicas *replicas, int64_t now)
{
    struct dli_job *job;

    collect(replicas, 0);
    dli_census_step(&replicas->census, is_busy(replicas), now);
    for (int i = 0; i < 2; i++)
        expire(replicas, &replicas->waiting[i], now);
    for (int i = 0; i < DLI_REPLICAS_CONNS; i++) {
        struct dli_replicas_carrier *carrier = &replicas->carrier[i];

        if (carrier->job)
            dli_replicas_drive(replicas, carrier, now);
        else if (carrier->connecting)
            dli_replicas_settle(replicas, carrier, now);
        while (!carrier->job && dli_census_ready(&replicas->census) && (job = next(replicas))) {
            begin(carrier, job, now);
            dli_replicas_drive(replicas, carrier, now);
        }
    }
}

int64_t dli_replicas_alarm(const struct dli_replicas *replicas)
{
    int64_t at = dli_census_alarm(&replicas->census);

    for (int i = 0; i < DLI_REPLICAS_CONNS; i++) {
        const struct dli_replicas_carrier *carrier = &replicas->carrier[i];

        if ((carrier->job || carrier->connecting) && carrier->alarm < at)
            at = carrier->alarm;
        if (carrier->job && carrier->job->call.deadline < at)
            at = carrier->job->call.deadline;
    }
    for (int i = 0; i < 2; i++)
        for (const struct dli_call *call = replicas->waiting[i].first; call; call = call->next)
            at = call->deadline < at ? call->deadline : at;
    return at;
}

int dli_replicas_fds(const struct dli_replicas *replicas, struct pollfd *fds)
{
    int count = dli_census_fds(&replicas->census, fds);

    for (int i = 0; i < DLI_REPLICAS_CONNS; i++) {
        const struct dli_replicas_carrier *carrier = &replicas->carrier[i];

        if ((carrier->job || carrier->connecting) && carrier->conn && carrier->conn->fd >= 0)
            fds[count++] = dli_conn_poll(carrier->conn);
    }
    return count;
}

void dli_replicas_shut(struct dli_replicas *replicas)
{
    struct dli_job *job;

    collect(replicas, 1);
    for (int i = 0; i < DLI_REPLICAS_CONNS; i++) {
        struct dli_replicas_carrier *carrier = &replicas->carrier[i];

        if (carrier->job && carrier->said)
            dli_replicas_cut(carrier);
        else if (carrier->job)
            dli_replicas_end(replicas, carrier->job, DLOCK_CLOSED);
        carrier->job = NULL;
    }
    while ((job = next(replicas)))
        dli_replicas_end(replicas, job, DLOCK_CLOSED);
}
