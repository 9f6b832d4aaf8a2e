/*
 * simclock.c: preloaded into redis-server, it sets the wall clock: to the microseconds in the first eight bytes of the
 * file named by SIM_CLOCK, so that a real server and the model can be compared to the last bit. With SIM_CLOCK_RUNS set
 * the clock runs instead, so many microseconds ahead, and too fast by as many millionths as that variable says. The
 * monotonic clock, which drives the server's event loop, is unchanged. A server that counts processor ticks between
 * readings of the wall clock (Valkey from 9.1 on) is not told the processor's type: then it reads the clock each time.
 */
#undef _FILE_OFFSET_BITS /* with it fopen would be another name of fopen64 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static FILE *open_other(const char *name, const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);

    if (page && strcmp(path, "/proc/cpuinfo") == 0) {
        errno = ENOENT;
        return NULL;
    }
    *(void **)&next = dlsym(RTLD_NEXT, name);
    return next(path, mode);
}

FILE *fopen(const char *restrict path, const char *restrict mode)
{
    return open_other("fopen", path, mode);
}

FILE *fopen64(const char *restrict path, const char *restrict mode)
{
    return open_other("fopen64", path, mode);
}
