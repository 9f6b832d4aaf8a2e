/*
 * request.h: a request of the store (store/store.h) as a call of the transport.
 */
#ifndef DLI_REDIS_PIPE_REQUEST_H
#define DLI_REDIS_PIPE_REQUEST_H

#include "base/list.h"
#include "store/store.h"
#include "call.h"

struct dli_job {
    struct dli_request request; /* first */
    struct dli_call call;
    int form;  /* the script's form, DLI_FORM_... */
    int asked; /* the command is encoded for ASKING, see asking.lua */
    int all;   /* it declares all keys, see DLI_ENCODE_ALL */

    /* NULL, or sees how the call ended before done runs. 1: the request goes on elsewhere and has not ended. */
    int (*intercept)(struct dli_job *job, dlock_status status, const struct dli_reply *reply);
};

/* The traits of a store on one server or a cluster. */
extern const struct dli_store_traits dli_redis_traits;

/* An empty request. NULL without memory. */
struct dli_request *dli_job_new(void);
void dli_job_free(struct dli_request *request);

/* Prepare the call and encode its command. 0, or -1 without memory. */
int dli_job_begin(struct dli_job *job);

/*
 * Fill in the results from a reply or a status, without telling the asker. 0; or -1, drop the connection: the reply
 * does not belong to this request, or the server forgot tokens (DLOCK_SERVER_FORGOT).
 */
int dli_job_answer(struct dli_job *job, dlock_status status, int sent, const struct dli_reply *reply);

/* Run done, if the request has one. */
void dli_job_done(struct dli_job *job);

/* Complete a request without a server; done runs. */
void dli_job_fail(struct dli_job *job, dlock_status status);

static inline struct dli_job *dli_job_of(struct dli_request *request)
{
    return DLI_OBJECT(request, struct dli_job, request);
}

#endif
