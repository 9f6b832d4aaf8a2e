/*
 * late.c: preloaded into a program, it stops threads at chosen points. The file named by DLOCK_LATE has seven words. A
 * thread whose futex wait with a timeout began while the first word was 1 goes on only when that word is 0. This concerns
 * waits by syscall() only: the library's, not those of the C library; and there those of waiters, not those for an
 * answer of the server, which have no timeout. A thread that writes to the descriptor whose number is the
 * third word stops where it next locks a mutex, until that word is 0. A client's thread that sleeps stops within a
 * millisecond, if the fifth word is 1, until that word is 0: what happens meanwhile does not wake it. The second, the
 * fourth and the sixth word count stopped threads, the seventh those of the sixth that went on.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint32_t *page;
static long (*next)(long number, ...);
static int (*next_trylock)(pthread_mutex_t *mutex);
static ssize_t (*next_write)(int fd, const void *bytes, size_t size);
static int (*next_poll)(struct pollfd *fds, nfds_t count, int timeout);
static __thread int told;

__attribute__((constructor)) static void map_page(void)
{
    int fd = open(getenv("DLOCK_LATE"), O_RDWR | O_CLOEXEC);
    void *memory = mmap(NULL, 28, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    *(void **)&next_trylock = dlsym(RTLD_NEXT, "pthread_mutex_trylock");
    *(void **)&next_write = dlsym(RTLD_NEXT, "write");
    *(void **)&next_poll = dlsym(RTLD_NEXT, "poll");
    if (fd < 0 || memory == MAP_FAILED || !next || !next_trylock || !next_write || !next_poll)
        abort();
    close(fd);
    page = memory;
}

static void keep(const uint32_t *gate)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    while (__atomic_load_n(gate, __ATOMIC_SEQ_CST))
        nanosleep(&moment, NULL);
}

long syscall(long number, ...)
{
    long words[6], result;
    va_list more;
    int late;

    va_start(more, number);
    for (int i = 0; i < 6; i++)
        words[i] = va_arg(more, long);
    va_end(more);
    late = number == SYS_futex && (words[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && words[3] &&
           __atomic_load_n(&page[0], __ATOMIC_SEQ_CST);
    result = next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (late) {
        __atomic_add_fetch(&page[1], 1, __ATOMIC_SEQ_CST);
        keep(&page[0]);
    }
    return result;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    told = page && fd > 0 && __atomic_load_n(&page[2], __ATOMIC_SEQ_CST) == (uint32_t)fd;
    return next_write(fd, bytes, size);
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    if (told) {
        __atomic_add_fetch(&page[3], 1, __ATOMIC_SEQ_CST);
        keep(&page[2]);
    }
    told = 0;
    return next_trylock(mutex);
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    int found;

    if (count == 1 || timeout >= 0)
        return next_poll(fds, count, timeout);
    do {
        if (__atomic_load_n(&page[4], __ATOMIC_SEQ_CST)) {
            __atomic_add_fetch(&page[5], 1, __ATOMIC_SEQ_CST);
            keep(&page[4]);
            __atomic_add_fetch(&page[6], 1, __ATOMIC_SEQ_CST);
        }
        found = next_poll(fds, count, 1);
    } while (found == 0);
    return found;
}

/* What poll is with -D_FORTIFY_SOURCE. */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size)
{
    if (count * sizeof *fds > size)
        abort();
    return poll(fds, count, timeout);
}
