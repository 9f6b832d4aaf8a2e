/*
 * worlds.h: a deterministic simulation of a few processes with the whole library and one cluster of etcd or
 * ZooKeeper, or with locks in memory, in one thread and virtual time. The same seed gives the same run.
 *
 *   main.c      command line, summary               plan.c       what a seed chooses, and the run
 *   events.c    events in order of time             luck.c       randomness, what is said of a run
 *   chaos.c     faults that strike at random times
 *   system.c    stands in for clock, threads and randomness of the library
 *   wire.c      stands in for its connections: requests and replies that are lost, late, cut
 *   process.c   one process: its client             turns.c      the turns of its thread
 *   owner.c     callers of the library
 *   judge.c     the rules                            latch.c      callers of latches
 *   judge_latch.c   the rules of latches
 *   etcd_data.c, etcd_calls.c, etcd_watch.c, etcd_rest.c, etcd_http.c    a model of etcd: keys and leases, its calls,
 *               watches, gRPC
 *   zookeeper_data.c, zookeeper_rest.c, zookeeper_calls.c, zookeeper_wire.c    a model of ZooKeeper: nodes and sessions, what
 *               operators do, its calls, bytes
 *   memory.c    locks in memory: the engine itself, with its faults on demand; a process is one of its clients
 *
 * The library runs as it is, from its public calls down to the bytes of a connection. The linker replaces what is below: see
 * system.c and wire.c. Times are microseconds of true time, which nobody in the simulated world can see: processes have clocks
 * of their own that run a little wrong.
 */
#ifndef WORLDS_H
#define WORLDS_H

#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"
#include "dlock.h"
#include "net/net.h"

enum {
    W_PROCESSES = 4,
    W_OWNERS = 3,
    W_LOCKS = 2,
    W_MEMBERS = 3,
    W_KEY = 320,
    W_FORCED = 64,
    W_PERMITS = 4, /* of a semaphore, at most */
    W_MS = 1000,
    W_SECOND = 1000000
};

#define W_FAULTS(X)                                                                                                    \
    X(DELAY, "delay")                                                                                                  \
    X(REQUEST_LOST, "request-lost")                                                                                    \
    X(REPLY_LOST, "reply-lost")                                                                                        \
    X(LATE, "late-request")                                                                                            \
    X(CUT, "cut")                                                                                                      \
    X(SILENT, "silent")                                                                                                \
    X(PAUSE, "pause")                                                                                                  \
    X(CRASH, "crash")                                                                                                  \
    X(CLOSE, "close")                                                                                                  \
    X(MEMBER, "member-down")                                                                                           \
    X(LEADER, "leader-change")                                                                                         \
    X(UNSURE, "unsure-answer")                                                                                         \
    X(EXPIRE, "lease-ended")                                                                                           \
    X(DELETE, "key-deleted")                                                                                           \
    X(FORGET, "history-lost")                                                                                          \
    X(CLOCK, "clock-rate")                                                                                             \
    X(LAG, "old-member")                                                                                               \
    X(DENY, "denied")                                                                                                  \
    X(RENEWALS, "renewals-fail")                                                                                       \
    X(JUMP, "clock-jump")                                                                                              \
    X(STOP, "store-paused")                                                                                            \
    X(FULL, "no-space")

#define W_FAULT_NAME(id, name) W_##id,
enum w_fault { W_FAULTS(W_FAULT_NAME) W_FAULT_COUNT };
#undef W_FAULT_NAME

/* Faults that only locks in memory have. */
enum { W_OF_MEMORY = 1U << W_DENY | 1U << W_RENEWALS | 1U << W_JUMP | 1U << W_STOP };

/* Faults of latches alone. */
enum { W_OF_LATCHES = 1U << W_FULL };

/* Faults that need a lease, or a hold that can be taken away. */
enum { W_OF_LEASES = 1U << W_JUMP | 1U << W_DELETE };

struct w_process;
struct w_chunk;

/* A connection. It lives until the end of the run. */
struct w_wire {
    struct w_process *process;
    struct dli_conn *conn; /* NULL: the client has closed it */
    int member;
    int open;               /* the server has it */
    int silent;             /* no bytes get through any more */
    int64_t up_at, down_at; /* last arrival each way: first in, first out */
    struct w_chunk *unread; /* what came while the server stood still, in order */
    struct dli_buffer in;   /* what has come for the client */
    int ended;              /* and then the end */
    void *peer;             /* the server's */
    struct w_wire *next;
};

