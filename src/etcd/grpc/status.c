/*
 * status.c: what the status of a call means. No state.
 *
 * Codes and sentences are etcd's (api/v3rpc/rpctypes). A code alone often does not say whether something was done; where
 * it does, the sentence is looked at.
 */
#include <string.h>

#include "inner.h"

enum {
    OK = 0,
    CANCELLED = 1,
    UNKNOWN = 2,
    INVALID_ARGUMENT = 3,
    DEADLINE_EXCEEDED = 4,
    NOT_FOUND = 5,
    PERMISSION_DENIED = 7,
    RESOURCE_EXHAUSTED = 8,
    FAILED_PRECONDITION = 9,
    UNIMPLEMENTED = 12,
    UNAVAILABLE = 14,
    UNAUTHENTICATED = 16
};

static dlock_status meaning(int code, const char *text)
{
    switch (code) {
    case OK:
        return DLOCK_OK;
    case CANCELLED:
    case DEADLINE_EXCEEDED:
    case UNAVAILABLE:
        return DLOCK_UNREACHABLE;
    case NOT_FOUND:
        return DLOCK_NOT_FOUND;
    case INVALID_ARGUMENT:
        return strstr(text, "auth") || strstr(text, "user name") ? DLOCK_DENIED : DLOCK_SERVER_ERROR;
    case PERMISSION_DENIED:
    case UNAUTHENTICATED:
        return DLOCK_DENIED;
    case RESOURCE_EXHAUSTED:
        return strstr(text, "space") ? DLOCK_SERVER_OUT_OF_MEMORY : DLOCK_SERVER_BUSY;
    case UNIMPLEMENTED:
        return DLOCK_WRONG_SETUP;
    case UNKNOWN: /* the deadline may pass deep in the server */
        return strstr(text, "context ") ? DLOCK_UNREACHABLE : DLOCK_SERVER_ERROR;
    default:
        return DLOCK_SERVER_ERROR;
    }
}

void dli_grpc_judge(struct dli_grpc_call *call, const char *member)
{
    char escaped[200];

    call->status = meaning(call->code, call->text);
    if (call->status == DLOCK_OK)
        return;
    if (call->code == DEADLINE_EXCEEDED)
        dli_fail(&call->reason, call->status, "The member %s did not answer in time.", member);
    else
        dli_fail(&call->reason, call->status, "The member %s answered: %s.", member,
                 dli_escape(escaped, sizeof escaped, call->text, strlen(call->text)));
}

int dli_grpc_refused(const struct dli_grpc_call *call)
{
    switch (call->code) {
    case RESOURCE_EXHAUSTED: /* what fills the space is refused, and done all the same */
        return !strstr(call->text, "space");
    case INVALID_ARGUMENT:
    case NOT_FOUND:
    case PERMISSION_DENIED:
    case FAILED_PRECONDITION:
    case UNIMPLEMENTED:
    case UNAUTHENTICATED:
        return 1;
    default:
        return 0;
    }
}

int dli_grpc_unfit(const struct dli_grpc_call *call)
{
    return call->code == UNAVAILABLE &&
           (strstr(call->text, "no leader") || strstr(call->text, "learner") || strstr(call->text, "stopped"));
}
