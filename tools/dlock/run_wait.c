/*
 * run_wait.c: waiting for the lock, with an ear for signals. See run.h.
 */
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum { TAG = 1 };

/* Take the events that are there. Whether the answer with our tag is one of them. */
static int hear(struct run *run, int64_t field[DLOCK_FIELD_COUNT])
{
    while (dlock_client_next(run->tool.client, 0, run->tool.event, NULL) == DLOCK_OK) {
        dlock_event_unpack(run->tool.event, field, DLOCK_FIELD_COUNT, NULL, NULL);
        if (field[DLOCK_FIELD_TAG] == TAG)
            return 1;
    }
    return 0;
}

/* The number of a signal that ends the wait, or 0. */
static int obey_signals(const struct run *run)
{
    int number;

    while ((number = run_signals_next(run)) != 0) {
        if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT)
            return number;
        if (number == SIGTSTP && run->tty.fd >= 0)
            raise(SIGSTOP);
    }
    return 0;
}

/* Until a submitted call has its answer. submitted: what submitting it returned. 0, or an exit code. */
static int await(struct run *run, dlock_status submitted, int64_t field[DLOCK_FIELD_COUNT])
{
    struct pollfd fds[] = {{.fd = run->signals, .events = POLLIN}, {.fd = run->client_fd, .events = POLLIN}};
    int number;

    if (submitted != DLOCK_OK)
        return tool_failed(&run->tool);
    while (!hear(run, field)) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return tool_say(&run->tool, TOOL_SYSTEM, "cannot wait: %s", strerror(errno));
        if ((number = obey_signals(run)) != 0)
            return TOOL_SIGNAL + number;
    }
    return 0;
}

static int refused(const struct run *run, const int64_t *field)
{
    return tool_say(&run->tool, tool_code((dlock_status)field[DLOCK_FIELD_STATUS]), "%s",
                    dlock_event_text(run->tool.event));
}

/* Ask once. 0: granted. -1: the grant was over before it was seen. Others are exit codes. */
static int ask(struct run *run, int64_t wait_ms)
{
    int64_t field[DLOCK_FIELD_COUNT] = {0};
    int code = await(run, dlock_lock_submit_acquire(run->lock, TOOL_OWNER, wait_ms, TAG, run->tool.error), field);

    if (code)
        return code;
    run->token = field[DLOCK_FIELD_TOKEN];
    if (field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_ACQUIRED)
        return 0;
    return field[DLOCK_FIELD_STATUS] == DLOCK_LOST ? -1 : refused(run, field);
}

/* Who waits for ever must hear of a wrong URL. Later the server may go and come back: the wait goes on. */
static int check_server(struct run *run)
{
    int64_t field[DLOCK_FIELD_COUNT] = {0};
    int code;

    if (run->wait >= 0)
        return 0;
    code = await(run, dlock_client_submit_ping(run->tool.client, -1, TAG, run->tool.error), field);
    return code || field[DLOCK_FIELD_STATUS] == DLOCK_OK ? code : refused(run, field);
}

/* Make the semaphore, if there is none. */
static int make_permits(struct run *run)
{
    int64_t field[DLOCK_FIELD_COUNT] = {0};
    int code;

    if (run->permits < 0)
        return 0;
    code = await(run, dlock_semaphore_submit_set(run->lock, run->permits, TAG, run->tool.error), field);
    if (code || field[DLOCK_FIELD_STATUS] == DLOCK_OK || field[DLOCK_FIELD_STATUS] == DLOCK_UNCHANGED)
        return code;
    return refused(run, field);
}

int run_wait(struct run *run)
{
    int64_t end = tool_now() + run->wait, left = run->wait;
    int code = make_permits(run), number;

    if (!code)
        code = check_server(run);
    if (code)
        return code;
    while ((code = ask(run, left)) < 0)
        if (run->wait >= 0 && (left = end - tool_now()) < 0)
            left = 0;
    if (!code && (number = obey_signals(run)) != 0) /* it came beside the grant: nothing begins */
        return TOOL_SIGNAL + number;
    return code;
}

int run_release(struct run *run, int code)
{
    int64_t field[DLOCK_FIELD_COUNT] = {0}, status;

    if (await(run, dlock_lock_submit_release(run->lock, TOOL_OWNER, TAG, run->tool.error), field) != 0)
        return code; /* the lease ends by itself */
    status = field[DLOCK_FIELD_STATUS];
    if (status != DLOCK_OK)
        refused(run, field); /* the command has run under its lock */
    return status == DLOCK_LOST || status == DLOCK_NOT_HELD ? TOOL_LOST : code;
}
