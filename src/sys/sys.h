/*
 * sys.h: every call into the operating system that is not a socket.
 */
#ifndef DLI_SYS_SYS_H
#define DLI_SYS_SYS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* ---- clock.c: microseconds of CLOCK_BOOTTIME (goes on during suspend, never steps). */
int64_t dli_now(void);

/* Microseconds since 1970, as the host believes. Only to compare with other hosts. */
int64_t dli_wall(void);

/* ---- random.c */

/* Fill from getrandom. 0, or -1 when the kernel has none: callers must fail, never go on with weak bytes. */
int dli_random(void *out, size_t size);

/* ---- futex.c: a 32-bit word to sleep on, process-private. */

enum { DLI_WAIT_WOKEN, DLI_WAIT_TIMEOUT, DLI_WAIT_SIGNAL };

/*
 * Sleep while *word == expected, until deadline (dli_now time, -1 for none). Returns at once with DLI_WAIT_WOKEN when the
 * word differs; may return DLI_WAIT_WOKEN spuriously. DLI_WAIT_SIGNAL when a signal handler ran (also with SA_RESTART).
 */
int dli_futex_wait(uint32_t *word, uint32_t expected, int64_t deadline);

/* Sleep while *word == expected, whatever signals come; may return early. One system call. */
void dli_futex_sleep(uint32_t *word, uint32_t expected);

/* Wake up to count sleepers. */
void dli_futex_wake(uint32_t *word, int count);

/* ---- wake.c: a descriptor that is readable while set. */

/* A new close-on-exec, non-blocking eventfd, or -1 (errno). */
int dli_wake_open(void);
void dli_wake_set(int fd);

/* In a forked child: another such descriptor, under the same number. 0 or -1 (errno). */
int dli_wake_renew(int fd);
void dli_wake_clear(int fd);

/* Close a descriptor of wake.c or alarm.c. */
void dli_fd_close(int fd);

/* ---- file.c */

/*
 * Mix into *stamp what changes when a file (or folder) is written or replaced. 0, or an errno, also when this process may not
 * read it or it is no regular file (or folder). Never waits for a device or a pipe.
 */
int dli_file_stamp(const char *path, int folder, uint64_t *stamp);

/* ---- alarm.c: a descriptor that is readable from a time on. */

/* A new close-on-exec timer descriptor, or -1 (errno). */
int dli_alarm_open(void);

/* Make it readable at a time of dli_now; INT64_MAX: not at all. An earlier setting is forgotten. */
void dli_alarm_set(int fd, int64_t at);

/* ---- thread.c */

/* Start a detached thread with all signals blocked and a 256 KiB stack, named name (at most 15 bytes). 0 or an errno. */
int dli_thread_start(const char *name, void (*run)(void *), void *argument);

/* A negative number that no other living thread of the process has: what owner 0 stands for. */
int64_t dli_thread_owner(void);

/* ---- fork.c */

/* A number that differs after every fork in the child: compare with one taken earlier. Costs one load. */
uint64_t dli_fork_generation(void);

/* A fork waits until nobody holds the mutex, so that the child finds it free and what it guards whole. */
struct dli_fork_guard {
    struct dli_fork_guard *next, *before;
    pthread_mutex_t *mutex;
    void (*child)(struct dli_fork_guard
                      *guard); /* NULL, or runs in the child with the mutex held, before there is another thread */
};

/* No mutex is held. */
void dli_fork_guard(struct dli_fork_guard *guard);
void dli_fork_unguard(struct dli_fork_guard *guard);

#endif
