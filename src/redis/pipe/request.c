/*
 * request.c: see request.h. A request belongs to one thread at a time; there is no mutex.
 */
#include "request.h"

#include <stdlib.h>
#include <string.h>

#include "redis/codec/codec.h"

struct dli_request *dli_errand_new(void)
{
    void *errand = calloc(1, sizeof(struct dli_errand));

    return errand; /* the request is its first member */
}

void dli_errand_free(struct dli_request *request)
{
    if (!request)
        return;
    dli_buffer_free(&dli_errand_of(request)->call.command);
    free(dli_errand_of(request));
}

static int encode(struct dli_call *call, int full)
{
    const struct dli_errand *errand = DLI_OBJECT(call, struct dli_errand, call);
    int how = (full ? DLI_SAY_FULL : 0) | errand->form * DLI_SAY_FORM;

    call->command.size = 0;
    return dli_encode_request(&call->command, how, &errand->request);
}

/* What is known of an exchange whatever came of it. A first copy of a release may still be under way: then it counts. */
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

/* Whether the lock's requests may be with others in one script from now on. */
static void note_refusal(const struct dli_request *request)
{
    uint32_t apart = request->status != DLOCK_OK;

    if (request->verb != DLI_VERB_EXCHANGE || (apart && !dli_request_blamed(request)))
        return;
    if (__atomic_load_n(request->place->apart, __ATOMIC_RELAXED) != apart)
        __atomic_store_n(request->place->apart, apart, __ATOMIC_RELAXED);
}

int dli_errand_hear(struct dli_errand *errand, dlock_status status, int sent, const struct dli_reply *reply)
{
    struct dli_request *request = &errand->request;

    request->status = status;
    request->sent = sent;
    request->refused = 0;
    request->repeated = errand->call.repeated;
    if (request->verb == DLI_VERB_EXCHANGE)
        request->exchange.answer = (struct dli_answer){.status = status};
    if (status == DLOCK_OK) {
        dli_decode_request(reply, request);
        note_refusal(request);
    }
    if (request->verb == DLI_VERB_EXCHANGE)
        complete_answer(request);
    if (status != DLOCK_OK)
        return 0;
    return request->status == DLOCK_PROTOCOL_ERROR || request->status == DLOCK_SERVER_FORGOT ? -1 : 0;
}

void dli_errand_tell(struct dli_errand *errand)
{
    if (errand->request.done)
        errand->request.done(&errand->request);
}

static int complete(struct dli_call *call, dlock_status status, int sent, const struct dli_reply *reply)
{
    struct dli_errand *errand = DLI_OBJECT(call, struct dli_errand, call);
    int result;

    if (errand->turn && errand->turn(errand, status, reply))
        return 0;
    result = dli_errand_hear(errand, status, sent, reply);
    dli_errand_tell(errand);
    return result;
}

int dli_errand_begin(struct dli_errand *errand)
{
    struct dli_call *call = &errand->call;

    call->encode = encode;
    call->complete = complete;
    call->deadline = errand->request.deadline;
    call->repeatable = errand->request.repeatable;
    call->why = errand->request.why;
    call->fallback = call->repeated = call->asking = call->crowd = 0;
    errand->request.torn = 0;
    call->sleeps = 0;
    return encode(call, 0);
}

void dli_errand_fail(struct dli_errand *errand, dlock_status status)
{
    complete(&errand->call, status, errand->call.repeated, NULL);
}

int dli_reply_unknown_script(const struct dli_reply *reply)
{
    return reply->type == DLI_REPLY_ERROR && reply->size >= 8 && memcmp(reply->text, "NOSCRIPT", 8) == 0;
}

int dli_call_unknown_script(const struct dli_call *call, const struct dli_reply *reply)
{
    return !call->fallback && reply && dli_reply_unknown_script(reply);
}
