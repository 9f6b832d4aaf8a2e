/*
 * ways.h: ways to hold a lock, behind one table: libdlock, libdlock's scripts over bare hiredis, and the usual poll.
 */
#ifndef WAYS_H
#define WAYS_H

#include "bench.h"

struct way {
    const char *name;
    void *(*open)(const char *url);                 /* once per process, after fork */
    void *(*lock)(void *process, const char *name); /* once per thread */
    int64_t (*acquire)(void *lock);                 /* waits for it; the fencing token, 0 when there is none */
    void (*release)(void *lock);
    int places; /* how many may hold it at once */
};

/*
 * dlock    libdlock with its default options
 * scripts  redisCommandArgv of libdlock's own two scripts with the very same arguments, a connection per thread; never waits
 * fair, read, write, semaphore (4 permits), permits (4 that expire)
 *          libdlock's other kinds
 * multi    three mutexes of one slot as one lock of libdlock; three: the same, one after the other
 * futexes  a fair line in the memory of one process: no server, no token, nothing that survives the process
 * poll     SET NX PX every millisecond until it works, release by a script, a connection per thread
 */
const struct way *way_named(const char *name);

#endif
