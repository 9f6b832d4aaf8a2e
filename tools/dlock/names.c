/*
 * names.c: the names that the servers know, some with each call. See tool.h.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool.h"

enum { BUFFER = 65536, ROOM = 256, REST_NS = 20000000 };

static int no_memory(struct tool_names *names)
{
    names->cursor = 0;
    return DLOCK_OUT_OF_MEMORY;
}

static int add(struct tool_names *names, const char *name)
{
    if (names->count == names->room) {
        size_t room = names->room ? 2 * names->room : ROOM;
        char **larger = realloc(names->name, room * sizeof *larger);

        if (!larger)
            return -1;
        names->name = larger;
        names->room = room;
    }
    if (!(names->name[names->count] = strdup(name)))
        return -1;
    names->count++;
    return 0;
}

static int make_room(struct tool_names *names, size_t size)
{
    char *larger = realloc(names->buffer, size);

    if (!larger)
        return -1;
    names->buffer = larger;
    names->size = size;
    return 0;
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* As long as the last call took, but not for long: a listing takes half of the server's time at most. */
static void rest(int64_t took)
{
    struct timespec pause = {.tv_nsec = took < REST_NS ? (long)took : REST_NS};

    nanosleep(&pause, NULL);
}

dlock_status tool_names_more(struct tool *tool, const char *glob, struct tool_names *names)
{
    int64_t begun = now_ns();
    size_t all = 0;
    dlock_status status;

    if (names->size == 0 && make_room(names, BUFFER) != 0)
        return no_memory(names);
    while ((status = dlock_client_list(tool->client, names->cursor, -1, (uint8_t *)names->buffer, names->size, &all,
                                       &names->cursor, tool->error)) == DLOCK_BUFFER_TOO_SMALL)
        if (make_room(names, 2 * all) != 0)
            return no_memory(names);
    if (status != DLOCK_OK)
        return status;
    for (size_t at = 0; at < all; at += strlen(names->buffer + at) + 1)
        if ((!glob || fnmatch(glob, names->buffer + at, 0) == 0) && add(names, names->buffer + at) != 0)
            return no_memory(names);
    if (names->cursor != 0)
        rest(now_ns() - begun);
    return DLOCK_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void tool_names_sort(struct tool_names *names)
{
    size_t kept = 0;

    if (names->count > 0)
        qsort(names->name, names->count, sizeof names->name[0], by_name);
    for (size_t i = 0; i < names->count; i++) {
        if (kept > 0 && strcmp(names->name[kept - 1], names->name[i]) == 0)
            free(names->name[i]);
        else
            names->name[kept++] = names->name[i];
    }
    names->count = kept;
}

void tool_names_free(struct tool_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->name[i]);
    free(names->name);
    free(names->buffer);
    *names = (struct tool_names){.name = NULL};
}
