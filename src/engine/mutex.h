/*
 * mutex.h: the re-entrant mutex of one name in one process, as a state machine without I/O, clock or threads.
 *
 * Callers put in requests, answers, messages and the time. They take out what to send (dli_mutex_wish), when to come
 * back (dli_mutex_alarm), which claims are settled (done) and what to report (reports). The caller holds the mutex of
 * the entry that owns the machine. Nothing here locks.
 *
 * A claim is one owner's wish for the lock, inside the process. Waiting claims are served in arrival order.
 *
 *   IDLE -> WAITING ------> HELD ------> LEAVING --> DONE    LEAVING: the release is on the wire
 *              |             | |                      ^
 *              |             | +-> LOST --------------+      LOST: until its owner has seen the loss
 *              +-------------+------------------------+      gave up, failed; HELD: handed over, lingers, exported
 *
 * The wire knows at most two grant numbers: want is acquired or owned, drop is released. A number is minted for each
 * acquisition and never used again after it was dropped. It is always safe to send the same number again, so an
 * unknown outcome is repaired by repeating the exchange.
 *
 *   want:  NONE --mint--> FRESH ---sent---> KNOWN --granted--> OWNED
 *            ^              ^                 |                  |
 *            |              +---not in line---+                  |
 *            +---ended; KNOWN and OWNED become drop first--------+
 *
 *   drop:  0 --want ended, stray grant, adoption in doubt--> number --released, or drop.until is over--> 0
 *
 * At most one exchange is in flight. It names drop, want or both. A holder or a lock that lingers needs OWNED.
 *
 * Times are microseconds of one clock that never steps.
 */
#ifndef DLI_ENGINE_MUTEX_H
#define DLI_ENGINE_MUTEX_H

#include <stdint.h>

#include "store/store.h"
#include "base/list.h"
#include "dlock.h"
#include "active.h"
#include "lease.h"
#include "rules.h"

enum dli_claim_state {
    DLI_CLAIM_IDLE,
    DLI_CLAIM_WAITING,
    DLI_CLAIM_HELD,
    DLI_CLAIM_LEAVING,
    DLI_CLAIM_LOST,
    DLI_CLAIM_DONE
};

enum { DLI_REPORT_AT_RISK = 1, DLI_REPORT_LOST = 2 };

/* What few claims want. */
struct dli_limits {
    int64_t max_hold; /* DLI_NEVER: no limit */
    int64_t min_hold; /* nobody else gets the lock earlier; 0: none */
    int64_t linger;   /* without waiters the process keeps the lock this long after release; 0: not at all */
};

/* Every held lock has one. Before you add a member: does a held lock that nobody waits for need it? */
struct dli_claim {
    struct dli_link link; /* in waiting, lost or done of the machine */
    int64_t owner;
    union {
        int64_t until;      /* WAITING: give up then. LEAVING: stop waiting for the server then */
        int64_t after_hold; /* LOST, DONE: the caller's */
    };
    int64_t lease;                   /* what it requests */
    const struct dli_limits *limits; /* NULL: none */
    union {
        int64_t after; /* WAITING: probes up to this one were sent before it came */
        int64_t token; /* else; 0: it was never granted */
    };
    int64_t held_since;
    dlock_status result; /* settled: how */
    int32_t count;       /* HELD, LOST: levels of re-entry */
    int32_t waiters;     /* LOST, DONE: the caller's */
    int8_t cause;        /* LOST: DLOCK_CAUSE_* */
    int8_t state;        /* enum dli_claim_state */
    int8_t reports;      /* bits of DLI_REPORT_*, to be reported */
    uint8_t renew : 1;
    uint8_t patient : 1; /* it may wait: until lay in the future */
    uint8_t bound : 1;   /* while it waits, its owner makes no other request */
    uint8_t handed : 1;  /* it came from within the process, not from the server */

    /* Last. In reports of the machine; WAITING and not patient: in tries. LOST and reported, or DONE: the caller's */
    struct dli_link report;
};

static inline int64_t dli_claim_linger(const struct dli_claim *claim)
{
    return claim->limits ? claim->limits->linger : 0;
}

