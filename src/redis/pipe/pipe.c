/*
 * pipe.c: pushes, collects and completes calls of the shared connection. pipe.h says what mutex guards; the connection
 * is in pipe_io.c.
 */
#include "pipe_io.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

/* The value of pushed after the pipe was shut. */
static struct dli_call shut;

int dli_pipe_init(struct dli_pipe *pipe, const struct dli_conn_config *config, struct dli_budget *budget, int wake_fd,
                  int64_t silence, int64_t *reloads)
{
    memset(pipe, 0, sizeof *pipe);
    if (pthread_mutex_init(&pipe->mutex, NULL))
        return -1;
    pipe->config = config;
    pipe->conn = dli_conn_new(config);
    pipe->budget = budget;
    pipe->wake_fd = wake_fd;
    pipe->silence = silence;
    pipe->reloads = reloads;
    pipe->again_end = &pipe->again;
    pipe->urgent_end = &pipe->urgent;
    pipe->waiting_end = &pipe->waiting;
    pipe->deadline = INT64_MAX;
    return pipe->conn ? 0 : -1;
}

void dli_pipe_fini(struct dli_pipe *pipe)
{
    dli_conn_free(pipe->conn);
    pthread_mutex_destroy(&pipe->mutex);
    free(pipe->flying);
}

/* The call is over. A sleeping caller may free it as soon as done is set. */
int dli_pipe_complete(struct dli_pipe *pipe, struct dli_call *call, dlock_status status, int sent,
                      const struct dli_reply *reply)
{
    uint32_t slot = call->slot, sleeps = call->sleeps;
    int result;

    if (status != DLOCK_OK && call->reason && call->reason->code == DLOCK_OK)
        *call->reason = pipe->conn->reason;
    dli_unknown_over(&pipe->unknown, call);
    if (call->counted)
        __atomic_sub_fetch(&pipe->load, 1, __ATOMIC_RELAXED);
    result = call->complete(call, status, sent || call->repeated, reply);
    if (sleeps) {
        __atomic_store_n(&call->done, 1, __ATOMIC_RELEASE);
        pipe->woken |= UINT64_C(1) << slot;
    }
    return result;
}

static void append(struct dli_call ***end, struct dli_call *call)
{
    call->next = NULL;
    **end = call;
    *end = &call->next;
}

void dli_pipe_push_urgent(struct dli_pipe *pipe, struct dli_call *call)
{
    call->counted = 0;
    call->slot = 0;
    append(&pipe->urgent_end, call);
    if (call->deadline < pipe->deadline)
        pipe->deadline = call->deadline;
}

/* Move pushed calls behind the waiting ones, oldest first. leave becomes the value of pushed. */
static void collect(struct dli_pipe *pipe, struct dli_call *leave)
{
    struct dli_call *newest = __atomic_load_n(&pipe->pushed, __ATOMIC_RELAXED), *oldest = NULL, *call;

    if (newest == leave || newest == &shut)
        return;
    __atomic_add_fetch(&pipe->open_slot, 1, __ATOMIC_RELAXED);
    newest = __atomic_exchange_n(&pipe->pushed, leave, __ATOMIC_ACQUIRE);
    while ((call = newest)) {
        newest = call->next;
        call->next = oldest;
        oldest = call;
    }
    while ((call = oldest)) {
        oldest = call->next;
        if (call->deadline < pipe->deadline)
            pipe->deadline = call->deadline;
        append(&pipe->waiting_end, call);
    }
}

/* Complete the calls of a list whose deadline has passed. min collects the earliest deadline of the others. */
static void expire_list(struct dli_pipe *pipe, struct dli_call **list, struct dli_call ***end, int64_t now,
                        dlock_status status, int64_t *min)
{
    struct dli_call *call, *all = *list;

    *list = NULL;
    *end = list;
    while ((call = all)) {
        all = call->next;
        if (call->deadline > now) {
            append(end, call);
            *min = call->deadline < *min ? call->deadline : *min;
        } else {
            dli_fail(call->reason, status, status == DLOCK_CLOSED ? "the client was closed" : "%s: no %s in time%s%s",
                     pipe->config->target.text, pipe->conn->state == DLI_CONN_READY ? "answer" : "connection",
                     pipe->conn->reason.message[0] ? ": " : "", pipe->conn->reason.message);
            dli_pipe_complete(pipe, call, status, 0, NULL);
        }
    }
}

