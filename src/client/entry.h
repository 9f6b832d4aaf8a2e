/*
 * entry.h: one lock name in this process, and one who waits for it or holds it. Their functions are in core.h, and who guards
 * what.
 */
#ifndef DLI_CLIENT_ENTRY_H
#define DLI_CLIENT_ENTRY_H

#include "base/error.h"
#include "base/list.h"
#include "base/name.h"
#include "base/table.h"
#include "engine/engine.h"
#include "events.h"
#include "store/store.h"
#include "sys/sys.h"
#include "watchdog/watchdog.h"

struct dli_client;
struct dli_run; /* multi.h */
struct dli_waitlist;
struct dli_group;
struct dli_waiting;
struct dli_turns;

/* An adoption under way or being undone; transfer.c. entry.mutex guards it. */
struct dli_adoption {
    char giver[DLI_OWNER_MAX]; /* the id of the grant */
    int64_t heir;              /* the grant number that it gets here */
};

/* A subscription to messages about a lock. */
struct dli_subscription {
    int64_t listeners; /* who shares it; guarded by the store */
    int64_t since;     /* atomic: subscribed since then; 0: not subscribed */
};

/* What an entry needs only after a failure, for an adoption, or while a foreign client has the lock. */
struct dli_aside {
    dlock_error *reason;                  /* the failure of the last exchange, or NULL */
    struct dli_gate_query *gate_query;    /* the query of the gate under way, or NULL; gate.c */
    int64_t gate_asked;                   /* when a message was the reason for one last; 0: never */
    int64_t gate_again;                   /* when a query that failed is repeated; 0: none has failed */
    int gate_news;                        /* a message says that the gate has changed: it is to be queried */
    struct dli_adoption *adoption;        /* NULL: none is under way or being undone */
    struct dli_subscription subscription; /* of a kind without holds */
};

/*
 * One lock name, or one hold. In some kinds every owner's hold has a machine and an id of its own. Then parent is the
 * entry of the name. The parent's own machine stays idle, and the parent owns name and place.
 *
 * Every held lock has an entry. What only an exchange, a failure or an adoption needs is allocated when that begins. And the
 * entry of a kind without such holds ends before before: it has no memory for what comes then.
 */
struct dli_entry {
    struct dli_short_mutex mutex;
    int32_t refs;
    int32_t surplus;         /* refs to drop when the mutex is released */
    int32_t handles;         /* atomic: lock handles of the name */
    int8_t loop;             /* index in client.loops; -1 until the client starts */
    int8_t apart;            /* its last renewal was refused: the next one shares no request */
    int8_t reserved;         /* chosen for an acquisition that has not begun yet */
    int8_t busy;             /* counted in client.busy */
    uint32_t gate_query_ups; /* client.line_ups at the last query of the gate; 0: none */
    int64_t id;              /* of the name */
    struct dli_client *client;
    struct dli_link link;     /* in client.entries */
    struct dli_slot in_table; /* in client.table */
    const struct dli_kind *kind;
    struct dli_name name;
    struct dli_place *place;  /* in the store */
    struct dli_mutex m;       /* its rules are shared; a hold has its own, see dli_entry_own_rules */
    struct dli_timer timer;   /* under the loop's mutex */
    int64_t timer_at;         /* what the timer is set to; DLI_NEVER: not set */
    struct dli_aside *aside;  /* NULL: there is nothing of it */
    uint32_t *woken;          /* futex of the caller to wake when the mutex is released */
    struct dli_run *cut_off;  /* multi-locks to end when the mutex is released: no thread takes their next step */
    struct dli_entry *parent; /* with a ref */
    struct dli_entry *before; /* with a ref: the entry of the same owner's slot - 1 */
    struct dli_subscription subscription;
    struct dli_link children; /* the holds of this name, by sibling; under client.mutex */
    struct dli_link sibling;
    struct dli_waitlist *waitlist; /* of a parent whose waiters ask one for all; NULL: there is none */
    struct dli_waiting *member;    /* of the parent's waitlist, while it waits; or NULL */
    struct dli_group *promoting;   /* when the mutex is released, so many of this group may ask */
    int promoted;
    int8_t stranger;           /* it waits without a member, for want of memory */
    int8_t follower;           /* in followers of the parent's waitlist; subscription.c */
    int8_t due;                /* when the mutex is released, this concerns the waiters of the name: DLI_DUE_* */
    struct dli_link following; /* in followers */
    int64_t behind;            /* as its last answer said, so many may go on behind it */
    int64_t owner, slot;       /* of the hold */
    int64_t wanted;            /* atomic: the machine's grant number; finds the hold that a message is for */
    int64_t under;             /* READ: the grant number of owner's write hold at the acquire; 0: none */
    int64_t shared;            /* WRITE: the grant number under which owner has begun to read; 0: none */
    int64_t followed;          /* the grant number whose own channel is subscribed to */
    int64_t highest;           /* atomic: the highest token of the holds of this parent */
    int64_t gate_told;         /* atomic: what the holds of this parent are told of the gate; gate.c */
    int64_t begun;             /* atomic: acquisitions that have begun in the slots of this parent */
    int64_t interrupted;       /* atomic: acquisitions in the holds of this parent that were interrupted */
    struct dli_entry *heir;    /* it got the grant of this one; its mutex is held, and released after this one's */
    struct dli_turns *turns;   /* FAIR: whom the grant may serve; NULL: nobody else. pass.c */
};

