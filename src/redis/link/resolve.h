/*
 * resolve.h: name resolution with a deadline. getaddrinfo has none, so it runs on a thread of its own that may be left behind.
 */
#ifndef DLI_REDIS_LINK_RESOLVE_H
#define DLI_REDIS_LINK_RESOLVE_H

#include <sys/socket.h>

enum { DLI_ADDRESS_MAX = 8 };

struct dli_address {
    struct sockaddr_storage sockaddr;
    socklen_t size;
};

struct dli_resolve;

/*
 * Start to resolve; numeric addresses are answered at once without a thread. NULL (errno) without memory, descriptor or
 * thread, also when too many threads of earlier look-ups still hang.
 */
struct dli_resolve *dli_resolve_start(const char *host, int port);

/* Readable when the answer is there; stays valid until dli_resolve_end. */
int dli_resolve_fd(const struct dli_resolve *resolve);

/*
 * -1 not yet; otherwise the number of addresses copied to out. 0: *why is set to a constant text, and *unknown tells whether
 * nobody could be asked, rather than that there is no such name.
 */
int dli_resolve_result(struct dli_resolve *resolve, struct dli_address out[DLI_ADDRESS_MAX], const char **reason,
                       int *unknown);

/* Give it back, finished or not. Never blocks. NULL is fine. */
void dli_resolve_end(struct dli_resolve *resolve);

#endif
