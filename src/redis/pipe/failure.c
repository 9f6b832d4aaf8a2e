/*
 * failure.c: see failure.h.
 */
#include "failure.h"

#include <stdio.h>

#include "pipe.h"
#include "store/store.h"

void dli_trouble_log(struct dli_trouble *trouble, const struct dli_pipe *pipe, struct dli_store *store,
                     const char *server)
{
    char text[256];

    if (trouble->seen != pipe->troubles) {
        trouble->seen = pipe->troubles;
        if (!trouble->told)
            store->hooks->log(store->owner, pipe->trouble.code, pipe->trouble.message);
        trouble->told = 1;
    } else if (trouble->told && pipe->conn->state == DLI_CONN_READY) {
        trouble->told = 0;
        snprintf(text, sizeof text, "%.200s: connected again", server);
        store->hooks->log(store->owner, DLOCK_OK, text);
    }
}
