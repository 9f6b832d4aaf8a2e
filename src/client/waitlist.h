/*
 * waitlist.h: the waiters of one name, for the kinds in which every hold has a machine of its own. See waitlist.c: which of
 * them asks the server; and pass.c: who gets a grant in memory.
 */
#ifndef DLI_CLIENT_WAITLIST_H
#define DLI_CLIENT_WAITLIST_H

#include "core.h"

/*
 * What concerns all waiters of a name: those that stand for the others probe; all waits end, because the gate is closed; the first
 * again, because a message says that something may be free.
 */
enum { DLI_DUE_PROBE = 1, DLI_DUE_GATE = 2, DLI_DUE_HINT = 4 };

/* A hold that waits. */
struct dli_waiting {
    struct dli_link link; /* in active or parked of its group */
    struct dli_group *group;
    struct dli_entry *entry;
    int64_t arrival;
    int64_t number; /* FAIR: its grant number, by which the waitlist finds it; 0: not yet */
    struct dli_slot numbered;
    int64_t ask_at; /* active: not before */
    int64_t heard;  /* messages of the group when its last request was sent */
    int parked;
};

/* Both lists are in order of arrival. While there are members, at least one is active, or on its way to be. */
struct dli_group {
    struct dli_group *next;
    int32_t kind;
    int64_t permits;
    int free;            /* each member asks for itself: all are active */
    int64_t messages;    /* so many have said that something may be free */
    int64_t nothing;     /* as of so many, nothing is left; -1: that is not known */
    int64_t again_at;    /* ask again then, also without a message: a lease ends */
    int64_t due;         /* so many parked members are to become active: dli_waitlist_visit */
    int64_t turn;        /* how long the last turn of this process was */
    int64_t yield_until; /* until then other processes have their turn; 0: now */
    int64_t
        stays; /* the number that was dropped although the process stays in line, and nobody has asked since; or 0 */
    int64_t rest_until; /* until then nobody new asks: a wait has just ended, and more may end */
    struct dli_link active, parked;
    struct dli_link *near; /* in parked, or its head: the one that was put there last */
};

struct dli_waitlist {
    pthread_mutex_t mutex;
    struct dli_group *groups;
    int64_t arrivals;
    int due;                   /* DLI_DUE_*, for dli_waitlist_visit */
    int64_t strangers;         /* waiters that are no members, for want of memory */
    struct dli_spare spare;    /* tokens for turns in this process */
    struct dli_table numbers;  /* FAIR: members by number */
    struct dli_link followers; /* holds that a message about the subscription concerns, by following; subscription.c */
    int64_t follower_count;
};

static inline struct dli_waiting *dli_waiting_of(struct dli_link *link)
{
    return DLI_OBJECT(link, struct dli_waiting, link);
}

/* NULL without memory. Free: no hold of the name is left; NULL does nothing. */
struct dli_waitlist *dli_waitlist_new(void);
void dli_waitlist_free(struct dli_waitlist *list);

/* entry.mutex held: join or leave the waitlist of the name, and ask the server or not, as it says. */
void dli_waitlist_settle(struct dli_entry *entry, int64_t now);

/* entry.mutex held: an exchange is about to be sent. want: the grant number that it wants, or 0. */
void dli_waitlist_sent(struct dli_entry *entry, int64_t want);

/* entry.mutex held: the same as settle behind an answer, which the machine has already. */
void dli_waitlist_answered(struct dli_entry *entry, const struct dli_answer *answer, int64_t now);

/* entry.mutex held: a grant has come: keep the tokens that it has reserved for turns. */
void dli_waitlist_keep_tokens(const struct dli_entry *entry);

/* So many more parked waiters of the group are to ask, and all is DLI_DUE_*: dli_waitlist_visit does it. */
void dli_waitlist_due(struct dli_waitlist *list, struct dli_group *group, int count, int all);

/*
 * Do all that is due, also what becomes due meanwhile: a visit may end a wait, and then the next waiter is to ask. The caller
 * holds no mutex, and has a ref of the parent.
 */
void dli_waitlist_visit(struct dli_entry *parent);

/*
 * A message says that something may be free: the holds that stand for all waiters of the name probe, or let others go first. The
 * caller holds no mutex.
 */
void dli_waitlist_recheck(struct dli_entry *parent);

/* waitlist.mutex held: the group of those that wait for the same as entry. NULL: there is none yet. */
struct dli_group *dli_group_of(const struct dli_waitlist *list, const struct dli_entry *entry);

/* ---- pass.c */

/* An empty table for members by number. */
void dli_waitlist_numbers(struct dli_table *table);

/*
 * waitlist.mutex held: FAIR: the member waits with this grant number; 0: with none. Without memory it is not found by it: it
 * gets its grants from the server only.
 */
void dli_waitlist_number(struct dli_waitlist *list, struct dli_waiting *member, int64_t want);

/* The same: the hold that waits with this grant number, or NULL. */
struct dli_entry *dli_waitlist_numbered(const struct dli_waitlist *list, int64_t number);

/*
 * FAIR: the waiters that come next in the line on the server, all of this process. The grant may serve them in this order.
 * The release names those that it has served: until then they stand in line.
 */
struct dli_turns {
    int64_t number; /* of the grant */
    int served;     /* so many of next */
    struct dli_next next;
};

/* entry.mutex held: entry got its grant with these. Without memory the grant serves only its owner. */
void dli_turns_begin(struct dli_entry *entry, const struct dli_next *next);

/* entry.mutex held: the exchange drops a grant: name those that it has served. */
void dli_turns_tell(const struct dli_entry *entry, struct dli_exchange *exchange);

/* entry.mutex held: forget the turns of a grant that is over. */
void dli_turns_settle(struct dli_entry *entry);

/* entry.mutex held: the answer to the release that a turn ended with says for how long the waiters hold back. */
void dli_turn_ended(struct dli_entry *entry, const struct dli_answer *answer, int64_t now);

/*
 * entry.mutex held: dli_mutex_release. The grant of a hold goes to the next waiter of its group instead, if it may: then
 * DLOCK_OK. That waiter's entry is entry.heir, with its mutex held.
 */
dlock_status dli_hold_release(struct dli_entry *entry, int64_t owner, int64_t now, int64_t until, int may_send,
                              struct dli_claim **settled);

#endif
