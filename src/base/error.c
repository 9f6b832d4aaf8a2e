/*
 * error.c: the status table, the error box, and escapes for text from outside.
 */
#include "error.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "printable.h"
#include "text.h"

enum { ESCAPE_MAX = 256 };

/* By hand: releases of clang-format disagree here. */
/* clang-format off */
#define ROW(name, retryable, text) {DLOCK_##name, retryable, #name, text}
/* clang-format on */

/* In the order of dlock.h. */
const struct dli_status_row dli_status_table[] = {
    ROW(OK, 0, "The call did what was asked."),

    ROW(BUSY, 1, "Somebody else holds the lock and the caller did not want to wait."),
    ROW(TIMED_OUT, 1, "The caller's time to wait is over."),
    ROW(CANCELLED, 0, "The wait was cancelled."),
    ROW(INTERRUPTED, 1, "A signal was handled while waiting; call again to go on."),
    ROW(WOULD_BLOCK, 0, "This takes longer than a moment; use the call that may block, or wait for the event."),
    ROW(NO_EVENT, 0, "No event waits in the queue."),
    ROW(UNCHANGED, 0, "It was set before; nothing changed."),
    ROW(GATE_CLOSED, 0, "The gate of the lock is closed: nobody acquires it until it is opened again."),
    ROW(CONFLICT, 1, "Somebody else changed a watched key; nothing was written."),
    ROW(NOT_FOUND, 0, "There is no such key."),

    ROW(INVALID_ARGUMENT, 0, "An argument is outside of what the call accepts."),
    ROW(INVALID_NAME, 0, "The lock name is empty, too long, or holds bytes or braces that are refused."),
    ROW(UNKNOWN_OPTION, 0, "There is no option of this name."),
    ROW(INVALID_OPTION, 0, "The option does not accept this value."),
    ROW(INVALID_URL, 0, "The URL cannot be read."),
    ROW(UNSUPPORTED, 0, "This lock, set-up or build of the library cannot do that."),
    ROW(OUT_OF_MEMORY, 0, "This process has no memory left."),
    ROW(CLOSED, 0, "The client is closed."),
    ROW(FORKED, 0, "The client was used before the fork and belongs to the parent process."),
    ROW(BUFFER_TOO_SMALL, 0, "The result does not fit into the caller's buffer."),
    ROW(SYSTEM_ERROR, 0, "The operating system refused something the library needs."),
    ROW(DUPLICATE_NAME, 0, "A lock is named twice; each may be named once."),
    ROW(INVALID_QUORUM, 0, "These servers cannot vote together."),

    ROW(NOT_HELD, 0, "The owner does not hold the lock."),
    ROW(LOST, 0, "The owner held the lock and lost it before this call."),
    ROW(WRONG_KIND, 0, "The server uses the name for another kind of lock, or for something else."),
    ROW(UNKNOWN_OUTCOME, 0, "The request was sent, but no answer came: it may have been carried out, or may still be."),
    ROW(INVALID_GRANT, 0, "The bytes are not a grant of this lock."),
    ROW(UPGRADE_REFUSED, 0, "The owner holds the lock for reading; it must release that before it asks to write."),
    ROW(NO_TRANSACTION, 0, "No transaction is under way: watch a key first."),

    ROW(UNREACHABLE, 1, "The server cannot be reached or does not answer."),
    ROW(DENIED, 0, "The server refuses the credentials or does not permit the command."),
    ROW(SERVER_LOADING, 1, "The server is loading its data, or waits for its primary."),
    ROW(SERVER_BUSY, 1, "The server is busy with a long script or has too many clients."),
    ROW(SERVER_OUT_OF_MEMORY, 1, "The server has reached its memory limit."),
    ROW(SERVER_READ_ONLY, 1, "The server takes no writes: it is a replica, or it cannot save."),
    ROW(PROTOCOL_ERROR, 0, "The server sent something that is not its protocol, or is larger than the library takes."),
    ROW(SERVER_ERROR, 0, "The server answered with an error."),
    ROW(TLS_FAILED, 0, "TLS with the server failed, or the server did not prove its name."),
    ROW(WRONG_SETUP, 0, "The server belongs to another set-up than the URL says: use another scheme."),
    ROW(QUARANTINED, 1, "The server may have lost its memory: no lock is granted until all older leases have ended."),
    ROW(LEASE_REFUSED, 0, "The server keeps another longest lease than quarantine_ms says."),
    ROW(NOT_REPLICATED, 1, "Too few replicas confirmed in time: a grant is taken back, a renewal does not count."),
    ROW(SERVER_FORGOT, 1, "The server gave a lower token than before: it lost its memory, and its clock is behind."),
    ROW(UNFIT, 0, "The server is not fit to keep locks."),
};

const size_t dli_status_rows = sizeof dli_status_table / sizeof dli_status_table[0];

const struct dli_status_row *dli_status_find(dlock_status status)
{
    for (size_t i = 0; i < dli_status_rows; i++) {
        if (dli_status_table[i].status == status)
            return &dli_status_table[i];
    }
    return NULL;
}

/* Write the printable form of the first character at bytes, *length bytes. Returns how many bytes it had. */
static size_t escape_one(char out[4], const char *bytes, size_t size, int *marks, size_t *length)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char byte = (unsigned char)*bytes;

    *length = dli_printable(bytes, size, marks);
    if (*length) {
        memcpy(out, bytes, *length);
        return *length;
    }
    *length = 4;
    memcpy(out, (char[]){'\\', 'x', hex[byte >> 4], hex[byte & 15]}, 4);
    return 1;
}

/* Copy bytes into out as printable text, with dots at the end when that is cut, or was cut before. */
static void escape(char *out, size_t room, const char *bytes, size_t size, int cut)
{
    static const char dots[] = "...";
    size_t used = 0, at = 0, before_dots = 0;
    int marks = DLI_MARKS_NONE;

    while (at < size) {
        char one[4];
        size_t length, taken = escape_one(one, bytes + at, size - at, &marks, &length);
        if (used + length + 1 > room)
            break;
        memcpy(out + used, one, length);
        used += length;
        at += taken;
        if (used + sizeof dots <= room)
            before_dots = used;
    }
    out[used] = '\0';
    if (at < size || cut)
        snprintf(out + before_dots, room - before_dots, "%s", dots);
}

/* Whether text is the letters, digits and signs of ASCII only: the usual case. */
static int plain(const char *text)
{
    while (*text >= ' ' && *text <= '~')
        text++;
    return *text == '\0';
}

dlock_status dli_fail(dlock_error *box, dlock_status status, const char *format, ...)
{
    char whole[sizeof box->message];

    if (!box)
        return status;
    va_list list;
    va_start(list, format);
    struct dli_text text = dli_text_in(box->message, sizeof box->message);
    dli_text_vprint(&text, format, list);
    va_end(list);
    box->code = status;
    if (plain(box->message) && !dli_text_cut(&text))
        return status;
    memcpy(whole, box->message, sizeof whole);
    escape(box->message, sizeof box->message, whole, text.size, dli_text_cut(&text));
    return status;
}

dlock_status dli_fail_forgot(dlock_error *box, int64_t token, int64_t before)
{
    return dli_fail(box, DLOCK_SERVER_FORGOT,
                    "fencing token %lld was granted, and before it %lld: the server has lost its memory, or its clock "
                    "was set back",
                    (long long)token, (long long)before);
}

const char *dli_escape(char *out, size_t out_size, const char *bytes, size_t size)
{
    if (out_size == 0)
        return "";
    escape(out, out_size < ESCAPE_MAX ? out_size : ESCAPE_MAX, bytes, size, 0);
    return out;
}
