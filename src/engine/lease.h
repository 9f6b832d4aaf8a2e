/*
 * lease.h: how long a grant may be trusted. Pure arithmetic; times are microseconds of one clock.
 *
 * With lease W, drift bound rho and a stamp s taken before the first byte of the request was sent:
 *   deadline D = s + W (1 - rho) - 2 ms     nobody else can be granted while our clock shows less
 *   guard    g = max(100 ms, W / 50), at most W / 4
 *   limit    F = D - g                      the claim is valid before F; the lost signal is due at F
 */
#ifndef DLI_ENGINE_LEASE_H
#define DLI_ENGINE_LEASE_H

#include <stdint.h>

enum { DLI_MS = 1000 };

#define DLI_NEVER INT64_MAX

/* F of a grant or renewal whose request was stamped at stamp; DLI_NEVER for a lease of DLI_NEVER. */
int64_t dli_lease_limit(int64_t stamp, int64_t lease, int64_t drift_ppm);

/* The server has surely forgotten by then what a request stamped at stamp set for lease. The undo may stop. */
int64_t dli_lease_gone(int64_t stamp, int64_t lease, int64_t drift_ppm);

/* How long one attempt on the server may take: lease / 9, between 50 ms and most. */
int64_t dli_lease_attempt(int64_t lease, int64_t most);

/* The smaller one, and the larger one. */
int64_t dli_earlier(int64_t a, int64_t b);
int64_t dli_latest(int64_t a, int64_t b);

/* a + b where b may be DLI_NEVER or large; never overflows. */
int64_t dli_later(int64_t a, int64_t b);

/* now + ms milliseconds; never overflows. */
int64_t dli_after_ms(int64_t now, int64_t ms);

#endif