/* The process's subscription to the grants that are pushed to it. */
enum dli_line { DLI_LINE_ABSENT, DLI_LINE_READY, DLI_LINE_BROKEN };

/* The order counts: dli_mutex_known compares. */
enum dli_want_state {
    DLI_WANT_NONE,
    DLI_WANT_FRESH, /* minted; the server cannot know it */
    DLI_WANT_KNOWN, /* sent: it may be in line, granted, or unknown to the server */
    DLI_WANT_OWNED  /* granted to this process, until grant.limit */
};

/* The number that is acquired or owned. What it needs until it is owned: struct dli_active. */
struct dli_want {
    int64_t number;        /* 0 in state NONE */
    int64_t longest_lease; /* the longest that was requested, with the server's delay */
    int8_t state;          /* enum dli_want_state */
    int8_t doubt;          /* KNOWN, OWNED: a request that wanted it may still be under way */
};

/*
 * Subscriptions. The flags are not one state: listening outlives follows until the server has ended the subscription.
 * It may also begin without follows, when another entry follows the same channel.
 */
struct dli_line_state {
    uint8_t needed : 1;    /* contended: the process should subscribe to its channel */
    uint8_t listen : 1;    /* a foreign client holds the lock: Redisson's channel is wanted too */
    uint8_t follows : 1;   /* that subscription was requested; the caller's */
    uint8_t listening : 1; /* it is confirmed, until the server says that it has ended; the caller's */
};

/* The grant on the server. */
struct dli_grant {
    int64_t lease;
    int64_t stamp; /* of its last confirmation */
    int64_t limit; /* F: it is valid before */
};

struct dli_tokens {
    int64_t next; /* of the next turn */
    int64_t end;  /* above all tokens so far; a new number's token is not below */
};

/*
 * The turns of the grant in this process. A lock also lingers when there was no memory to drop it: overdue. Nobody gets it
 * then, the drop is tried again, and since is the rest that this drop will have.
 */
struct dli_handover {
    int64_t since;
    int64_t linger_until; /* released, but kept for the next claim until then; 0: the lock does not linger */
};

/*
 * Renewal of the grant. The flags are independent. A grant that is not renewed may need one confirmation. A hold stays
 * at risk while a renewal is in flight.
 */
struct dli_renewing {
    int64_t at;       /* the next renewal; without a lease it shows the server that the holder lives */
    int32_t failures; /* in a row */
    int8_t on;        /* the grant is renewed until released */
    int8_t confirm;   /* one renewal is due: the grant was pushed, or has another lease than the claim */
    int8_t in_flight; /* a renewal of the grant is on the wire */
    int8_t at_risk;   /* reported, and not renewed since */
};

/* What only an active lock needs is in active; the count of its turns and the flags are at the end, where they fit. */
struct dli_mutex {
    const struct dli_mutex_rules *rules;
    struct dli_claim *holder;
    struct dli_active *active;
    struct dli_ring lost;    /* claims whose owner has not seen the loss yet */
    struct dli_ring done;    /* settled claims for the caller to take */
    struct dli_ring reports; /* claims with something to report */

    struct dli_want want;
    int64_t probe_seq; /* of the last exchange that wants something, counted over all numbers */
    struct dli_grant grant;
    struct dli_tokens tokens;
    struct dli_handover handover;
    struct dli_renewing renewing;
    uint64_t noise;  /* jitter */
    int32_t waiters; /* claims that wait */
    int32_t claims;  /* those that wait or are lost */
    int32_t turns;   /* that the grant has served in this process after the first */
    struct dli_line_state line;
    uint8_t forgot : 1; /* the server has named a token below tokens.end, and none above it since */
    uint8_t closed : 1;
    uint8_t parked : 1;    /* waiting claims send nothing, another machine asks for them */
    uint8_t adopting : 1;  /* an adoption is under way: nobody else acquires the lock */
    uint8_t exporting : 1; /* an export of the holder's grant is under way */
    uint8_t overdue : 1;   /* the lock lingers, because there was no memory to drop it */
};

