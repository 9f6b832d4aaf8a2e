/*
 * checks.h: looks at several servers, made one.
 */
#ifndef DLI_REDIS_CHECKS_H
#define DLI_REDIS_CHECKS_H

#include "base/store.h"

/*
 * Add what came of the look at one server, with its name, to what was asked: found, or that it does not answer. DLOCK_OK; else
 * the whole look fails for this status, and says why.
 */
dlock_status dli_check_sum(struct dli_request *asked, const struct dli_request *of, const struct dli_findings *found,
                           const dlock_error *why, const char *where);

#endif
