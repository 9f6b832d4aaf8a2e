/*
 * request.c: requests as calls, see request.h. A request belongs to one thread at a time; there is no mutex.
 */
#include "request.h"

#include <stdlib.h>
#include <string.h>

#include "redis/codec/codec.h"

enum { MOVING_PAUSE = 200000 }; /* microseconds */

const struct dli_store_traits dli_redis_traits = {
    .where = "on Redis",
    .kinds_text = "all kinds",
    .kinds = UINT32_MAX,
    .can = DLI_CAN_LINE | DLI_CAN_PASS | DLI_CAN_ACQUIRE_ALL | DLI_CAN_GATE | DLI_CAN_ADOPT | DLI_CAN_TRANSACTIONS |
           DLI_CAN_MISS,
};

struct dli_request *dli_job_new(void)
{
    void *job = malloc(sizeof(struct dli_job)); /* glibc's calloc bypasses the cache of the thread */

    return job ? memset(job, 0, sizeof(struct dli_job)) : NULL; /* the request is its first member */
}

void dli_job_free(struct dli_request *request)
{
    if (!request)
        return;
    dli_buffer_free(&dli_job_of(request)->call.command);
    free(dli_job_of(request));
}

static int encode(struct dli_call *call, int full)
{
    const struct dli_job *job = DLI_OBJECT(call, struct dli_job, call);
    int how = (full ? DLI_ENCODE_FULL : 0) | job->form * DLI_ENCODE_FORM | (job->asked ? DLI_ENCODE_ASKING : 0) |
              (job->all ? DLI_ENCODE_ALL : 0);

    call->command.size = 0;
    return dli_encode_request(&call->command, how, &job->request);
}

/*
 * Fill in the answer to an exchange, whatever its outcome. If a release was sent twice, the first copy may have
 * released: it counts as released.
 */
static void complete_answer(struct dli_request *request)
{
    struct dli_answer *answer = &request->exchange.answer;

    answer->status = request->status;
    answer->sent = request->status != DLOCK_OK && request->sent;
    answer->refused = request->refused;
    answer->repeated = request->repeated;
    if (request->repeated && request->exchange.wish.drop)
        answer->released = 1;
}

/*
 * A sharded channel of a slot that moves has its subscribers at the old server and its messages at the new one. So who
 * listens to it asks again soon.
 */
static void hear_nothing(struct dli_answer *answer)
{
    if (answer->got == DLI_TRY_HELD && answer->foreign && (answer->left < 0 || answer->left > MOVING_PAUSE))
        answer->left = MOVING_PAUSE;
}

/* Note whether the lock's requests may join batches from now on. */
static void note_refusal(const struct dli_request *request)
{
    uint8_t apart = request->status != DLOCK_OK, *noted;

    if (request->verb != DLI_VERB_EXCHANGE || (apart && !dli_request_blamed(request)))
        return;
    noted = (uint8_t *)&request->place->apart;
    if (__atomic_load_n(noted, __ATOMIC_RELAXED) != apart)
        __atomic_store_n(noted, apart, __ATOMIC_RELAXED);
}

int dli_job_answer(struct dli_job *job, dlock_status status, int sent, const struct dli_reply *reply)
{
    struct dli_request *request = &job->request;

    request->status = status;
    request->sent = sent;
    request->refused = 0;
    request->repeated = job->call.repeated;
    if (request->verb == DLI_VERB_EXCHANGE)
        request->exchange.answer = (struct dli_answer){.status = status};
    if (status == DLOCK_OK) {
        dli_decode_request(reply, request);
        note_refusal(request);
    }
    if (request->verb == DLI_VERB_EXCHANGE)
        complete_answer(request);
    if (request->verb == DLI_VERB_EXCHANGE && job->asked)
        hear_nothing(&request->exchange.answer);
    if (status != DLOCK_OK)
        return 0;
    return request->status == DLOCK_PROTOCOL_ERROR || request->status == DLOCK_SERVER_FORGOT ? -1 : 0;
}

void dli_job_done(struct dli_job *job)
{
    if (job->request.done)
        job->request.done(&job->request);
}

static int complete(struct dli_call *call, dlock_status status, int sent, const struct dli_reply *reply)
{
    struct dli_job *job = DLI_OBJECT(call, struct dli_job, call);
    int result;

    if (job->intercept && job->intercept(job, status, reply))
        return 0;
    result = dli_job_answer(job, status, sent, reply);
    dli_job_done(job);
    return result;
}

int dli_job_begin(struct dli_job *job)
{
    struct dli_call *call = &job->call;

    call->encode = encode;
    call->complete = complete;
    call->deadline = job->request.deadline;
    call->repeatable = job->request.repeatable;
    call->reason = job->request.reason;
    call->fallback = call->refused = call->loads = call->repeated = call->turned = call->asking = call->batch = 0;
    job->request.torn = 0;
    call->sleeps = 0;
    return encode(call, 0);
}

void dli_job_fail(struct dli_job *job, dlock_status status)
{
    complete(&job->call, status, job->call.repeated, NULL);
}

int dli_reply_unknown_script(const struct dli_reply *reply)
{
    return reply->type == DLI_REPLY_ERROR && reply->size >= 8 && memcmp(reply->text, "NOSCRIPT", 8) == 0;
}

int dli_call_unknown_script(const struct dli_call *call, const struct dli_reply *reply)
{
    return !call->fallback && reply && dli_reply_unknown_script(reply);
}
