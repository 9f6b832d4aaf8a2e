/*
 * look.c: what the server says of a name, whatever kind of lock it is. See tool.h.
 *
 * The keys of a name show its kind in part. A hash is a mutex or a fair lock, or with a mode a read-write lock; a
 * number is a semaphore or a latch. Nobody can tell those apart.
 */
#include "tool.h"

#include <string.h>

const char *tool_kind_name(int32_t kind)
{
    for (const struct tool_word *word = tool_kinds; word->name; word++)
        if (word->value == kind)
            return word->name;
    return "unknown";
}

static int is_number(int32_t kind)
{
    return kind == DLOCK_KIND_SEMAPHORE || kind == DLOCK_KIND_PERMIT_SEMAPHORE || kind == DLOCK_KIND_LATCH;
}

void tool_look_read(const dlock_event *event, int32_t kind, struct tool_look *look)
{
    int64_t field[DLOCK_FIELD_COUNT];

    dlock_event_unpack(event, field, DLOCK_FIELD_COUNT, NULL, NULL);
    *look = (struct tool_look){.kind = kind, .counts = is_number(kind)};
    if (look->counts) {
        look->number = field[DLOCK_FIELD_VALUE];
        return;
    }
    snprintf(look->holder, sizeof look->holder, "%s", dlock_event_text(event));
    look->token = field[DLOCK_FIELD_TOKEN];
    look->left_ms = field[DLOCK_FIELD_REMAINING_MS];
    look->held_ms = field[DLOCK_FIELD_HELD_FOR_MS];
    look->waiters = field[DLOCK_FIELD_WAITERS];
    look->foreign = field[DLOCK_FIELD_FOREIGN];
}

dlock_status tool_look_submit(struct tool *tool, int32_t kind, const char *name, int64_t tag)
{
    dlock_lock *lock;
    dlock_status status;

    status = dlock_lock_new(tool->client, kind, name, strlen(name), NULL, &lock, tool->error);
    if (status != DLOCK_OK)
        return status;
    if (kind == DLOCK_KIND_LATCH)
        status = dlock_latch_submit_count(lock, tag, tool->error);
    else if (is_number(kind))
        status = dlock_semaphore_submit_available(lock, tag, tool->error);
    else
        status = dlock_lock_submit_inspect(lock, tag, tool->error);
    dlock_lock_free(lock);
    return status;
}

static dlock_status look_at_number(struct tool *tool, dlock_lock *lock, struct tool_look *look)
{
    look->counts = 1;
    return look->kind == DLOCK_KIND_LATCH ? dlock_latch_count(lock, &look->number, tool->error)
                                          : dlock_semaphore_available(lock, &look->number, tool->error);
}

static dlock_status look_at_holder(struct tool *tool, dlock_lock *lock, struct tool_look *look)
{
    dlock_status status = dlock_lock_inspect(lock, tool->event, tool->error);

    if (status == DLOCK_OK)
        tool_look_read(tool->event, look->kind, look);
    return status;
}

static dlock_status look_as(struct tool *tool, int32_t kind, const char *name, struct tool_look *look)
{
    dlock_lock *lock;
    dlock_status status;

    *look = (struct tool_look){.kind = kind};
    status = dlock_lock_new(tool->client, kind, name, strlen(name), NULL, &lock, tool->error);
    if (status != DLOCK_OK)
        return status;
    status = is_number(kind) ? look_at_number(tool, lock, look) : look_at_holder(tool, lock, look);
    dlock_lock_free(lock);
    return status;
}

/* A lock that is held, or free, and has a line of a fair lock is one. */
static dlock_status mutex_or_fair(struct tool *tool, const char *name, struct tool_look *look)
{
    struct tool_look fair;
    dlock_status status = look_as(tool, DLOCK_KIND_FAIR, name, &fair);

    if (status == DLOCK_OK && fair.waiters > 0)
        *look = fair;
    return status == DLOCK_UNSUPPORTED ? DLOCK_OK : status; /* a quorum has mutexes only */
}

static int writes(const char *holder)
{
    size_t size = strlen(holder), end = strlen(":write");

    return size > end && strcmp(holder + size - end, ":write") == 0;
}

void tool_look_name_kind(struct tool_look *look)
{
    if (look->kind == DLOCK_KIND_WRITE && !writes(look->holder))
        look->kind = DLOCK_KIND_READ;
    if (look->kind == DLOCK_KIND_FAIR && look->waiters <= 0)
        look->kind = DLOCK_KIND_MUTEX;
}

dlock_status tool_look(struct tool *tool, int32_t kind, const char *name, struct tool_look *look)
{
    static const int32_t kinds[] = {DLOCK_KIND_MUTEX, DLOCK_KIND_WRITE, DLOCK_KIND_SEMAPHORE};
    dlock_status status = DLOCK_WRONG_KIND;

    if (kind)
        return look_as(tool, kind, name, look);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && status == DLOCK_WRONG_KIND; i++)
        status = look_as(tool, kinds[i], name, look);
    if (status == DLOCK_OK)
        tool_look_name_kind(look);
    if (status == DLOCK_OK && look->kind == DLOCK_KIND_MUTEX && look->waiters <= 0)
        status = mutex_or_fair(tool, name, look);
    return status;
}

int tool_look_failed(const struct tool *tool)
{
    if (tool->kind || dlock_error_code(tool->error) != DLOCK_DENIED)
        return tool_failed(tool);
    return tool_say(tool, tool_code(DLOCK_DENIED),
                    "%s; finding out the kind takes the rights of all kinds: name it with --kind",
                    dlock_error_message(tool->error));
}

int tool_with_lock(struct tool *tool, const char *name, int (*work)(struct tool *tool, dlock_lock *lock, void *context),
                   void *context)
{
    struct tool_look look = {.kind = tool->kind};
    dlock_lock *lock = NULL;
    int code = tool_open(tool);

    if (!code && !tool->kind && tool_look(tool, 0, name, &look) != DLOCK_OK)
        code = tool_look_failed(tool);
    if (!code)
        code = tool_lock(tool, look.kind, name, &lock);
    if (!code)
        code = work(tool, lock, context);
    dlock_lock_free(lock);
    return code;
}
