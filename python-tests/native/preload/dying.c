/*
 * dying.c: preloaded into dlock run, it lets a process die between two looks of one search: whoever asks /proc for the
 * threads of a process waits first until that is a zombie, for a quarter of a second at most. The file named by
 * DLOCK_DYING gets a byte for each that died meanwhile.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int (*next)(const char *path, int flags, ...);

__attribute__((constructor)) static void find(void)
{
    *(void **)&next = dlsym(RTLD_NEXT, "open");
}

static char state_of(int pid)
{
    char path[64], text[512] = "", *behind;
    int fd;
    ssize_t size;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if ((fd = next(path, O_RDONLY | O_CLOEXEC)) < 0)
        return '\0';
    size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    behind = strrchr(text, ')');
    return behind && strlen(behind) > 2 ? behind[2] : '\0';
}

static void tell(void)
{
    int fd = next(getenv("DLOCK_DYING"), O_WRONLY | O_APPEND | O_CLOEXEC);

    if (fd < 0 || write(fd, "d", 1) != 1)
        abort();
    close(fd);
}

static void wait_for_death(int pid)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    char state = state_of(pid);

    if (state == 'Z' || state == 'T')
        return;
    for (int i = 0; i < 250 && state != 'Z' && state != '\0'; i++) {
        nanosleep(&moment, NULL);
        state = state_of(pid);
    }
    if (state == 'Z')
        tell();
}

int open(const char *path, int flags, ...)
{
    int pid, end = 0;
    mode_t mode;
    va_list more;

    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
    if (getenv("DLOCK_DYING") && sscanf(path, "/proc/%d/task%n", &pid, &end) == 1 && end && !path[end] &&
        pid != getpid())
        wait_for_death(pid);
    return next(path, flags, mode);
}
