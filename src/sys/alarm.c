/*
 * alarm.c: a descriptor that becomes readable at a given time of dli_now. It is a timerfd on CLOCK_BOOTTIME, which also
 * counts while the machine is suspended.
 */
#include "sys.h"

#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int dli_alarm_open(void)
{
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void dli_alarm_set(int fd, int64_t at)
{
    struct itimerspec spec = {{0, 0}, {0, 0}};

    if (at != INT64_MAX) {
        if (at < 1)
            at = 1;
        spec.it_value.tv_sec = (time_t)(at / 1000000);
        spec.it_value.tv_nsec = (long)(at % 1000000) * 1000;
    }
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL);
}
