/*
 * call.h: one command on its way to a server and back.
 *
 * A call is owned by whoever made it; the transport holds it from dli_private_call or dli_pipe_push until complete has
 * run, exactly once. complete runs on the thread that read the reply: the caller's own for a private connection, for the pipe
 * the loop's or that of a direct call. The reply is valid only inside complete.
 */
#ifndef DLI_REDIS_PIPE_CALL_H
#define DLI_REDIS_PIPE_CALL_H

#include "base/error.h"
#include "redis/codec/codec.h"

struct dli_call {
    struct dli_call *next;     /* the transport's */
    struct dli_buffer command; /* the encoded command */
    int64_t deadline;          /* the transport gives up then */
    int repeatable;            /* sending it twice does no harm */
    int repeated;              /* it was sent twice: the first may have acted */
    int fallback;              /* the command was sent as EVAL after NOSCRIPT */
    uint32_t slot;             /* which futex word of the pipe its sleeping caller waits on */
    uint32_t sleeps;           /* a caller sleeps until done */
    int counted;               /* in the load of the pipe */
    int direct;                /* dli_pipe_push may wait a moment for the answer; the pipe only */
    int batch;                 /* not 0: it may go with others that have the same, see batch.h; the pipe only */
    int asking;                /* ASKING goes before it, for a slot that is on its way; the pipe only */
    uint32_t done;             /* atomic; set last, by the pipe */

    /* Encode the command into call->command (empty); full: EVAL with the script's text. 0 or -1 without memory. */
    int (*encode)(struct dli_call *call, int full);

    /*
     * status DLOCK_OK: reply is there (maybe an error reply). Else why not, and sent: whether the server may have acted.
     * Returns 0, or -1 when the reply is not one to this command: the connection is dropped then.
     */
    int (*complete)(struct dli_call *call, dlock_status status, int sent, const struct dli_reply *reply);

    dlock_error *reason; /* NULL, or where to put one sentence that names the server when status is not DLOCK_OK */
};

/* 1 when the reply is the server's word that it does not know the script (and has done nothing). */
int dli_reply_unknown_script(const struct dli_reply *reply);

/* The same of a call's reply, or NULL, unless the script's text was sent. */
int dli_call_unknown_script(const struct dli_call *call, const struct dli_reply *reply);

#endif