static void expire_flying(struct dli_pipe *pipe, int64_t now, dlock_status status, int64_t *min)
{
    for (size_t i = 0; i < pipe->flying_count; i++) {
        struct dli_call **place = &pipe->flying[(pipe->flying_first + i) % pipe->flying_room].call;
        struct dli_call *call = *place;

        if (call && call->deadline > now) {
            *min = call->deadline < *min ? call->deadline : *min;
        } else if (call) {
            *place = NULL;
            dli_fail(call->reason, status, status == DLOCK_CLOSED ? "the client was closed" : "%s: no answer in time",
                     pipe->config->target.text);
            dli_pipe_complete(pipe, call, status, 1, NULL);
        }
    }
}

static void expire(struct dli_pipe *pipe, int64_t now, dlock_status status)
{
    int64_t min = INT64_MAX;

    expire_list(pipe, &pipe->again, &pipe->again_end, now, status, &min);
    expire_list(pipe, &pipe->urgent, &pipe->urgent_end, now, status, &min);
    expire_list(pipe, &pipe->waiting, &pipe->waiting_end, now, status, &min);
    expire_flying(pipe, now, status, &min);
    pipe->deadline = min;
}

static void wake_callers(struct dli_pipe *pipe)
{
    while (pipe->woken) {
        int slot = __builtin_ctzll(pipe->woken);

        pipe->woken &= pipe->woken - 1;
        __atomic_add_fetch(&pipe->words[slot], 1, __ATOMIC_RELEASE);
        dli_futex_wake(&pipe->words[slot], INT_MAX);
    }
}

void dli_pipe_step(struct dli_pipe *pipe, int64_t now)
{
    collect(pipe, NULL);
    dli_pipe_io(pipe, now);
    if (now >= pipe->deadline)
        expire(pipe, now, DLOCK_UNREACHABLE);
    wake_callers(pipe);
}

void dli_pipe_shut(struct dli_pipe *pipe)
{
    collect(pipe, &shut);
    expire(pipe, INT64_MAX, DLOCK_CLOSED);
    wake_callers(pipe);
    dli_conn_close(pipe->conn);
    __atomic_store_n(&pipe->ready, 0, __ATOMIC_RELAXED);
}

int64_t dli_pipe_alarm(const struct dli_pipe *pipe)
{
    int64_t at = pipe->deadline;

    if (pipe->conn->state == DLI_CONN_READY) {
        if (pipe->flying_count > 0 && pipe->received_at + pipe->silence < at)
            at = pipe->received_at + pipe->silence;
    } else if (pipe->conn->state == DLI_CONN_IDLE || pipe->conn->state == DLI_CONN_FAILED) {
        if ((pipe->again || pipe->urgent || pipe->waiting) && pipe->try_at < at)
            at = pipe->try_at;
    } else if (pipe->conn->deadline < at) {
        at = pipe->conn->deadline;
    }
    return at;
}

/* ---- direct calls */

void dli_pipe_enter(struct dli_pipe *pipe)
{
    pthread_mutex_lock(&pipe->mutex);
}

void dli_pipe_leave(struct dli_pipe *pipe)
{
    pthread_mutex_unlock(&pipe->mutex);
}

/* While nothing is in flight the loop need not wake up for bytes: a direct call reads its own answer. */
struct pollfd dli_pipe_poll(const struct dli_pipe *pipe)
{
    struct pollfd fd = dli_conn_poll(pipe->conn);

    if (pipe->conn->state == DLI_CONN_READY && pipe->flying_count == 0)
        fd.events = (short)((fd.events & ~POLLIN) | POLLRDHUP);
    return fd;
}

/* Whether nothing is left to do or to wait for. */
static int settled(const struct dli_pipe *pipe)
{
    return pipe->conn->state == DLI_CONN_READY && pipe->flying_count == 0 && !pipe->again && !pipe->urgent &&
           !pipe->waiting && !__atomic_load_n(&pipe->pushed, __ATOMIC_RELAXED);
}

