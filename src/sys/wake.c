/*
 * wake.c: a flag that poll can see: an eventfd.
 */
#include "sys/sys.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

int dli_wake_open(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void dli_wake_set(int fd)
{
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void dli_wake_clear(int fd)
{
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
}

void dli_fd_close(int fd)
{
    close(fd);
}
