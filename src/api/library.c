/*
 * library.c: version, features, statuses, error boxes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { MAJOR = 0, MINOR = 1, PATCH = 0 };

uint32_t dlock_version(void)
{
    return MAJOR << 16 | MINOR << 8 | PATCH;
}

const char *dlock_version_string(void)
{
    return "0.1.0";
}

int32_t dlock_supports(const char *feature)
{
    static const char *const features[] = {
        "mutex",   "fencing", "watchdog",  "handover",         "redisson", "tcp",  "unix",        "fair",
        "read",    "write",   "semaphore", "permit_semaphore", "latch",    "gate", "transaction", "sentinel",
        "cluster", "quorum",  "memory"};

    if (feature && strcmp(feature, "tls") == 0)
        return DLI_TLS; /* depends on the build, as the next ones do */
    if (feature && strcmp(feature, "etcd") == 0)
        return DLI_ETCD;
    if (feature && strcmp(feature, "zookeeper") == 0)
        return DLI_ZOOKEEPER;
    for (size_t i = 0; feature && i < sizeof features / sizeof *features; i++)
        if (strcmp(feature, features[i]) == 0)
            return 1;
    return 0;
}

size_t dlock_status_count(void)
{
    return dli_status_rows;
}

dlock_status dlock_status_at(size_t index)
{
    return index < dli_status_rows ? dli_status_table[index].status : DLOCK_INVALID_ARGUMENT;
}

const char *dlock_status_name(dlock_status status)
{
    const struct dli_status_row *row = dli_status_find(status);

    return row ? row->name : "UNKNOWN";
}

const char *dlock_status_text(dlock_status status)
{
    const struct dli_status_row *row = dli_status_find(status);

    return row ? row->text : "A status this version of the library does not know.";
}

int32_t dlock_status_retryable(dlock_status status)
{
    const struct dli_status_row *row = dli_status_find(status);

    return row ? row->retryable : 0;
}

dlock_error *dlock_error_new(void)
{
    return calloc(1, sizeof(dlock_error));
}

void dlock_error_free(dlock_error *error)
{
    free(error);
}

dlock_status dlock_error_code(const dlock_error *error)
{
    return error ? error->code : DLOCK_OK;
}

const char *dlock_error_message(const dlock_error *error)
{
    return error ? error->message : "";
}

int32_t dlock_error_retryable(const dlock_error *error)
{
    return error ? dlock_status_retryable(error->code) : 0;
}
