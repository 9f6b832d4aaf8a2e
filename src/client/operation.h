/*
 * operation.h: what callers ask of the server beside acquiring and releasing: tasks of one or a few requests. Callers carry
 * them, or submit them: then an event tells the end, and no thread waits.
 *
 * There is no mutex: an order belongs to its caller, once submitted to its request and at the end to the event queue.
 */
#ifndef DLI_CLIENT_OPERATION_H
#define DLI_CLIENT_OPERATION_H

#include "multi.h"

struct dli_operation;

/* No mutex is held. */
struct dli_task {
    /* Put the next request into words: 1. 0: the order is over without one, and status says how. */
    int (*ask)(struct dli_operation *operation);

    /* The request was answered; status is its own. 1: ask again. 0: the order is over. */
    int (*heard)(struct dli_operation *operation);
};

struct dli_operation {
    const struct dli_task *task;
    struct dli_client *client; /* with a ref */
    struct dli_multi *multi;   /* NULL, or with a ref: one member after the other */
    struct dli_entry *entry;   /* of the name; multi's, or with a ref, or NULL */
    const struct dli_kind *kind;
    size_t at; /* the member under way */
    struct dli_request *request;
    struct dli_loop *loop; /* which carries the request */
    dlock_status status;   /* what came of it */
    dlock_error reason;
    int64_t value; /* and what it says */
    int64_t owner, tag;
    struct dli_node node; /* the event at the end */

    /* a renewal */
    struct dli_renewal row;
    struct dli_entry *hold;    /* with a ref */
    struct dli_waiter *waiter; /* of a grant that is taken over, with both its refs */
    int64_t lease, stamp, number;
    int64_t token; /* of the hold that is extended */

    /* a look at the server */
    struct dli_place *place;
    struct dli_findings found;

    /* a change, or several members */
    int tries, sent, any;
};

/* ---- operation.c */

/* An order about nothing but the client, or about a name (multi: about each of its members). NULL without memory. */
struct dli_operation *dli_operation_new(struct dli_client *client, const struct dli_task *task);
struct dli_operation *dli_operation_about(struct dli_entry *entry, const struct dli_kind *kind, struct dli_multi *multi,
                                          const struct dli_task *task);
void dli_operation_free(struct dli_operation *operation);

/* Begin a request about the order's name, with the usual deadline. */
void dli_operation_begin(struct dli_operation *operation, enum dli_verb verb);

/* Begin the renewal of row.owner's grant, which entry has, to lease. */
void dli_operation_renewal(struct dli_operation *operation, struct dli_entry *entry, int64_t lease);

/* What came of the order; it goes on being the caller's. */
dlock_status dli_operation_execute(struct dli_operation *operation);

/* The order goes. DLOCK_OK: an event with tag follows. Else it was over at once, and why is in the box. */
dlock_status dli_operation_submit(struct dli_operation *operation, int64_t tag, dlock_error *reterr);

/* Say what came of it. */
dlock_status dli_operation_report(const struct dli_operation *operation, dlock_error *reterr);

/* The event's numbers and its text. */
void dli_operation_event(const struct dli_operation *operation, int64_t field[DLOCK_FIELD_COUNT],
                         char text[DLI_EVENT_TEXT]);

/* ---- operation_kinds.c: NULL without memory */

/* PING or PROVISION. */
struct dli_operation *dli_operation_plain(struct dli_client *client, enum dli_verb verb, int64_t deadline);
struct dli_operation *dli_operation_force(struct dli_entry *entry, const struct dli_kind *kind,
                                          struct dli_multi *multi);
struct dli_operation *dli_operation_inspect(struct dli_entry *entry);

/* Close the gate for so many milliseconds, 0: open it. DLOCK_UNCHANGED when there was nothing to open. */
struct dli_operation *dli_operation_gate(struct dli_entry *entry, int64_t ttl_ms);

/* One operation of the kind's change script, whose name stays. Only "set" has no value. */
struct dli_operation *dli_operation_change(struct dli_entry *entry, const char *what, int64_t number);
struct dli_operation *dli_operation_extend(struct dli_entry *entry, const struct dli_kind *kind,
                                           struct dli_multi *multi, int64_t owner, int64_t lease);

/* ---- transfer.c */

/* The value is the token. *ret is NULL without memory; DLOCK_INVALID_GRANT when the bytes are not a grant of this lock. */
dlock_status dli_transfer_adopt(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner,
                                const uint8_t *grant, size_t size, struct dli_operation **ret);

#endif
