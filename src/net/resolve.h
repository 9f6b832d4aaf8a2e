/*
 * resolve.h: name resolution that can be given up. getaddrinfo has no timeout, so it runs on its own thread, which may
 * be left behind.
 */
#ifndef DLI_NET_RESOLVE_H
#define DLI_NET_RESOLVE_H

#include <sys/socket.h>

enum { DLI_ADDRESS_MAX = 8 };

struct dli_address {
    struct sockaddr_storage sockaddr;
    socklen_t size;
};

struct dli_resolve;

/*
 * Start a look-up. Numeric addresses are answered at once, without a thread. NULL with errno: no memory, descriptor or
 * thread, or too many threads of earlier look-ups still hang.
 */
struct dli_resolve *dli_resolve_start(const char *host, int port);

/* A descriptor that is readable when the answer is there; valid until dli_resolve_end. */
int dli_resolve_fd(const struct dli_resolve *resolve);

/*
 * -1: not yet. Else the number of addresses copied to out. 0: *reason is a constant text, and *unknown is 1 if the
 * look-up itself failed, 0 if the name has no address.
 */
int dli_resolve_result(struct dli_resolve *resolve, struct dli_address out[DLI_ADDRESS_MAX], const char **reason,
                       int *unknown);

/* Release it, finished or not. Never blocks. NULL is fine. */
void dli_resolve_end(struct dli_resolve *resolve);

#endif