enum { DLI_ENTRY_SHORT = offsetof(struct dli_entry, before) }; /* of a kind without holds */

/*
 * Every held lock has one of each, so the sizes are bounds on x86-64. Before you raise one: can the new member be allocated
 * when it is needed? The whole of a held lock is measured in test_memory.py.
 */
_Static_assert(DLI_ENTRY_SHORT <= 344, "a held lock has an entry");

/* The failure of the last exchange, or NULL. */
static inline const dlock_error *dli_entry_reason(const struct dli_entry *entry)
{
    return entry->aside ? entry->aside->reason : NULL;
}

/* The query of the gate under way, or NULL. */
static inline struct dli_gate_query *dli_entry_gate_query(const struct dli_entry *entry)
{
    return entry->aside ? entry->aside->gate_query : NULL;
}

enum { DLI_SETTLED_ENDED = 1, DLI_SETTLED_GRANTED };

/* What a timer is of; in timer.sort. */
enum { DLI_TIMER_ENTRY, DLI_TIMER_WAIT, DLI_TIMER_RUN };

/* Who gets the answer. */
enum { DLI_NOTIFY_NOBODY, DLI_NOTIFY_CALLER, DLI_NOTIFY_QUEUE, DLI_NOTIFY_RUN };

/* How the caller sleeps: on settled; or it receives the store's messages meanwhile, and is woken by ring of the store. */
enum { DLI_AWAKE, DLI_ASLEEP, DLI_LISTENING };

/*
 * One claim, and what is needed to notify its caller. Every held lock has one, so it has only what any hold needs. The
 * node of its last event is part of it: a loss is reported, and a lock is released, also without memory. Once that event is
 * posted, the claim needs neither its report nor a notice: the node lies where they were.
 */
struct dli_waiter {
    union {
        struct dli_claim claim;
        struct {
            char before_report[offsetof(struct dli_claim, report)];
            union {
                struct dli_node last;
                struct {
                    struct dli_link report;    /* of the claim */
                    struct dli_notice *notice; /* see dli_waiter_notice */
                };
            };
        };
    };
    struct dli_entry *entry; /* with a ref */
    union {
        int64_t asked_at;   /* until it is settled, when it began to wait; 0: that is not measured */
        int64_t sure_until; /* SETTLED_GRANTED: passing time alone does not end the grant before */
    };
    union {
        int64_t tag;         /* 0: none */
        struct dli_run *run; /* NOTIFY_RUN: the run that it is a step of */
    };
    uint32_t settled;        /* futex, DLI_SETTLED_* when the machine has answered */
    uint16_t refs;           /* atomic: its callers, the machine, events that were not read */
    int8_t risk_queued;      /* atomic: an AT_RISK event of it was not read yet: no second one is posted */
    uint8_t notify : 2;      /* DLI_NOTIFY_* */
    uint8_t sleeping : 2;    /* DLI_AWAKE, ... */
    uint8_t interrupted : 1; /* a signal interrupted its caller, who may call again: dli_waiter_interrupt */
    uint8_t last_used : 1;   /* last was posted */
};

_Static_assert(sizeof(struct dli_waiter) <= 136, "a held lock has a waiter");
_Static_assert(sizeof(struct dli_claim) == offsetof(struct dli_claim, report) + sizeof(struct dli_link),
               "report is last");

/* The notice of a submitted or begun acquisition until it is settled; else NULL. */
static inline struct dli_notice *dli_waiter_notice(const struct dli_waiter *waiter)
{
    return waiter->last_used ? NULL : waiter->notice;
}

#endif
