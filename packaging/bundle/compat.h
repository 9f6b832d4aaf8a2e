/*
 * compat.h: included before every file of the bundle. Functions that C libraries older than glibc 2.25 lack, and names of our own for the
 * functions of hiredis and the others. DLI_PLAIN_NAMES leaves theirs.
 */
#ifndef DLI_COMPAT_H
#define DLI_COMPAT_H

#ifndef DLI_PLAIN_NAMES
#include "private.h"
#endif

#include <features.h>

#ifdef __GLIBC__ /* not musl */
#if !__GLIBC_PREREQ(2, 25)
#include <string.h>
#include <sys/syscall.h>

long syscall(long number, ...); /* not by unistd.h, whose names our files may use for their own functions */

static inline void dli_compat_bzero(void *bytes, size_t size)
{
    memset(bytes, 0, size);
    __asm__ __volatile__("" : : "r"(bytes) : "memory");
}
#define explicit_bzero dli_compat_bzero

static inline long dli_compat_getrandom(void *bytes, size_t size, unsigned flags)
{
    return syscall(SYS_getrandom, bytes, size, flags);
}
#define getrandom dli_compat_getrandom
#endif
#endif

#endif