enum w_state { W_IDLE, W_ASKING, W_HOLDING, W_LEAVING, W_CHANGING };

/* A caller of the library. */
struct w_owner {
    struct w_process *process;
    int64_t number;
    enum w_state state;
    int lock, side;  /* what it asks for, or has */
    int64_t version; /* of its next step */
    int64_t token, asked_at, wait, forced_at;
    int from;           /* of a latch: what it was when it was asked for */
    int told;           /* that it is lost */
    int64_t doubted_at; /* it may not believe in its hold since then, and was not told; 0: that is not so */
};

struct w_process {
    int index;
    dlock_client *client;
    dlock_lock *lock[W_LOCKS][2]; /* by name, and side */
    dlock_event *event;
    struct dli_loop *loop;
    struct dli_store *store; /* since the loop has begun */
    int64_t next;            /* the loop's next turn, by its clock */
    int64_t alarm;           /* version of the alarm */
    int busy, dirty;         /* in a turn; another one is needed */
    int asleep;              /* the loop sleeps, and can be woken */
    int closing, closed, crashed;
    int64_t paused_until, paused_for; /* paused_for: in all */
    int64_t offset, rate;             /* its clock: millionths */
    struct w_owner owner[W_OWNERS];
};

struct w_plan {
    int calm, processes, owners, locks, shared; /* shared: read and write locks */
    int fair;                                   /* fair locks */
    int permits;                                /* of each semaphore; 0: locks, no semaphores */
    int watched;                   /* latches: who waits hears of it by a watch, and does not look now and then */
    int plain;                     /* they have no lease */
    int64_t chance[W_FAULT_COUNT]; /* of a million */
    int64_t lease, delay, hold, think;
    int64_t faults_end, work_end, end;
};

struct w_stats {
    int64_t seeds, events, calls, grants, losses, failures, expired;
    int64_t fired[W_FAULT_COUNT];
    uint64_t hash;
};

/* What a model of a cluster offers. */
struct w_model {
    const char *scheme;
    unsigned without;         /* a bit for each fault that it does not have */
    unsigned without_latches; /* and those that do not strike latches */
    unsigned looked_for;      /* those that are found by a look now and then only */
    int together; /* all processes are one, which has one clock: they wake one another, and there is one address */
    void (*begin)(void);
    void (*end)(void);
    void (*opened)(struct w_wire *wire);                               /* the wire is open */
    void (*came)(struct w_wire *wire, const char *bytes, size_t size); /* bytes have come from the client */
    void (*gone)(struct w_wire *wire);                                 /* it is not open any more */
    void (*elected)(void);                                             /* there is a leader again */
    int (*expire)(void);          /* an operator ends some lease: 0: there was none */
    int (*remove)(void);          /* an operator removes some claim */
    int (*forget)(void);          /* history goes */
    int (*left)(char out[W_KEY]); /* how many claims there are */
    int (*waiting)(void);         /* what it keeps for those who wait for latches; NULL: that cannot be said */
    int64_t (*claim_of)(const struct w_owner *owner); /* the number of its token's claim, as in judge_freed */

    /* Of locks in memory alone; NULL elsewhere. */
    int (*strike)(enum w_fault fault);       /* whether it struck: 1 or 0 */
    void (*heal)(void);                      /* faults end */
    int (*has)(const struct w_owner *owner); /* the server has a claim of its process */
};

struct w_world {
    const struct w_model *model;
    struct w_plan plan;
    struct w_stats stats;
    uint64_t random, hash;
    int64_t now;
    int faults_on, verbose, failed;
    int semaphores; /* this world has those, and no locks */
    int latches;    /* the same */
    int over;       /* the rules do not count any more, and nothing happens */
    char why[400];
    int leader;
    int64_t no_leader_until; /* 0: there is one */
    int64_t member_down_until[W_MEMBERS];
    struct w_process process[W_PROCESSES];
    struct w_process *current;
    struct w_wire *wires;
    int64_t forced[W_FORCED]; /* the last claims that an operator took; a grant of one may still be on its way */
    int forced_count;
    int64_t highest[W_LOCKS][2]; /* tokens of each name, of readers and of writers */
};

extern struct w_world w;

/* ---- events.c */
typedef void w_run(void *what, int64_t number);
void w_at(int64_t at, w_run *run, void *what, int64_t number);
int w_step(int64_t until); /* run the next event, if it is not later. 0: there was none, and it is until */
void w_events_end(void);

