/*
 * fork.c: tell a forked child from its parent, and keep the child free of mutexes that a thread of the parent held.
 * generation is written only in the child, before fork returns, while the child has one thread.
 *
 * mutex guards the list of guards. It is taken first, with no mutex held; a fork takes the guards' mutexes after it.
 */
#include "sys.h"

#include <stdatomic.h>

static _Atomic uint64_t generation = 1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct dli_fork_guard *guards;

void dli_fork_guard(struct dli_fork_guard *guard)
{
    pthread_mutex_lock(&mutex);
    guard->before = NULL;
    guard->next = guards;
    if (guards)
        guards->before = guard;
    guards = guard;
    pthread_mutex_unlock(&mutex);
}

void dli_fork_unguard(struct dli_fork_guard *guard)
{
    pthread_mutex_lock(&mutex);
    if (guard->next)
        guard->next->before = guard->before;
    if (guard->before)
        guard->before->next = guard->next;
    else
        guards = guard->next;
    pthread_mutex_unlock(&mutex);
}

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
    for (struct dli_fork_guard *guard = guards; guard; guard = guard->next)
        pthread_mutex_lock(guard->mutex);
}

static void behind_fork(void)
{
    for (struct dli_fork_guard *guard = guards; guard; guard = guard->next)
        pthread_mutex_unlock(guard->mutex);
    pthread_mutex_unlock(&mutex);
}

static void begin_child(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    for (struct dli_fork_guard *guard = guards; guard; guard = guard->next)
        if (guard->child)
            guard->child(guard);
    behind_fork();
}

/* The handlers are never removed: the library is linked with -z nodelete. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, behind_fork, begin_child);
}

uint64_t dli_fork_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}
