/*
 * system.c: stands in for the clock, the threads, the randomness and the descriptors of the library: the linker replaces its
 * functions by those that begin with __wrap_. A thread is not started: process.c runs its turns.
 */
#include <string.h>

#include "sys/sys.h"
#include "watchdog/watchdog.h"
#include "worlds.h"

enum { WAKES = 1000 }; /* descriptors, one of each process */

struct w_world w;

int64_t w_clock(const struct w_process *process)
{
    return process->offset + w.now + w.now / W_MS * process->rate / W_MS;
}

int64_t w_when(const struct w_process *process, int64_t at)
{
    int64_t left = at - w_clock(process);

    if (left > 1000 * (int64_t)W_SECOND)
        return INT64_MAX;
    return left <= 0 ? w.now : w.now + left - left * process->rate / W_SECOND + 2;
}

int64_t __wrap_dli_now(void);
int64_t __wrap_dli_now(void)
{
    return w_clock(w.current);
}

int64_t __wrap_dli_wall(void);
int64_t __wrap_dli_wall(void)
{
    return w_clock(w.current) + 1700000000 * (int64_t)W_SECOND;
}

int __wrap_dli_random(void *out, size_t size);
int __wrap_dli_random(void *out, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)out)[i] = (unsigned char)w_random();
    return 0;
}

int __wrap_dli_thread_start(const char *name, void (*run)(void *), void *argument);
int __wrap_dli_thread_start(const char *name, void (*run)(void *), void *argument)
{
    struct dli_loop *loop = argument;

    (void)name, (void)run;
    w.current->loop = loop;
    w.current->store = loop->watchdog->store;
    loop->watchdog->store->ops->awake(loop->lane);
    return 0;
}

/* ---- descriptors: none. Whoever is woken has its turn soon anyway. */

int __wrap_dli_wake_open(void);
int __wrap_dli_wake_open(void)
{
    return WAKES + w.current->index;
}

int __wrap_dli_alarm_open(void);
int __wrap_dli_alarm_open(void)
{
    return 1000;
}

/* So nobody stands in for a thread: see lanes/lanes.h. */
int __wrap_dli_relay_open(int fd);
int __wrap_dli_relay_open(int fd)
{
    (void)fd;
    return -1;
}

void __wrap_dli_wake_set(int fd);
void __wrap_dli_wake_set(int fd)
{
    if (!w.model->together || &w.process[fd - WAKES] == w.current)
        w.current->dirty = 1;
    else
        w_process_wake(&w.process[fd - WAKES]);
}

void __wrap_dli_wake_clear(int fd);
void __wrap_dli_wake_clear(int fd)
{
    (void)fd;
}

void __wrap_dli_fd_close(int fd);
void __wrap_dli_fd_close(int fd)
{
    (void)fd;
}
