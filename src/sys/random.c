/*
 * random.c: random bytes, from the kernel only.
 */
#include "sys.h"

#include <errno.h>
#include <sys/random.h>

int dli_random(void *out, size_t size)
{
    unsigned char *bytes = out;
    while (size > 0) {
        ssize_t got = getrandom(bytes, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        bytes += got;
        size -= (size_t)got;
    }
    return 0;
}
