/*
 * clock.c: the one clock of the library.
 */
#include "sys/sys.h"

#include <time.h>

int64_t dli_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
