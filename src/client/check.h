/*
 * check.h: whether a server is fit to keep locks.
 */
#ifndef DLI_CLIENT_CHECK_H
#define DLI_CLIENT_CHECK_H

#include "operation.h"

/* A look at the server. The value is how many findings there are; they stay until the next look. NULL without memory. */
struct dli_operation *dli_operation_check(struct dli_client *client, int64_t deadline);

/* 0, or -1: there is none of that index. */
int dli_check_finding(struct dli_client *client, size_t index, struct dli_finding *finding);

/* What the option checks wants when a client is opened. Blocks, but when it is off. DLOCK_UNFIT, and what a ping says. */
dlock_status dli_check_open(struct dli_client *client, dlock_error *box);

#endif
