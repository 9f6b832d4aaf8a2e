/*
 * relay.c: a descriptor that stands for another one in poll: an epoll descriptor. A thread that sleeps on it need not be
 * woken to make it sleep on, or not any more, while the other one is readable.
 */
#include "sys.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

static int control(int relay, int operation, int fd, int on)
{
    struct epoll_event event = {.events = on ? EPOLLIN : 0};

    return epoll_ctl(relay, operation, fd, &event);
}

int dli_relay_open(int fd)
{
    int relay = epoll_create1(EPOLL_CLOEXEC);

    if (relay >= 0 && control(relay, EPOLL_CTL_ADD, fd, 1)) {
        close(relay);
        return -1;
    }
    return relay;
}

int dli_relay_turn(int relay, int fd, int on)
{
    return control(relay, EPOLL_CTL_MOD, fd, on);
}

void dli_relay_poll(int relay, struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = relay, .events = POLLIN};
}
