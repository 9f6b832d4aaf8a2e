/*
 * call.c: the life of a call, from its begin to its end. Belongs to lane 0's thread.
 */
#include "inner.h"

int dli_zk_begin(struct dli_zk_session *session, struct dli_zk_call *call, const struct dli_zk_ask *ask)
{
    dli_buffer_drop(&call->out, call->out.size);
    dli_zk_call_drop(call);
    call->zk = session->zk;
    if (dli_zk_encode_ask(&call->out, 0, ask))
        return -1;
    call->session = session;
    call->status = DLOCK_OK;
    call->reason.code = DLOCK_OK;
    call->error = 0;
    call->sent = call->over = 0;
    dli_list_init(&call->link);
    dli_list_append(&session->waiting, &call->link);
    return 0;
}

void dli_zk_cancel(struct dli_zk_call *call)
{
    if (!call->session)
        return;
    dli_list_remove(&call->link);
    call->session = NULL;
}

void dli_zk_call_drop(struct dli_zk_call *call)
{
    if (call->answer.room)
        call->zk->kept -= call->answer.room_size;
    dli_zk_answer_drop(&call->answer);
}

void dli_zk_call_free(struct dli_zk_call *call)
{
    dli_zk_call_drop(call);
    dli_buffer_free(&call->out);
}

void dli_zk_call_end(struct dli_zk_call *call)
{
    dli_list_remove(&call->link);
    call->session = NULL;
    call->ended(call);
}

void dli_zk_call_fail(struct dli_zk_call *call, const dlock_error *reason)
{
    call->status = reason->code;
    call->reason = *reason;
    dli_zk_call_end(call);
}

/* End all calls of a list. New ones may join it meanwhile. */
void dli_zk_calls_fail(struct dli_link *list, const dlock_error *reason, int over)
{
    struct dli_link ended, *link;

    dli_list_init(&ended);
    while ((link = dli_list_pop(list)))
        dli_list_append(&ended, link);
    while ((link = dli_list_pop(&ended))) {
        struct dli_zk_call *call = DLI_OBJECT(link, struct dli_zk_call, link);

        call->over = over;
        dli_zk_call_fail(call, reason);
    }
}

void dli_zk_link_fail(struct dli_zk_session *session, const dlock_error *reason, int over)
{
    dlock_error why = *reason;

    dli_zk_calls_fail(&session->flying, &why, over);
    dli_zk_calls_fail(&session->waiting, &why, over);
}