/* Every held lock has one. Before you raise this: does a held lock that nobody waits for need the new member? */
_Static_assert(sizeof(struct dli_mutex) <= 176, "a held lock has a machine");

/* Want may be known to the server. */
static inline int dli_mutex_known(const struct dli_mutex *m)
{
    return m->want.state >= DLI_WANT_KNOWN;
}

/* Want is ours. */
static inline int dli_mutex_owned(const struct dli_mutex *m)
{
    return m->want.state == DLI_WANT_OWNED;
}

/* ---- requests: mutex.c */

void dli_mutex_init(struct dli_mutex *m, const struct dli_mutex_rules *rules, uint64_t seed);

/*
 * The owner acquires the lock through claim. Filled: owner, until, lease, limits, renew, patient, bound; link and report initialised. Returns the claim that stands for the owner: an older one on re-entry (HELD,
 * count raised), a pending one that continues after DLOCK_INTERRUPTED, or claim itself. That is WAITING, or in the
 * done list: HELD when the lock lingered, else DONE; without memory that is DLOCK_OUT_OF_MEMORY.
 */
struct dli_claim *dli_mutex_acquire(struct dli_mutex *m, struct dli_claim *claim, int64_t now);

int dli_mutex_waits(const struct dli_mutex *m); /* patient claims wait for a grant */

/* While on, waiting claims send nothing, but stay subscribed. Then they ask at ask_at; unsubscribed ones, now. */
void dli_mutex_park(struct dli_mutex *m, int on, int64_t ask_at, int64_t now);

/* The claim is not bound any more. */
void dli_mutex_loosen(struct dli_mutex *m, struct dli_claim *claim);

/* Re-entry only: the held claim of owner with its count raised, or NULL. Calls dli_mutex_tick. */
struct dli_claim *dli_mutex_reenter(struct dli_mutex *m, int64_t owner, int64_t now);

/*
 * The owner releases one level. DLOCK_OK: done, in memory; *settled is the claim when it ended. DLOCK_WOULD_BLOCK: the
 * last level needs the server. With may_send the claim is then LEAVING (also in *settled) and will come out in done;
 * without memory it is in done already, and the release is tried again. Without may_send, nothing changed. Also
 * DLOCK_NOT_HELD, DLOCK_LOST (*settled is the claim when it ended).
 */
dlock_status dli_mutex_release(struct dli_mutex *m, int64_t owner, int64_t now, int64_t until, int may_send,
                               struct dli_claim **settled);

/* A claim stops waiting (or waiting for its release) with status. Nothing happens when it is settled already. */
void dli_mutex_give_up(struct dli_mutex *m, struct dli_claim *claim, dlock_status status, int64_t now);

/* Something may have changed: probe at that time. An exchange in flight may not have seen the change. */
void dli_mutex_probe(struct dli_mutex *m, int64_t at);

/*
 * The same because of a message, which anybody may have written: such probes are only so frequent. A hold may be lost: it is
 * renewed.
 */
void dli_mutex_hint(struct dli_mutex *m, int64_t at);

/* The claim of owner in any state but DONE, or NULL. */
struct dli_claim *dli_mutex_find(const struct dli_mutex *m, int64_t owner);

/* DLOCK_STATE_* of owner at now; notices an expired lease. */
int32_t dli_mutex_state(struct dli_mutex *m, int64_t owner, int64_t now);

/* No more requests; waiting claims end with DLOCK_CLOSED, the held one is LOST, what the server knows is dropped. */
void dli_mutex_close(struct dli_mutex *m, int64_t now);

/* Nothing held, wanted, waiting or in flight; losses not seen by their owners do not count. */
int dli_mutex_idle(const struct dli_mutex *m);

/* Settle the losses: their owners will not query any more. */
void dli_mutex_forget_lost(struct dli_mutex *m);

/*
 * Export of what owner holds, first offered to the server with a request that also renews it. may: whether it may begin now:
 * DLOCK_OK; DLOCK_NOT_HELD, DLOCK_LOST, DLOCK_BUSY (held more than once, or being exported). begin: that request is about to
 * be sent. exported: its answer (kept: 1, 0, or -1: it is unknown) for the hold with this number and token. DLOCK_OK: the
 * held claim has left this process, and the machine may acquire again. Otherwise the claim stays what it is:
 * DLOCK_UNREACHABLE (unknown), DLOCK_NOT_HELD (the hold has ended), DLOCK_LOST, DLOCK_BUSY, DLOCK_OUT_OF_MEMORY.
 */
