/*
 * failure.c: logs failures of a shared connection, see failure.h.
 */
#include "failure.h"

#include <stdio.h>

#include "pipe.h"
#include "store/store.h"

void dli_failure_report(struct dli_failure_log *failure, const struct dli_pipe *pipe, struct dli_store *store,
                        const char *server)
{
    char text[256];

    if (failure->seen != pipe->failures) {
        failure->seen = pipe->failures;
        if (!failure->logged)
            store->hooks->log(store->owner, pipe->failure.code, pipe->failure.message);
        failure->logged = 1;
    } else if (failure->logged && pipe->conn->state == DLI_CONN_READY) {
        failure->logged = 0;
        snprintf(text, sizeof text, "%.200s: connected again", server);
        store->hooks->log(store->owner, DLOCK_OK, text);
    }
}
