/*
 * sys.h: all calls of the operating system, except those for sockets.
 */
#ifndef DLI_SYS_SYS_H
#define DLI_SYS_SYS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* ---- clock.c: microseconds of CLOCK_BOOTTIME (counts during suspend, never steps). */
int64_t dli_now(void);

/* Microseconds since 1970 by the host's wall clock. Only for comparisons with other hosts. */
int64_t dli_wall(void);

/* ---- random.c */

/* Fill from getrandom. 0; -1 when the kernel has no random bytes: the caller must then fail, never use weak ones. */
int dli_random(void *out, size_t size);

/* ---- futex.c: a 32-bit word to sleep on, process-private. */

enum { DLI_WAIT_WOKEN, DLI_WAIT_TIMEOUT, DLI_WAIT_SIGNAL };

/*
 * Sleep while *word == expected, until deadline (a time of dli_now; -1: none). DLI_WAIT_WOKEN: woken, or the word
 * differs, or spuriously. DLI_WAIT_SIGNAL: a signal handler ran (also with SA_RESTART).
 */
int dli_futex_wait(uint32_t *word, uint32_t expected, int64_t deadline);

/* Sleep while *word == expected, without a deadline, through signals. May return early. One system call. */
void dli_futex_sleep(uint32_t *word, uint32_t expected);

/* Wake up to count sleepers. */
void dli_futex_wake(uint32_t *word, int count);

/* ---- short_mutex.c: a mutex of four bytes. It does not know its owner, and a fork does not wait for it. */

struct dli_short_mutex {
    uint32_t word;
};

void dli_short_init(struct dli_short_mutex *mutex);
void dli_short_fini(struct dli_short_mutex *mutex); /* nobody has it */
void dli_short_lock(struct dli_short_mutex *mutex);
int dli_short_trylock(struct dli_short_mutex *mutex); /* 1: taken */
void dli_short_unlock(struct dli_short_mutex *mutex);

/* ---- wake.c: a descriptor that is readable while set. */

/* A new close-on-exec, non-blocking eventfd, or -1 (errno). */
int dli_wake_open(void);
void dli_wake_set(int fd);

/* In a forked child: replace fd by a new eventfd with the same number. 0 or -1 (errno). */
int dli_wake_renew(int fd);
void dli_wake_clear(int fd);

/* Close a descriptor of wake.c, alarm.c or relay.c. */
void dli_fd_close(int fd);

/* ---- file.c */

/*
 * Mix into *stamp what changes when a file (or folder) is written or replaced. 0, or an errno: also when this process
 * cannot read it, or it is not a regular file (or folder). Never blocks on a device or a pipe.
 */
int dli_file_stamp(const char *path, int folder, uint64_t *stamp);

/* Whether it is a file that every user of this machine may read, as its mode says. */
int dli_file_is_public(const char *path);

/* ---- errno.c: as strerror, but in English, and for any thread. */
const char *dli_errno_text(int error);

/* ---- shared.c, in a build that finds OpenSSL at run time: NULL when there is no such library, or symbol. */
void *dli_shared_open(const char *name);
void *dli_shared_symbol(void *library, const char *name);

/* ---- alarm.c: a descriptor that becomes readable at a set time. */

/* A new close-on-exec timer descriptor, or -1 (errno). */
int dli_alarm_open(void);

/* Make it readable at a time of dli_now; INT64_MAX: never. Replaces an earlier setting. */
void dli_alarm_set(int fd, int64_t at);

/* ---- relay.c: a descriptor that is readable while another one, fd, is readable and the relay is on, or fd is broken. */

/* A new close-on-exec relay, which is on, or -1 (errno). A process that has a copy of fd after a fork keeps it ready. */
int dli_relay_open(int fd);

/* Turn it on or off, also while threads sleep on it. 0 or -1 (errno). */
int dli_relay_turn(int relay, int fd, int on);

/* How to wait for it. */
struct pollfd;
void dli_relay_poll(int relay, struct pollfd *fds);

/*
 * ---- seat.c: the place of a thread that does another thread's I/O while it sleeps itself. One thread at a time has it.
 * It leaves by dli_seat_leave. All functions: any thread, but for those that say otherwise.
 */
struct dli_seat {
    int offered; /* a thread may take it */
    int taken;   /* a thread has it, or is about to leave it */
    int working; /* that thread looks at rung before it sleeps again */
    int rung;    /* since it was taken */
    int used;    /* a thread has had it. Not atomic: whoever has taken it reads and writes it */
    int bell;    /* wakes that thread; -1: none yet */
    int relay;   /* of what the other thread sleeps on; -1: none. Not atomic: that thread's, or its mutex guards it */
};

void dli_seat_init(struct dli_seat *seat);
void dli_seat_fini(struct dli_seat *seat);

/*
 * A relay for a new socket, instead of the last one: a child process may still have the last socket, and its relay would then stay
 * readable. Before the first offer: the seat has a bell from then on. 0 or -1 (errno): there is no relay.
 */
int dli_seat_open_relay(struct dli_seat *seat, int fd);
void dli_seat_close_relay(struct dli_seat *seat);
void dli_seat_offer(struct dli_seat *seat, int offered);

/*
 * The other thread, at the end: nobody takes the seat any more, and the one who has it is woken. The bell of a seat that nobody has
 * had goes; that of another one may still be rung.
 */
void dli_seat_retire(struct dli_seat *seat);

/* 1: the calling thread has the seat now. */
int dli_seat_take(struct dli_seat *seat);
void dli_seat_leave(struct dli_seat *seat);

/* What the thread in the seat waits for has come. It was taken at some time. */
void dli_seat_ring(struct dli_seat *seat);
int dli_seat_is_rung(const struct dli_seat *seat);

/* Wake the thread in the seat, for no reason of its own. */
void dli_seat_rouse(const struct dli_seat *seat);

/* The thread in the seat: it begins or ends to work, and looks at rung afterwards. */
void dli_seat_work(struct dli_seat *seat, int working);

/*
 * The thread in the seat: sleep until fd is readable, or the bell was set, or until deadline (a time of dli_now; -1: none).
 * DLI_WAIT_*; WOKEN may be spurious. DLI_WAIT_SIGNAL: a signal handler ran.
 */
int dli_seat_sleep(const struct dli_seat *seat, int fd, int64_t deadline);

/* ---- thread.c */

/*
 * Start a detached thread with all signals blocked and a 256 KiB stack, named name (at most 15 bytes). 0 or an errno.
 */
int dli_thread_start(const char *name, void (*run)(void *), void *argument);

/*
 * The calling thread's own negative number, which owner 0 stands for. No two threads of a process ever have the same.
 */
int64_t dli_thread_owner(void);

/* ---- fork.c */

/* A number that changes in the child of a fork: compare it with one taken earlier. One load. */
uint64_t dli_fork_generation(void);

/* A fork waits for the mutex, so that the child finds it free, and the data that it guards consistent. */
struct dli_fork_guard {
    struct dli_fork_guard *next, *before;
    pthread_mutex_t *mutex;
    /* NULL, or runs in the child with the mutex held, while it has one thread */
    void (*child)(struct dli_fork_guard *guard);
};

/* Add or remove a guard. The caller holds no mutex. */
void dli_fork_guard(struct dli_fork_guard *guard);
void dli_fork_unguard(struct dli_fork_guard *guard);

/*
 * ---- memory.c
 *
 * Give memory that was freed back to the system. Where free chunks lie between others, malloc itself keeps it. It takes some
 * milliseconds for each hundred megabytes, and nobody can allocate meanwhile.
 */
void dli_memory_trim(void);

#endif
