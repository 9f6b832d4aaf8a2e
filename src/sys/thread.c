/*
 * thread.c: the library's own threads, and numbers for the threads that call it.
 */
#include "sys.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { STACK_SIZE = 256 * 1024 };

struct start {
    void (*run)(void *);
    void *argument;
    char name[16];
};

static void *thread_main(void *opaque)
{
    struct start start = *(struct start *)opaque;
    free(opaque);
    pthread_setname_np(pthread_self(), start.name);
    start.run(start.argument);
    return NULL;
}

/*
 * STACK_SIZE can be too small for a process with large thread-local data: then the stack has the system's default size.
 */
static int create(struct start *start)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    size_t usual = 0;
    pthread_attr_getstacksize(&attributes, &usual);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    error = pthread_create(&thread, &attributes, thread_main, start);
    if (error == EINVAL && pthread_attr_setstacksize(&attributes, usual) == 0)
        error = pthread_create(&thread, &attributes, thread_main, start);
    pthread_attr_destroy(&attributes);
    return error;
}

int dli_thread_start(const char *name, void (*run)(void *), void *argument)
{
    struct start *start = malloc(sizeof *start);
    if (!start)
        return ENOMEM;
    start->run = run;
    start->argument = argument;
    snprintf(start->name, sizeof start->name, "%s", name);

    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = create(start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        free(start);
    return error;
}

/* Numbers are never used again, so that a new thread does not inherit the locks of a dead one. */
int64_t dli_thread_owner(void)
{
    static _Atomic int64_t last;
    static _Thread_local int64_t mine;
    if (mine == 0)
        mine = -(atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1);
    return mine;
}