dlock_status dli_mutex_may_export(struct dli_mutex *m, int64_t owner, int64_t now);
void dli_mutex_begin_export(struct dli_mutex *m);
dlock_status dli_mutex_exported(struct dli_mutex *m, int64_t owner, int64_t number, int64_t token, int kept,
                                int64_t lease, int64_t stamp, int64_t now);

/* Whether a token is lower than one that was given out here: the server has forgotten. */
int dli_mutex_falls(const struct dli_mutex *m, int64_t token);

/*
 * An idle machine takes over a grant that a request stamped at stamp confirmed. number was minted for it. Returns 0
 * when that was too long ago, its token falls or the machine is closed. Then nothing is held, and the grant is dropped.
 */
int dli_mutex_may_adopt(const struct dli_mutex *m); /* an adoption that is being undone may be tried again */
int dli_mutex_begin_adopt(struct dli_mutex *m);     /* it may, and begins. 0, or -1 without memory */
int dli_mutex_adopt(struct dli_mutex *m, struct dli_claim *claim, int64_t number, int64_t token, int64_t stamp,
                    int64_t now);

/* The outcome of the adoption by number is unknown: undo it. */
void dli_mutex_disown(struct dli_mutex *m, int64_t number, int64_t lease, int64_t now);

/* ---- the wire: exchange.c */

/* 1 and *wish when an exchange should be sent now; the caller sends it and calls dli_mutex_sent. */
int dli_mutex_wish(struct dli_mutex *m, enum dli_line line, int64_t now, struct dli_wish *wish);

/* The exchange goes out; stamp was read before its first byte. A repeated send calls it again with a new stamp. */
void dli_mutex_sent(struct dli_mutex *m, const struct dli_wish *wish, int64_t stamp);

/* Whether the answer is a grant whose token is not above those before: dli_mutex_answer will have it given back. */
int dli_mutex_refuses(const struct dli_mutex *m, const struct dli_answer *answer);

/* The answer to the exchange in flight. */
void dli_mutex_answer(struct dli_mutex *m, const struct dli_answer *answer, int64_t now);

/* A grant of number was pushed, with tokens tokens from token on. The server knew probe seq when it made it. */
void dli_mutex_pushed(struct dli_mutex *m, int64_t number, int64_t seq, int64_t token, int64_t tokens, int64_t now);

/*
 * The gate is closed until then, or open (0). Waiting claims end at once when it is closed. 0, or -1: there was no memory to
 * note that, and nobody waits.
 */
int dli_mutex_gate(struct dli_mutex *m, int64_t until, int64_t now);

/* ---- renewal and time: renewal.c */

/* The number to renew now, or 0. The caller then calls dli_mutex_renewing and later dli_mutex_renewed. */
int64_t dli_mutex_renewal(const struct dli_mutex *m, int64_t now);

/* How long a renewal lasts on the server: the lease; without one, rules->lives. */
int64_t dli_mutex_period(const struct dli_mutex *m);

void dli_mutex_renewing(struct dli_mutex *m);

/*
 * The answer to a renewal of number with lease, stamped at stamp. kept: 1 or 0; -1: it failed; -2: the server asked to
 * try again.
 */
void dli_mutex_renewed(struct dli_mutex *m, int64_t number, int kept, int64_t lease, int64_t stamp, int64_t now);

/* A request with lease is about to be sent. Whatever the outcome, the undo must last as long. */
void dli_mutex_extending(struct dli_mutex *m, int64_t lease);

/*
 * The answer (kept: 1 or 0) to a renewal of number that the holder with token requested. Its lease is also that of
 * later renewals. 1: that hold goes on with it. 0: it has ended, and a later hold keeps its own lease. Another renewal
 * that is queued or in flight stays marked, so that no third one begins.
 */
