/*
 * simclock.c: preloaded into redis-server, it makes the wall clock stand where the test puts it: at the microseconds in the
 * first eight bytes of the file named by SIM_CLOCK; so a real server and the model can be compared to the last bit. Or, with
 * SIM_CLOCK_RUNS set, run so many ahead, and so many millionths too fast as that says. The monotonic clock, which drives the
 * server's event loop, is left alone.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *page;
static int64_t began, fast;
static int runs;

static int64_t real(void)
{
    struct timespec now;

    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

__attribute__((constructor)) static void map_page(void)
{
    const char *path = getenv("SIM_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);

    if (fd >= 0)
        close(fd);
    if (memory != MAP_FAILED)
        page = memory;
    runs = getenv("SIM_CLOCK_RUNS") != NULL;
    fast = runs ? atoll(getenv("SIM_CLOCK_RUNS")) : 0;
    began = real();
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!page || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return (int)syscall(SYS_clock_gettime, clock, now);
    int64_t micros = *page;

    if (runs) {
        int64_t time = real();

        micros += time + (time - began) / 1000 * fast / 1000;
    }
    now->tv_sec = micros / 1000000;
    now->tv_nsec = micros % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &time);
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}
