/*
 * request.h: a request of the seam (store/store.h) as a call of the transport.
 */
#ifndef DLI_REDIS_PIPE_REQUEST_H
#define DLI_REDIS_PIPE_REQUEST_H

#include "base/list.h"
#include "store/store.h"
#include "call.h"

struct dli_job {
    struct dli_request request; /* first */
    struct dli_call call;
    int form; /* of its script, DLI_FORM_... */

    /* NULL, or who sees how the call ended before it is told: 1, it goes on elsewhere and this was not its end. */
    int (*intercept)(struct dli_job *job, dlock_status status, const struct dli_reply *reply);
};

/* An empty request. NULL without memory. */
struct dli_request *dli_job_new(void);
void dli_job_free(struct dli_request *request);

/* Make the call ready to be sent. 0, or -1 without memory. */
int dli_job_begin(struct dli_job *job);

/* Take the results from a reply, or status, without telling. -1 when the reply is not one to this request, else 0. */
int dli_job_answer(struct dli_job *job, dlock_status status, int sent, const struct dli_reply *reply);

/* Tell its asker, if it has one that wants to be told. */
void dli_job_tell(struct dli_job *job);

/* Answer a request without a server; done runs. */
void dli_job_fail(struct dli_job *job, dlock_status status);

static inline struct dli_job *dli_job_of(struct dli_request *request)
{
    return DLI_OBJECT(request, struct dli_job, request);
}

#endif