/* ---- luck.c */
uint64_t w_random(void);
int64_t w_below(int64_t limit);
int64_t w_between(int64_t low, int64_t high);
int w_percent(int percent);
int w_fault(enum w_fault fault);
void w_fired(enum w_fault fault);
void w_mix(int64_t value);
void w_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void w_violated(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- plan.c: 0, or -1: a rule was violated */
int w_run_seed(uint64_t seed);
int w_sides(void); /* of each name: readers and writers, or those who ask for one permit and for more */
int w_permits_of(int side);
int w_without(enum w_fault fault);

/* ---- system.c */
int64_t w_clock(const struct w_process *process);
int64_t w_when(const struct w_process *process, int64_t at); /* true time of a time of its clock */

/* ---- wire.c. From the server: */
void w_reply(struct w_wire *wire, const void *bytes, size_t size);
void w_hang_up(struct w_wire *wire);
void w_cut(struct w_wire *wire);
int w_serves(int member);
void w_wires_of(int member, void (*each)(struct w_wire *wire)); /* -1: all */
void w_wires_end(void);

/* ---- turns.c */
void w_process_turn(struct w_process *process);
void w_process_wake(struct w_process *process); /* from outside of its turns */
void w_process_alarm(struct w_process *process);
void w_process_pause(struct w_process *process, int64_t time);

/* ---- process.c */
void w_process_begin(struct w_process *process);
void w_process_close(struct w_process *process);
void w_process_crash(struct w_process *process);
void w_process_end(struct w_process *process);

/* Whether it can act now. If it is paused, run comes back when it is not. */
int w_process_acts(const struct w_process *process, w_run *run, void *what, int64_t number);
void w_process_told(struct w_process *process, const int64_t *field); /* what became of its calls of semaphores */
struct w_process *w_process_any(void);                                /* one that lives; NULL after some tries */

/* ---- owner.c */
void w_owner_begin(struct w_owner *owner);
void w_owner_told(struct w_process *process, const int64_t *field);
void w_owner_gone(struct w_owner *owner);
void w_owner_rest(struct w_owner *owner);
void w_owner_later(struct w_owner *owner, int64_t time); /* its next step, at some moment within that time */

/* ---- latch.c */
void w_latch_begin(void);
void w_latch_ask(struct w_owner *owner);
void w_latch_in_vain(int step); /* 0: all are closed, and stay so; 1: all wait for a moment; 2: they are opened again */
void w_latch_told(struct w_process *process, const int64_t *field); /* what became of a call */
void w_latch_waited(struct w_owner *owner, dlock_status status);    /* what became of a wait */

/* ---- chaos.c */
void w_chaos_begin(void);
void w_chaos_end(void);

/* ---- judge.c */
int w_believes(const struct w_owner *owner);
void w_judge_granted(struct w_owner *owner);
void w_judge_freed(int64_t claim, int forced); /* the server does not have this claim any more */
void w_judge_forced(int64_t claim);            /* because an operator took it */
void w_judge_turn(struct w_process *process);
void w_judge_end(void);

/* ---- judge_latch.c */
enum w_what { W_SET, W_DOWN, W_COUNT };

/* A call of a latch. */
struct w_call {
    struct w_process *process;
    struct w_owner *owner; /* NULL: the process itself */
    int lock;
    enum w_what what;
    int64_t amount, number, asked_at;
    int from;  /* what the latch was when it was asked for */
    int acted; /* so often */
    int sure;  /* it was told, and cannot act any more */
};

int w_judge_asked(struct w_call call); /* its number in the table */
struct w_call *w_judge_call(int at);
void w_judge_answered(struct w_call *call, dlock_status status, int64_t value);
int w_judge_history(int lock); /* the place of what the latch is now */
int64_t w_judge_count(int lock);
void w_judge_waited(const struct w_owner *owner, dlock_status status);
void w_judge_waits(const struct w_owner *owner);
void w_judge_rest(void); /* nobody waits */

/* On the server: what a latch is now, and whose call that was. by NULL: an operator; number 0: not known. */
void w_judge_counted(const struct w_process *by, int lock, int64_t count, int64_t number);
void w_judge_latches_begin(void);
void w_judge_latches_end(void);
int w_latch_of(const char *key, size_t size);           /* of the key of a number, as in lock0/count; -1: it is none */
int64_t w_latch_number(const char *value, size_t size); /* of the last call in the value of such a key */

extern const struct w_model w_etcd, w_memory, w_zookeeper;

#endif
