/*
 * request.h: a request of the seam (store/store.h) as a call of the transport.
 */
#ifndef DLI_REDIS_PIPE_REQUEST_H
#define DLI_REDIS_PIPE_REQUEST_H

#include "base/list.h"
#include "store/store.h"
#include "call.h"

struct dli_errand {
    struct dli_request request; /* first */
    struct dli_call call;
    int form; /* of its script, DLI_FORM_... */

    /* NULL, or who sees how the call ended before it is told: 1, it goes on elsewhere and this was not its end. */
    int (*turn)(struct dli_errand *errand, dlock_status status, const struct dli_reply *reply);
};

/* An empty request. NULL without memory. */
struct dli_request *dli_errand_new(void);
void dli_errand_free(struct dli_request *request);

/* Make the call ready to be sent. 0, or -1 without memory. */
int dli_errand_begin(struct dli_errand *errand);

/* Take the results from a reply, or status, without telling. -1 when the reply is not one to this request, else 0. */
int dli_errand_hear(struct dli_errand *errand, dlock_status status, int sent, const struct dli_reply *reply);

/* Tell its asker, if it has one that wants to be told. */
void dli_errand_tell(struct dli_errand *errand);

/* Answer a request without a server; done runs. */
void dli_errand_fail(struct dli_errand *errand, dlock_status status);

static inline struct dli_errand *dli_errand_of(struct dli_request *request)
{
    return DLI_OBJECT(request, struct dli_errand, request);
}

#endif
