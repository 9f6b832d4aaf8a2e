/*
 * checks.c: join the checks of several servers into one result.
 */
#include "store.h"

#include <stdio.h>

/*
 * Failures that do not end the whole check: a server that is down does not hide what the others say. WRONG_SETUP is one
 * of them: a redirect means that a failover or a move is under way.
 */
static int is_silence(dlock_status status)
{
    return status == DLOCK_UNREACHABLE || status == DLOCK_SERVER_LOADING || status == DLOCK_SERVER_BUSY ||
           status == DLOCK_WRONG_SETUP;
}

dlock_status dli_check_sum(struct dli_request *original, const struct dli_request *of, const struct dli_findings *found,
                           const dlock_error *reason, const char *where)
{
    struct dli_finding *finding;

    if (of->status == DLOCK_OK && dli_findings_take(original->check.found, found, where) == 0)
        return DLOCK_OK;
    if (of->status != DLOCK_OK && !is_silence(of->status))
        return dli_fail(original->reason, of->status, "%s: %s", where,
                        reason->message[0] ? reason->message : dli_status_find(of->status)->text);
    if (of->status == DLOCK_OK || !(finding = dli_findings_add(original->check.found, DLOCK_FINDING_NO_ANSWER)))
        return dli_fail(original->reason, DLOCK_OUT_OF_MEMORY, "no memory for what was found");
    snprintf(finding->where, sizeof finding->where, "%.*s", DLI_FINDING_WHERE - 1, where);
    snprintf(finding->detail, sizeof finding->detail, "%.*s", DLI_FINDING_DETAIL - 1,
             reason->message[0] ? reason->message : dli_status_find(of->status)->text);
    return DLOCK_OK;
}