/* Send and receive. 1: all is answered, or the rest is left to the loop. */
static int poll_once(void *whose, int64_t now)
{
    struct dli_pipe *pipe = whose;
    int over;

    if (pthread_mutex_trylock(&pipe->mutex))
        return 1;
    if (pipe->conn->state == DLI_CONN_READY) {
        collect(pipe, NULL);
        dli_pipe_io(pipe, now);
        wake_callers(pipe);
    }
    over = pipe->conn->state != DLI_CONN_READY || settled(pipe);
    pthread_mutex_unlock(&pipe->mutex);
    return over;
}

/*
 * Busy polling was in vain, or others want the core. Sleep for the answer, for at most limit, unless sleeping has
 * lately been in vain too. If the loop has closed fd meanwhile, the sleep is short or useless, and poll_once finds what
 * there is.
 */
static void sleep_briefly(struct dli_pipe *pipe, struct dli_busy *nap, int fd, int64_t limit)
{
    struct timespec time = {.tv_nsec = (limit < 999999 ? limit : 999999) * 1000};
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    int64_t now = dli_now();
    int came;

    if (!dli_busy_may(nap, now))
        return;
    came = poll_once(pipe, now);
    if (!came && ppoll(&answer, 1, &time, NULL) > 0)
        came = poll_once(pipe, dli_now());
    dli_busy_result(nap, came, 0, 0, dli_now());
}

/*
 * A direct call was pushed: if the loop sleeps, do its work for a moment. Returns whether nothing is left to do;
 * otherwise the loop must be woken, and checks all deadlines again. The mutex is free while this thread gives way, so
 * the loop does not wait for that.
 */
static int drive(struct dli_pipe *pipe)
{
    int64_t limit = pipe->config->busy_poll;
    struct dli_busy busy, nap;
    struct pollfd fd;
    int done;

    if (limit <= 0 || pthread_mutex_trylock(&pipe->mutex))
        return 0;
    busy = pipe->busy;
    nap = pipe->nap;
    fd = dli_conn_poll(pipe->conn);
    pthread_mutex_unlock(&pipe->mutex);
    if (!dli_busy_poll(&busy, dli_now(), limit, poll_once, pipe))
        sleep_briefly(pipe, &nap, fd.fd, limit);
    if (pthread_mutex_trylock(&pipe->mutex))
        return 0;
    pipe->busy = busy;
    pipe->nap = nap;
    done = settled(pipe);
    pthread_mutex_unlock(&pipe->mutex);
    return done;
}

/* ---- callers */

int dli_pipe_push(struct dli_pipe *pipe, struct dli_call *call)
{
    struct dli_call *seen = __atomic_load_n(&pipe->pushed, __ATOMIC_RELAXED);
    int alone = __atomic_add_fetch(&pipe->load, 1, __ATOMIC_RELAXED) == 1, direct = call->direct;

    call->counted = 1;
    call->slot = __atomic_load_n(&pipe->open_slot, __ATOMIC_RELAXED) % DLI_PIPE_WORDS;
    if (__atomic_add_fetch(&pipe->pushes, 1, __ATOMIC_RELAXED) % DLI_PIPE_GROUP == 0)
        __atomic_add_fetch(&pipe->open_slot, 1, __ATOMIC_RELAXED);
    call->done = 0;
    do {
        if (seen == &shut) {
            __atomic_sub_fetch(&pipe->load, 1, __ATOMIC_RELAXED);
            return -1;
        }
        call->next = seen;
    } while (!__atomic_compare_exchange_n(&pipe->pushed, &seen, call, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    if (direct && alone && drive(pipe))
        return 0;
    if (__atomic_load_n(&pipe->sleeping, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&pipe->sleeping, 0, __ATOMIC_SEQ_CST))
        dli_wake_set(pipe->wake_fd);
    return 0;
}

void dli_pipe_wait(struct dli_pipe *pipe, struct dli_call *call)
{
    uint32_t *word = &pipe->words[call->slot];

    while (!__atomic_load_n(&call->done, __ATOMIC_ACQUIRE)) {
        uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);

        if (!__atomic_load_n(&call->done, __ATOMIC_ACQUIRE))
            dli_futex_sleep(word, seen);
    }
}
