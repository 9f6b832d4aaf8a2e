/*
 * run_wait.c: waiting for the lock, with an ear for signals. See run.h.
 */
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum { ACQUIRE_TAG = 1 };

enum answer { NOTHING_YET, GRANTED, REFUSED };

/* Take the events that are there. */
static enum answer hear(struct run *run, int64_t field[DLOCK_FIELD_COUNT])
{
    while (dlock_client_next(run->tool.client, 0, run->tool.event, NULL) == DLOCK_OK) {
        dlock_event_unpack(run->tool.event, field, DLOCK_FIELD_COUNT, NULL, NULL);
        if (field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_ACQUIRED)
            return GRANTED;
        if (field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_ACQUIRE_FAILED)
            return REFUSED;
    }
    return NOTHING_YET;
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

/* Ask once. 0: granted. -1: the grant was over before it was seen. Others are exit codes. */
static int ask(struct run *run, int64_t wait_ms)
{
    struct pollfd fds[] = {{.fd = run->signals, .events = POLLIN}, {.fd = run->client_fd, .events = POLLIN}};
    int64_t field[DLOCK_FIELD_COUNT] = {0};
    enum answer answer;
    int number;

    if (dlock_lock_submit_acquire(run->lock, TOOL_OWNER, wait_ms, ACQUIRE_TAG, run->tool.error) != DLOCK_OK)
        return tool_failed(&run->tool);
    while ((answer = hear(run, field)) == NOTHING_YET) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return tool_say(&run->tool, TOOL_SYSTEM, "cannot wait: %s", strerror(errno));
        if ((number = obey_signals(run)) != 0)
            return TOOL_SIGNAL + number;
    }
    run->token = field[DLOCK_FIELD_TOKEN];
    if (answer == GRANTED)
        return 0;
    if (field[DLOCK_FIELD_STATUS] == DLOCK_LOST)
        return -1;
    return tool_say(&run->tool, tool_code((dlock_status)field[DLOCK_FIELD_STATUS]), "%s",
                    dlock_event_text(run->tool.event));
}

/* Who waits for ever must hear of a wrong URL. Later the server may go and come back: the wait goes on. */
static int check_server(struct run *run)
{
    if (run->wait < 0 && dlock_client_ping(run->tool.client, -1, run->tool.error) != DLOCK_OK)
        return tool_failed(&run->tool);
    return 0;
}

int run_wait(struct run *run)
{
    int64_t end = tool_now() + run->wait, left = run->wait;
    int code = check_server(run);

    if (code)
        return code;
    while ((code = ask(run, left)) < 0)
        if (run->wait >= 0 && (left = end - tool_now()) < 0)
            left = 0;
    return code;
}
