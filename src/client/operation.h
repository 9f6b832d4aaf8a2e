/*
 * operation.h: every operation on the server except acquire and release. An operation makes one or a few requests. A
 * caller executes it and waits, or submits it: then no thread waits, and an event has the result.
 *
 * No mutex guards an operation. It belongs to its caller, after submission to its request, at the end to the event
 * queue.
 */
#ifndef DLI_CLIENT_OPERATION_H
#define DLI_CLIENT_OPERATION_H

#include "multi.h"

struct dli_operation;

/* The steps of a kind of operation. No mutex is held. */
struct dli_task {
    /* Prepare the next request: 1. 0: the operation is over without one, and its status is the result. */
    int (*prepare)(struct dli_operation *operation);

    /* The request was answered, and the operation has its status. 1: prepare another one. 0: the operation is over. */
    int (*answered)(struct dli_operation *operation);
};

struct dli_operation {
    const struct dli_task *task;
    struct dli_client *client; /* with a ref */
    struct dli_multi *multi;   /* NULL, or with a ref: its members are served one after the other */
    struct dli_entry *entry;   /* of the name: a member's of multi, or with a ref; or NULL */
    const struct dli_kind *kind;
    size_t at; /* the member under way */
    struct dli_request *request;
    struct dli_loop *loop; /* whose lane executes the request */
    dlock_status status;   /* the result */
    dlock_error reason;
    int64_t value; /* the number that goes with it */
    int64_t owner, tag;
    struct dli_snapshot shot; /* the event at the end */

    /* a renewal */
    struct dli_renewal row;
    struct dli_entry *hold;    /* with a ref */
    struct dli_waiter *waiter; /* of a grant that is adopted, with both its refs */
    int64_t lease, stamp, number;
    int64_t token; /* of the hold that is extended or exported */

    /* an export or an adoption */
    struct dli_transfer *transfer; /* NULL: it is another operation */
    int64_t room;                  /* an export: the most bytes that it may make; 0: any number */
    char *grant;                   /* an export: those bytes, as many as value says; else NULL */

    /* a check */
    struct dli_place *place;
    struct dli_findings found;

    /* a change, or several members */
    int tries, sent, any;
    int64_t sum, end; /* of requests before this one, for one change; no further one begins after that */
};

/* ---- operation.c */

/* An operation on the client alone (new), or on a name (about; with multi on each member). NULL without memory. */
struct dli_operation *dli_operation_new(struct dli_client *client, const struct dli_task *task);
struct dli_operation *dli_operation_about(struct dli_entry *entry, const struct dli_kind *kind, struct dli_multi *multi,
                                          const struct dli_task *task);
void dli_operation_free(struct dli_operation *operation);

/* Begin a request on the operation's name, with the usual deadline. */
void dli_operation_begin(struct dli_operation *operation, enum dli_verb verb);

/*
 * Begin a renewal, for lease microseconds, of the grant of row.owner that entry has. entry.mutex is held where entry may get other
 * permits: where it is a hold of a semaphore.
 */
void dli_operation_renewal(struct dli_operation *operation, struct dli_entry *entry, int64_t lease);

/* Execute the operation; blocks. Returns its status. It stays the caller's. */
dlock_status dli_operation_execute(struct dli_operation *operation);

/*
 * Submit the operation, which is not the caller's any more. DLOCK_OK: an event with tag follows. Otherwise it was over
 * at once, and reterr has the reason.
 */
dlock_status dli_operation_submit(struct dli_operation *operation, int64_t tag, dlock_error *reterr);

/* Fill in reterr with a sentence about the result. Returns the status. */
dlock_status dli_operation_report(const struct dli_operation *operation, dlock_error *reterr);

/* Fill in the fields and the text of the event. */
void dli_operation_event(const struct dli_operation *operation, int64_t field[DLOCK_FIELD_COUNT],
                         char text[DLI_EVENT_TEXT]);

/* ---- operation_kinds.c: NULL without memory */

/* PING or PROVISION. */
struct dli_operation *dli_operation_plain(struct dli_client *client, enum dli_verb verb, int64_t deadline);

/*
 * Ask one server for some names, from cursor on. The value is the next cursor; request->list has the names, without the
 * client's namespace.
 */
struct dli_operation *dli_operation_list(struct dli_client *client, int64_t cursor, int64_t deadline);

/* Whether a cursor can be one of the store. */
int dli_list_cursor(const struct dli_client *client, int64_t cursor);

struct dli_operation *dli_operation_force(struct dli_entry *entry, const struct dli_kind *kind,
                                          struct dli_multi *multi);
struct dli_operation *dli_operation_inspect(struct dli_entry *entry);

/* Close the gate for ttl_ms milliseconds; 0: open it. DLOCK_UNCHANGED when there was nothing to open. */
struct dli_operation *dli_operation_gate(struct dli_entry *entry, int64_t ttl_ms);

/* One operation of the kind's change script. what is not copied. Only "set" has no value. */
struct dli_operation *dli_operation_change(struct dli_entry *entry, const char *what, int64_t number);
struct dli_operation *dli_operation_extend(struct dli_entry *entry, const struct dli_kind *kind,
                                           struct dli_multi *multi, int64_t owner, int64_t lease);

/* ---- transfer.c */

/*
 * Offer owner's grant to other processes. DLOCK_OK: it is not held here any more, and grant has what to give them. DLOCK_NOT_HELD, DLOCK_LOST, DLOCK_BUSY (held more than once, or being exported), DLOCK_BUFFER_TOO_SMALL (room is not
 * 0, and less), or what a renewal fails with: it is held as before, unless it is lost, and nobody can adopt. NULL without
 * memory.
 */
struct dli_operation *dli_transfer_export(struct dli_entry *entry, int64_t owner, size_t room);

/*
 * The value is the token. DLOCK_INVALID_GRANT when the bytes are not a grant of this lock, or DLOCK_OUT_OF_MEMORY;
 * *ret is NULL then.
 */
dlock_status dli_transfer_adopt(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner,
                                const uint8_t *grant, size_t size, struct dli_operation **ret);

/* ---- whether a server is fit to keep locks */

/* A check of the servers. Its value is the number of findings. They stay until the next check. NULL without memory. */
struct dli_operation *dli_operation_check(struct dli_client *client, int64_t deadline);

/* 0, or -1 when there is no finding with this index. */
int dli_check_finding(struct dli_client *client, size_t index, struct dli_finding *finding);

/*
 * The check at the opening of a client, as the option checks says. Blocks, unless that is off. DLOCK_UNFIT, or what a
 * ping fails with.
 */
dlock_status dli_check_open(struct dli_client *client, dlock_error *box);

#endif