int dli_mutex_extended(struct dli_mutex *m, int64_t number, int64_t token, int kept, int64_t lease, int64_t stamp,
                       int64_t now);

/* Act on the time: the limit, max_hold, risk, an undo that is over. */
void dli_mutex_tick(struct dli_mutex *m, int64_t now);

/* When dli_mutex_tick, dli_mutex_wish or dli_mutex_renewal want to be called next; DLI_NEVER for not at all. */
int64_t dli_mutex_alarm(const struct dli_mutex *m);

/* The lock is held: time alone does not end the hold before. DLI_NEVER: it never does. */
int64_t dli_mutex_sure_until(const struct dli_mutex *m);

/* ---- turns within the process: handover.c */

/* The end of min_hold: nobody else gets the lock before. */
int64_t dli_mutex_rests_until(const struct dli_claim *claim);

/* The holder releases: the next waiter gets the lock, or the lock lingers. 0: neither is allowed; send the release. */
int dli_mutex_hand_over(struct dli_mutex *m, int64_t now);
int dli_mutex_linger(struct dli_mutex *m, int64_t now);

/* The lock lingers, and its only waiter has just come. It gets the lock, or the lock goes back to the server. */
void dli_mutex_take_up(struct dli_mutex *m, int64_t now);

/* If the lock lingers, it goes back to the server now. */
void dli_mutex_stop_linger(struct dli_mutex *m, int64_t now);

/*
 * Rules with passes: owner releases its last level, and another machine of the name may get the grant in memory. Whether
 * this one can: its first waiter requests the same lease. Pass: that waiter becomes the holder, with token, which was
 * reserved by this process and is above all that it has used. The holder of from is DONE, and in no list.
 */
int dli_mutex_may_pass(const struct dli_mutex *m, int64_t owner, int64_t now);
int dli_mutex_may_receive(const struct dli_mutex *m, const struct dli_mutex *from, int64_t now);
void dli_mutex_pass(struct dli_mutex *from, struct dli_mutex *to, int64_t token, int64_t now);

/* ---- between the engine's own files */

int dli_mutex_let_go(struct dli_mutex *m, int64_t now); /* the held claim leaves; -1: no memory, nothing changes */
void dli_mutex_begin_waiting(struct dli_mutex *m, struct dli_claim *claim);           /* last in line; active */
void dli_mutex_hold(struct dli_mutex *m, struct dli_claim *claim, int64_t now);       /* the claim becomes the holder */
void dli_mutex_drop(struct dli_mutex *m, int64_t number, int64_t lasts, int64_t now); /* active */
void dli_mutex_settle(struct dli_mutex *m, struct dli_claim *claim, dlock_status result);
void dli_mutex_end_waiting(struct dli_mutex *m, dlock_status status, int impatient_only);
void dli_mutex_end_answered(struct dli_mutex *m, dlock_status status,
                            int impatient_only); /* those for whom the answered exchange has probed */
void dli_mutex_lose(struct dli_mutex *m, int32_t cause, int64_t now);
void dli_mutex_forget_want(struct dli_mutex *m);
void dli_mutex_probe_at(struct dli_mutex *m, int64_t at);                 /* what is sent next, is sent then */
int dli_mutex_start_drop(struct dli_mutex *m, int64_t rest, int64_t now); /* -1: no memory, tried again later */
void dli_mutex_give_back(struct dli_mutex *m, int64_t number,
                         int64_t now);              /* granted, but nobody here wants it any more */
int64_t dli_mutex_place(const struct dli_mutex *m); /* and how long a number that stood there may come to a grant */
int64_t dli_mutex_beat(const struct dli_mutex *m);  /* how long a place in line lasts without another probe */
int64_t dli_mutex_use_until(const struct dli_mutex *m, const struct dli_claim *claim);
void dli_mutex_take_turn(struct dli_mutex *m, int64_t now);
int64_t dli_mutex_mint(struct dli_mutex *m);
void dli_mutex_renew_from(struct dli_mutex *m, int64_t stamp); /* a third of the period later */
int64_t dli_mutex_jitter(struct dli_mutex *m, int64_t range);

#endif
