/*
 * fork.c: notice that the process is a forked child. The counter is written only in the child, before its fork returns, while
 * it has one thread.
 */
#include "sys/sys.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic uint64_t generation = 1;

static void count_fork(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
}

/* Never taken back: the library is linked with -z nodelete. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

uint64_t dli_fork_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}
