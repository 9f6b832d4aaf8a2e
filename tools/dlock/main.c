/*
 * main.c: the command dlock.
 */
#include <fcntl.h>
#include <unistd.h>

#include "tool.h"

int main(int argc, char **argv)
{
    int fd;

    do /* a connection must not become stdin, stdout or stderr */
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
    return tool_main(argc, argv);
}
