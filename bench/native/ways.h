/*
 * ways.h: ways to hold a lock, in one table: libdlock, libdlock's scripts over bare hiredis, and polling.
 */
#ifndef WAYS_H
#define WAYS_H

#include "bench.h"

struct way {
    const char *name;
    void *(*open)(const char *url);                 /* once per process, after fork */
    void *(*lock)(void *process, const char *name); /* once per thread */
    int64_t (*acquire)(void *lock);                 /* waits; returns the fencing token, 0 when there is none */
    void (*release)(void *lock);
    int places; /* how many may hold it at once */
};

/*
 * The way of a name:
 *
 * dlock    libdlock with its default options
 * scripts  redisCommandArgv of libdlock's two scripts with the same arguments, one connection per thread; never waits
 * fair, read, write, semaphore (4 permits), permits (4 that expire)
 *          libdlock's other kinds
 * multi    three mutexes of one slot as one multi-lock of libdlock; three: the same mutexes, one after the other
 * blpop    a list with one element: BLPOP and RPUSH, one connection per thread; no token, no lease
 * least    the least script that is a lock with a line, a lease and a token, two connections per thread
 * futexes  a fair queue in the memory of one process: no server, no token, nothing that survives the process
 * etcd     the two requests of Go's concurrency.Mutex over bare HTTP/2, one connection per thread; never waits. In a build
 *          with etcd
 * poll     SET NX PX every millisecond until it succeeds, release with a script, one connection per thread
 */
const struct way *way_named(const char *name);

#endif
