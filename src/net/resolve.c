/*
 * resolve.c: getaddrinfo on a thread that may be left behind.
 *
 * A look-up has two holders, its owner and its thread; the last one frees it. The thread writes addresses, count,
 * reason and unknown before it sets done (release). The owner reads them after it has seen done (acquire).
 *
 * live_threads bounds the number of threads in getaddrinfo for the whole process, so that a dead name server does not
 * accumulate them. It is atomic and also holds the fork generation, because the parent's threads do not exist in a
 * child.
 */
#include "resolve.h"

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/sys.h"

enum { THREADS_MAX = 32 };

struct dli_resolve {
    atomic_int holders;
    atomic_int done;
    int fd;
    int count;
    const char *reason;
    int unknown;
    struct dli_address addresses[DLI_ADDRESS_MAX];
    char port[8];
    char host[256];
};

/* Fork generation in the high 32 bits, count in the low 32. */
static _Atomic uint64_t live_threads;

static uint64_t live_now(uint64_t seen)
{
    uint64_t generation = dli_fork_generation() << 32;
    return seen >> 32 << 32 == generation ? seen : generation;
}

static int enter_thread(void)
{
    uint64_t seen = atomic_load(&live_threads), next;
    do {
        next = live_now(seen) + 1;
        if ((uint32_t)next > THREADS_MAX)
            return -1;
    } while (!atomic_compare_exchange_weak(&live_threads, &seen, next));
    return 0;
}

static void leave_thread(void)
{
    atomic_fetch_sub(&live_threads, 1);
}

static void put_holder(struct dli_resolve *resolve)
{
    if (atomic_fetch_sub(&resolve->holders, 1) > 1)
        return;
    if (resolve->fd >= 0)
        close(resolve->fd);
    free(resolve);
}

/* Store the result of getaddrinfo: addresses, or the reason why there are none. */
static void keep_result(struct dli_resolve *resolve, int error, const struct addrinfo *list)
{
    int count = 0;
    for (; list && count < DLI_ADDRESS_MAX; list = list->ai_next) {
        struct dli_address *address = &resolve->addresses[count];
        if (list->ai_addrlen > sizeof address->sockaddr)
            continue;
        memcpy(&address->sockaddr, list->ai_addr, list->ai_addrlen);
        address->size = list->ai_addrlen;
        count++;
    }
    resolve->unknown = error == EAI_AGAIN || error == EAI_FAIL || error == EAI_SYSTEM || error == EAI_MEMORY;
    resolve->reason = error ? gai_strerror(error) : "The name has no address";
    resolve->count = count;
    atomic_store_explicit(&resolve->done, 1, memory_order_release);
    dli_wake_set(resolve->fd);
}

static int look_up(struct dli_resolve *resolve, int flags)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    struct addrinfo *list = NULL;
    int error = getaddrinfo(resolve->host, resolve->port, &hints, &list);
    if (error == EAI_NONAME && (flags & AI_NUMERICHOST))
        return -1;
    keep_result(resolve, error, error ? NULL : list);
    if (!error)
        freeaddrinfo(list);
    return 0;
}

static void resolve_thread(void *opaque)
{
    struct dli_resolve *resolve = opaque;
    look_up(resolve, 0);
    leave_thread();
    put_holder(resolve);
}

/* 0 or an errno. */
static int start_thread(struct dli_resolve *resolve)
{
    if (enter_thread())
        return EAGAIN;
    atomic_store(&resolve->holders, 2);
    int error = dli_thread_start("dlock-resolve", resolve_thread, resolve);
    if (error) {
        atomic_store(&resolve->holders, 1);
        leave_thread();
    }
    return error;
}

struct dli_resolve *dli_resolve_start(const char *host, int port)
{
    struct dli_resolve *resolve = calloc(1, sizeof *resolve);
    if (!resolve)
        return NULL;
    atomic_init(&resolve->holders, 1);
    snprintf(resolve->host, sizeof resolve->host, "%s", host);
    snprintf(resolve->port, sizeof resolve->port, "%d", port);
    resolve->fd = dli_wake_open();
    int error = resolve->fd < 0 ? errno : 0;
    if (!error && look_up(resolve, AI_NUMERICHOST))
        error = start_thread(resolve);
    if (!error)
        return resolve;
    put_holder(resolve);
    errno = error;
    return NULL;
}

int dli_resolve_fd(const struct dli_resolve *resolve)
{
    return resolve->fd;
}

int dli_resolve_result(struct dli_resolve *resolve, struct dli_address out[DLI_ADDRESS_MAX], const char **reason,
                       int *unknown)
{
    if (!atomic_load_explicit(&resolve->done, memory_order_acquire))
        return -1;
    memcpy(out, resolve->addresses, (size_t)resolve->count * sizeof *out);
    if (resolve->count == 0) {
        *reason = resolve->reason;
        *unknown = resolve->unknown;
    }
    return resolve->count;
}

void dli_resolve_end(struct dli_resolve *resolve)
{
    if (resolve)
        put_holder(resolve);
}
