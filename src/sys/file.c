/*
 * file.c: notice that a file has changed, and who may read it.
 */
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
}

int dli_file_stamp(const char *path, int folder, uint64_t *stamp)
{
    struct stat seen = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error = 0;

    if (fd < 0)
        return errno;
    if (fstat(fd, &seen))
        error = errno;
    close(fd);
    if (error)
        return error;
    if (folder ? !S_ISDIR(seen.st_mode) : !S_ISREG(seen.st_mode))
        return folder ? ENOTDIR : S_ISDIR(seen.st_mode) ? EISDIR : EINVAL;
    *stamp = mix(*stamp, seen.st_dev);
    *stamp = mix(*stamp, seen.st_ino);
    *stamp = mix(*stamp, (uint64_t)seen.st_size);
    *stamp = mix(*stamp, (uint64_t)seen.st_mtim.tv_sec);
    *stamp = mix(*stamp, (uint64_t)seen.st_mtim.tv_nsec);
    *stamp = mix(*stamp, (uint64_t)seen.st_ctim.tv_sec);
    *stamp = mix(*stamp, (uint64_t)seen.st_ctim.tv_nsec);
    return 0;
}

int dli_file_is_public(const char *path)
{
    struct stat seen;

    return stat(path, &seen) == 0 && S_ISREG(seen.st_mode) && (seen.st_mode & S_IROTH);
}
