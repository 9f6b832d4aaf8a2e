/*
 * wake.c: a flag that poll can wait for: an eventfd.
 */
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

int dli_wake_open(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

int dli_wake_renew(int fd)
{
    int fresh = dli_wake_open(), done;

    if (fresh < 0)
        return -1;
    done = dup3(fresh, fd, O_CLOEXEC);
    close(fresh);
    return done < 0 ? -1 : 0;
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
