/*
 * handles.h: what the opaque handles of the ABI are.
 */
#ifndef DLI_API_HANDLES_H
#define DLI_API_HANDLES_H

#include "watchdog/ask.h"

struct dlock_client {
    struct dli_client *core; /* with a ref */
};

struct dlock_lock {
    struct dli_entry *entry; /* with a ref, counted as a handle */
    struct dli_terms terms;
};

/* wait_ms as microseconds, DLI_NEVER for -1. */
int64_t dli_wait(int64_t wait_ms);

#endif
