/*
 * lease.c: the deadline formulas of lease.h.
 */
#include "lease.h"

static int64_t guard(int64_t lease)
{
    int64_t wanted = lease / 50 > 100 * DLI_MS ? lease / 50 : 100 * DLI_MS;

    return wanted < lease / 4 ? wanted : lease / 4;
}

static int64_t drift(int64_t lease, int64_t drift_ppm)
{
    return (lease / 1000000) * drift_ppm + (lease % 1000000) * drift_ppm / 1000000 + 1;
}

int64_t dli_lease_limit(int64_t stamp, int64_t lease, int64_t drift_ppm)
{
    if (lease == DLI_NEVER)
        return DLI_NEVER;
    return stamp + lease - drift(lease, drift_ppm) - 2 * DLI_MS - guard(lease);
}

int64_t dli_lease_gone(int64_t stamp, int64_t lease, int64_t drift_ppm)
{
    if (lease == DLI_NEVER)
        return DLI_NEVER;
    return stamp + lease + drift(lease, drift_ppm) + 2 * DLI_MS;
}

int64_t dli_lease_attempt(int64_t lease, int64_t most)
{
    int64_t attempt = lease / 9;

    if (attempt < 50 * DLI_MS)
        attempt = 50 * DLI_MS;
    return attempt < most ? attempt : most;
}

int64_t dli_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t dli_latest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t dli_later(int64_t a, int64_t b)
{
    return b > DLI_NEVER - a ? DLI_NEVER : a + b;
}

int64_t dli_after_ms(int64_t now, int64_t ms)
{
    return dli_later(now, ms < DLI_NEVER / DLI_MS ? ms * DLI_MS : DLI_NEVER);
}
