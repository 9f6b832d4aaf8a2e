/*
 * check.h: whether a server is fit to keep locks.
 */
#ifndef DLI_CLIENT_CHECK_H
#define DLI_CLIENT_CHECK_H

#include "operation.h"

/* A check of the servers. Its value is the number of findings. They stay until the next check. NULL without memory. */
struct dli_operation *dli_operation_check(struct dli_client *client, int64_t deadline);

/* 0, or -1 when there is no finding with this index. */
int dli_check_finding(struct dli_client *client, size_t index, struct dli_finding *finding);

/*
 * The check at the opening of a client, as the option checks says. Blocks, unless that is off. DLOCK_UNFIT, or what a
 * ping fails with.
 */
dlock_status dli_check_open(struct dli_client *client, dlock_error *box);

#endif
