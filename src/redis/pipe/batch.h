/*
 * batch.h: calls of many callers in one script: which may share a batch, and the batch's command on the wire.
 *
 * Running a script costs a server more than its work for one lock. When many callers come at once, one script acquires
 * or releases for up to DLI_BATCH_MOST of them. Each gets the reply that its own script would have given (for a grant
 * only the token), or nil: it is then sent again alone, and may have acted already.
 *
 * A server that refuses one key refuses the whole script. Each call is then sent alone at once. One that is refused
 * again joins no batch until it succeeds (place->apart).
 *
 * Everything here belongs to the thread of the pipe.
 */
#ifndef DLI_REDIS_PIPE_BATCH_H
#define DLI_REDIS_PIPE_BATCH_H

#include "store/store.h"
#include "call.h"

/* Fewer calls than DLI_BATCH_LEAST are sent one by one. */
enum { DLI_BATCH_LEAST = 4, DLI_BATCH_MOST = 16, DLI_BATCH_PARTS = 4, DLI_BATCH_ARGS = 3 };

struct dli_batch {
    int count;
    struct dli_call *call[DLI_BATCH_MOST];
    const char *part[DLI_BATCH_MOST][DLI_BATCH_PARTS + 1]; /* of its command: where the parts begin, and the end */
};

/* The batch number of a request: requests with the same one may share a batch. 0: it is sent alone. */
int dli_batch_of(const struct dli_request *request);

/* Add a call to the batch, which is not full; call->batch is not 0. 0: it does not fit the calls that are in it. */
int dli_batch_add(struct dli_batch *batch, struct dli_call *call);

/* Append the batch's command. full: with the script's text. 0, or -1 without memory: nothing is appended then. */
int dli_batch_encode(struct dli_buffer *out, const struct dli_batch *batch, int full);

/*
 * The reply that the call's own script would have given, made from its element of the batch's reply. room is memory for
 * it.
 */
const struct dli_reply *dli_batch_reply(const struct dli_call *call, const struct dli_reply *said,
                                        struct dli_reply room[DLI_BATCH_ARGS]);

#endif
