/*
 * status.c: what the status of a call means. No state.
 *
 * Codes and sentences are etcd's (api/v3rpc/rpctypes). A code alone often does not say whether something was done; where
 * it does, the sentence is looked at.
 */
#include <string.h>

#include "base/secret.h"
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

int dli_grpc_says(const struct dli_grpc_call *call, const char *phrase)
{
    return strstr(call->said, phrase) != NULL;
}

int dli_grpc_code(const char *text, size_t size)
{
    int code = 0;

    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || code > UNAUTHENTICATED)
            return UNKNOWN;
        code = code * 10 + (text[i] - '0');
    }
    return size > 0 && code <= UNAUTHENTICATED ? code : UNKNOWN;
}

const char *dli_grpc_shown(struct dli_grpc_call *call)
{
    const char *secrets[] = {call->grpc->password, call->grpc->token};
    size_t size = strlen(call->said);

    return dli_mask(call->text, sizeof call->text, &(struct dli_said){call->said, size, size + 1 == sizeof call->said},
                    secrets, 2);
}

int dli_grpc_dropped(const struct dli_grpc_call *call)
{
    return call->code == UNKNOWN && dli_grpc_says(call, "raft proposal dropped");
}

static int is_of_raft(const struct dli_grpc_call *call)
{
    return dli_grpc_dropped(call) || dli_grpc_says(call, "raft: stopped");
}

static dlock_status meaning(const struct dli_grpc_call *call)
{
    switch (call->code) {
    case OK:
        return DLOCK_OK;
    case CANCELLED:
    case DEADLINE_EXCEEDED:
    case UNAVAILABLE:
        return DLOCK_UNREACHABLE;
    case NOT_FOUND:
        return DLOCK_NOT_FOUND;
    case INVALID_ARGUMENT:
        return dli_grpc_says(call, "auth") || dli_grpc_says(call, "user name") ? DLOCK_DENIED : DLOCK_SERVER_ERROR;
    case PERMISSION_DENIED:
    case UNAUTHENTICATED:
        return DLOCK_DENIED;
    case RESOURCE_EXHAUSTED:
        return dli_grpc_says(call, "space") ? DLOCK_SERVER_OUT_OF_MEMORY : DLOCK_SERVER_BUSY;
    case UNIMPLEMENTED:
        return DLOCK_WRONG_SETUP;
    case UNKNOWN: /* the deadline may pass deep in the server, or raft does not serve at the moment */
        return dli_grpc_says(call, "context ") || is_of_raft(call) ? DLOCK_UNREACHABLE : DLOCK_SERVER_ERROR;
    default:
        return DLOCK_SERVER_ERROR;
    }
}

void dli_grpc_judge(struct dli_grpc_call *call, const char *member)
{
    call->status = meaning(call);
    if (call->status == DLOCK_OK)
        return;
    if (call->code == DEADLINE_EXCEEDED)
        dli_fail(&call->reason, call->status, "The member %s did not answer in time.", member);
    else
        dli_fail(&call->reason, call->status, "The member %s answered: %s.", member, dli_grpc_shown(call));
}

int dli_grpc_refused(const struct dli_grpc_call *call)
{
    switch (call->code) {
    case RESOURCE_EXHAUSTED: /* what fills the space is refused, and done all the same */
        return !dli_grpc_says(call, "space");
    case INVALID_ARGUMENT:
    case NOT_FOUND:
    case PERMISSION_DENIED:
    case FAILED_PRECONDITION:
    case UNIMPLEMENTED:
    case UNAUTHENTICATED:
        return 1;
    default:
        return dli_grpc_dropped(call);
    }
}

int dli_grpc_unfit(const struct dli_grpc_call *call)
{
    static const char *const sentences[] = {"no leader", "learner", "stopped", "not capable", "connection lost"};

    if (call->code == UNKNOWN)
        return dli_grpc_says(call, "raft: stopped");
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++)
        if (call->code == UNAVAILABLE && dli_grpc_says(call, sentences[i]))
            return 1;
    return 0;
}
