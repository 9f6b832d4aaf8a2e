/*
 * futex.c: sleep on a word and wake its sleepers.
 *
 * Every sleep has a time limit: without one the kernel restarts it after a handler that has SA_RESTART, and the caller would
 * never learn of the signal. Limits are relative and the kernel counts them without suspend, so a sleep is cut into slices
 * and the deadline is asked of dli_now after each.
 */
#include "sys.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int64_t slice = INT64_C(60) * 1000000;

static long futex(uint32_t *word, int operation, uint32_t value, const struct timespec *limit)
{
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, limit, NULL, 0);
}

int dli_futex_wait(uint32_t *word, uint32_t expected, int64_t deadline)
{
    for (;;) {
        int64_t left = deadline < 0 ? slice : deadline - dli_now();
        if (left <= 0)
            return __atomic_load_n(word, __ATOMIC_ACQUIRE) == expected ? DLI_WAIT_TIMEOUT : DLI_WAIT_WOKEN;
        if (left > slice)
            left = slice;
        struct timespec limit = {.tv_sec = (time_t)(left / 1000000), .tv_nsec = (long)(left % 1000000 * 1000)};
        if (futex(word, FUTEX_WAIT, expected, &limit) == 0 || errno == EAGAIN)
            return DLI_WAIT_WOKEN;
        if (errno == EINTR)
            return DLI_WAIT_SIGNAL;
        if (errno != ETIMEDOUT)
            return DLI_WAIT_WOKEN;
    }
}

void dli_futex_sleep(uint32_t *word, uint32_t expected)
{
    futex(word, FUTEX_WAIT, expected, NULL);
}

void dli_futex_wake(uint32_t *word, int count)
{
    futex(word, FUTEX_WAKE, (uint32_t)(count < 0 ? INT_MAX : count), NULL);
}
