/*
 * shim.c: preloaded into a program, it makes chosen calls fail: the k-th allocation, or all from the k-th on; also
 * threads, descriptors, random bytes, new TLS sessions and sched_yield. It counts allocations that are not freed yet. A sanitizer is
 * preloaded after it.
 *
 * The program finds shim_arm, shim_disarm and shim_live by dlsym. Only calls between arm and disarm are counted or
 * fail.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/types.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *memory);

/* The sanitizer's own function, if there is one. */
void *__interceptor_malloc(size_t size) __attribute__((weak));
void *__interceptor_calloc(size_t count, size_t size) __attribute__((weak));
void *__interceptor_realloc(void *old, size_t size) __attribute__((weak));
void __interceptor_free(void *memory) __attribute__((weak));

void shim_arm(const char *what, int64_t after, int on);
int64_t shim_disarm(int64_t *fired);
int64_t shim_live(void);

enum what { NOTHING, ALLOC, THREAD, EVENTFD, TIMERFD, RANDOM, SOCKET, SESSION, YIELD };

static const char *const names[] = {"",       "alloc",  "thread",  "eventfd", "timerfd",
                                    "random", "socket", "session", "yield"};
static int armed; /* enum what; all of these are atomics */
static int64_t counted, failures, nth, live;
static int from_then_on;
static __thread int spared __attribute__((tls_model("initial-exec"))); /* calls of this thread are not counted */

void shim_arm(const char *what, int64_t after, int on)
{
    __atomic_store_n(&counted, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&failures, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&nth, after, __ATOMIC_SEQ_CST);
    __atomic_store_n(&from_then_on, on, __ATOMIC_SEQ_CST);
    for (size_t i = 1; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], what) == 0)
            __atomic_store_n(&armed, (int)i, __ATOMIC_SEQ_CST);
}

/* Returns how many such calls there were; *fired: how many of them failed. */
int64_t shim_disarm(int64_t *fired)
{
    __atomic_store_n(&armed, NOTHING, __ATOMIC_SEQ_CST);
    *fired = __atomic_load_n(&failures, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&counted, __ATOMIC_SEQ_CST);
}

int64_t shim_live(void)
{
    return __atomic_load_n(&live, __ATOMIC_SEQ_CST);
}

static int fails(enum what what, int error)
{
    int64_t number, wanted = __atomic_load_n(&nth, __ATOMIC_SEQ_CST);

    if (spared || __atomic_load_n(&armed, __ATOMIC_SEQ_CST) != (int)what)
        return 0;
    number = __atomic_add_fetch(&counted, 1, __ATOMIC_SEQ_CST);
    if (number != wanted && !(number > wanted && __atomic_load_n(&from_then_on, __ATOMIC_SEQ_CST)))
        return 0;
    __atomic_add_fetch(&failures, 1, __ATOMIC_SEQ_CST);
    errno = error;
    return 1;
}

static void *count(void *memory)
{
    if (memory)
        __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    return memory;
}

void *malloc(size_t size)
{
    if (fails(ALLOC, ENOMEM))
        return NULL;
    return count(__interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size));
}

void *calloc(size_t number, size_t size)
{
    if (fails(ALLOC, ENOMEM))
        return NULL;
    return count(__interceptor_calloc ? __interceptor_calloc(number, size) : __libc_calloc(number, size));
}

void *realloc(void *old, size_t size)
{
    void *memory;

    if (fails(ALLOC, ENOMEM))
        return NULL;
    memory = __interceptor_realloc ? __interceptor_realloc(old, size) : __libc_realloc(old, size);
    if (!old)
        count(memory);
    return memory;
}

void free(void *memory)
{
    if (memory)
        __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    if (__interceptor_free)
        __interceptor_free(memory);
    else
        __libc_free(memory);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return fails(THREAD, EAGAIN) ? EAGAIN : next(thread, attributes, run, argument);
}

/* Sanitizers call it at the start of every thread, and end the program when it fails. */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes);
int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes)
{
    int (*next)(pthread_t, pthread_attr_t *), result;

    *(void **)&next = dlsym(RTLD_NEXT, "pthread_getattr_np");
    spared = 1;
    result = next(thread, attributes);
    spared = 0;
    return result;
}

int eventfd(unsigned value, int flags);
int eventfd(unsigned value, int flags)
{
    int (*next)(unsigned, int);

    *(void **)&next = dlsym(RTLD_NEXT, "eventfd");
    return fails(EVENTFD, EMFILE) ? -1 : next(value, flags);
}

int timerfd_create(int clock, int flags);
int timerfd_create(int clock, int flags)
{
    int (*next)(int, int);

    *(void **)&next = dlsym(RTLD_NEXT, "timerfd_create");
    return fails(TIMERFD, EMFILE) ? -1 : next(clock, flags);
}

ssize_t getrandom(void *bytes, size_t size, unsigned flags);
ssize_t getrandom(void *bytes, size_t size, unsigned flags)
{
    ssize_t (*next)(void *, size_t, unsigned);

    *(void **)&next = dlsym(RTLD_NEXT, "getrandom");
    return fails(RANDOM, ENOSYS) ? -1 : next(bytes, size, flags);
}

int socket(int family, int type, int protocol);
int socket(int family, int type, int protocol)
{
    int (*next)(int, int, int);

    *(void **)&next = dlsym(RTLD_NEXT, "socket");
    return fails(SOCKET, EMFILE) ? -1 : next(family, type, protocol);
}

/* OpenSSL's, which gives no reason then. */
void *SSL_new(void *context);
void *SSL_new(void *context)
{
    void *(*next)(void *);

    *(void **)&next = dlsym(RTLD_NEXT, "SSL_new");
    return fails(SESSION, 0) ? NULL : next(context);
}

/* It never fails: instead somebody else has the core for two milliseconds. */
int sched_yield(void);
int sched_yield(void)
{
    int (*next)(void);

    *(void **)&next = dlsym(RTLD_NEXT, "sched_yield");
    if (fails(YIELD, 0))
        usleep(2000);
    return next();
}
