/*
 * futex.c: sleep on a word and wake its sleepers.
 *
 * Every sleep of dli_futex_wait has a time limit. Without one the kernel restarts the sleep after a handler with
 * SA_RESTART, and the caller never learns of the signal. The kernel does not count suspended time in a relative limit,
 * so a sleep is cut into slices, and dli_now is compared with the deadline after each slice.
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
