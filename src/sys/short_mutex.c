/*
 * short_mutex.c: a mutex of one word, for objects of which there are many. 0: free; 1: taken; 2: taken, and somebody may sleep.
 * The thread sanitizer is told of it, so that it knows the order in which mutexes are taken.
 */
#include "sys.h"

enum { FREE, TAKEN, CONTENDED };

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#else
#define __tsan_mutex_pre_lock(address, flags)
#define __tsan_mutex_post_lock(address, flags, recursion)
#define __tsan_mutex_pre_unlock(address, flags)
#define __tsan_mutex_post_unlock(address, flags)
#define __tsan_mutex_destroy(address, flags)
enum { __tsan_mutex_try_lock, __tsan_mutex_try_lock_failed, __tsan_mutex_not_static };
#endif

void dli_short_init(struct dli_short_mutex *mutex)
{
    mutex->word = FREE;
}

void dli_short_fini(struct dli_short_mutex *mutex)
{
    (void)mutex;
    __tsan_mutex_destroy(mutex, __tsan_mutex_not_static);
}

static int take(struct dli_short_mutex *mutex, uint32_t *seen)
{
    *seen = FREE;
    return __atomic_compare_exchange_n(&mutex->word, seen, TAKEN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void dli_short_lock(struct dli_short_mutex *mutex)
{
    uint32_t seen;

    __tsan_mutex_pre_lock(mutex, 0);
    if (!take(mutex, &seen))
        while (seen != FREE) {
            if (seen == CONTENDED)
                dli_futex_sleep(&mutex->word, CONTENDED);
            seen = __atomic_exchange_n(&mutex->word, CONTENDED, __ATOMIC_ACQUIRE);
        }
    __tsan_mutex_post_lock(mutex, 0, 0);
}

int dli_short_trylock(struct dli_short_mutex *mutex)
{
    uint32_t seen;
    int taken;

    __tsan_mutex_pre_lock(mutex, __tsan_mutex_try_lock);
    taken = take(mutex, &seen);
    __tsan_mutex_post_lock(mutex, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed,
                           0);
    return taken;
}

/* Once the word is free the object may be gone: the address is all that the wake needs. */
void dli_short_unlock(struct dli_short_mutex *mutex)
{
    __tsan_mutex_pre_unlock(mutex, 0);
    if (__atomic_exchange_n(&mutex->word, FREE, __ATOMIC_RELEASE) == CONTENDED)
        dli_futex_wake(&mutex->word, 1);
    __tsan_mutex_post_unlock(mutex, 0);
}
