/*
 * sim.h: a deterministic simulation of a few processes with libdlock's engine, a few Redisson clients and one Redis, in
 * one thread and virtual time. The same seed gives the same run, byte for byte.
 *
 *   sim_main.c    command line, jobs, summary        sim_plan.c     what a seed chooses
 *   sim_run.c     the loop of one run, its end       sim_heap.c     events in order of time
 *   sim_net.c     requests, replies and their faults sim_chaos.c    faults that strike at random times
 *   sim_server.c  runs requests on the model         sim_subscriptions.c     subscriptions and messages
 *   sim_driver.c  stands in for the watchdog             sim_owner.c    callers of the library
 *   sim_forget.c  a server that loses all of its memory
 *   sim_transfer.c  longer leases, grants that move to another process
 *   sim_kinds.c, sim_kinds_check.c  worlds of other kinds than the mutex; sim_turns.c: turns of a fair lock in memory
 *   sim_redisson.c  foreign clients                  sim_check.c, sim_claims.c  the invariants
 *   sim_store.c, sim_commands.c, sim_zset.c, sim_script.c  the model of Redis; sim_replay.c compares it with a real one
 *
 * Times are microseconds of true time, which nobody in the simulated world can see. Clients and server have clocks of
 * their own that run a little wrong.
 */
#ifndef SIM_H
#define SIM_H

#include <stdint.h>
#include <stdio.h>

#include "engine/mutex.h"
#include "engine/spare.h"
#include "sim_script.h"

enum {
    SIM_PROCS = 6,
    SIM_FOREIGN = 2,
    SIM_PEERS = SIM_PROCS + SIM_FOREIGN,
    SIM_LOCKS = 4,
    SIM_SIDES = 3, /* machines of owners, in worlds where each owner has one */
    SIM_OWNERS = 4,
    SIM_SUBSCRIBERS = 256,
    SIM_BLOCKS = 4096,
    SIM_PENDING = 1024,
    SIM_LEASES = 3,
    SIM_MS = 1000,
    SIM_SECOND = 1000000
};

#define SIM_FAULTS(X)                                                                                                  \
    X(DELAY, "delay")                                                                                                  \
    X(REQUEST_LOST, "request-lost")                                                                                    \
    X(REPLY_LOST, "reply-lost")                                                                                        \
    X(NOT_SENT, "not-sent")                                                                                            \
    X(CONN_DROP, "conn-drop")                                                                                          \
    X(LATE, "late-request")                                                                                            \
    X(DUPLICATE, "duplicate")                                                                                          \
    X(PUSH_DELAY, "push-delay")                                                                                        \
    X(PUSH_LOST, "push-lost")                                                                                          \
    X(PUSH_FIRST, "push-before-reply")                                                                                 \
    X(SUB_DROP, "sub-drop")                                                                                            \
    X(SUB_SILENT, "sub-silent")                                                                                        \
    X(SUB_LATE, "sub-gone-late")                                                                                       \
    X(PAUSE, "pause")                                                                                                  \
    X(PAUSE_REPLY, "pause-at-reply")                                                                                   \
    X(PAUSE_HOLD, "pause-in-hold")                                                                                     \
    X(CRASH, "crash")                                                                                                  \
    X(CLOSE, "close")                                                                                                  \
    X(STALL, "server-stall")                                                                                           \
    X(OOM, "oom")                                                                                                      \
    X(LOADING, "loading")                                                                                              \
    X(BUSY, "busy")                                                                                                    \
    X(NOSCRIPT, "noscript")                                                                                            \
    X(FORCE, "force")                                                                                                  \
    X(TIMER_LATE, "timer-late")                                                                                        \
    X(CLOCK, "clock-rate")                                                                                             \
    X(FORGET, "counter-lost")                                                                                          \
    X(FLUSH, "memory-lost")                                                                                            \
    X(RESTART, "restart")

#define SIM_FAULT_NAME(id, name) SIM_##id,
enum sim_fault { SIM_FAULTS(SIM_FAULT_NAME) SIM_FAULT_COUNT };
#undef SIM_FAULT_NAME

/* The kind of lock in this world: --world. */
enum sim_world { SIM_MUTEX, SIM_FAIR, SIM_RW, SIM_SEMAPHORE, SIM_PERMIT, SIM_TURNS, SIM_WORLDS };

/* The choices of a seed, sim_plan.c. */
struct sim_plan {
    int64_t total; /* permits of the semaphore; 0: none */
    int calm;      /* no faults at all */
    int liveness;  /* work goes on after the faults have ended */
    int procs, foreign, locks, owners;
    int64_t chance[SIM_FAULT_COUNT]; /* of a million */
    int64_t faults_end, work_end, end;
    int64_t delay; /* maximum, one way */
    int64_t late;  /* how late a timer may fire */
    int64_t lease[SIM_LEASES], lease_max;
    int renew;      /* per cent of claims that are renewed */
    int cancel;     /* per cent of claims that are cancelled */
    int operations; /* per cent of a holder's steps that extend or move its grant */
    int64_t hold, think;
    int64_t grace; /* as in common.lua */
    int64_t linger;
    int fenced; /* foreign clients use Redisson's fenced lock */
    struct dli_mutex_rules rules;
};

struct sim_stats {
    int64_t seeds, events, scripts, claims, wire_grants, pushed_grants, handovers, losses, renewals, foreign_grants,
        writes, refused_writes, undone, extended, adopted, lingered, reclaimed;
    int64_t fired[SIM_FAULT_COUNT];
    uint64_t hash;
};

/* An event; sim_run.c says what who, what and number mean for each kind. */
enum sim_kind {
    SIM_ARRIVE, /* a request at the server */
    SIM_SUB_ARRIVE,
    SIM_SUB_GONE,
    SIM_CHAOS,
    SIM_CALM,
    SIM_STOP_WORK,
    SIM_CLIENT_SIDE, /* kinds from here on are deferred while their process is paused */
    SIM_REPLY = SIM_CLIENT_SIDE,
    SIM_TIMEOUT,
    SIM_FAIL,
    SIM_ALARM,
    SIM_PUSH,
    SIM_SUB_CONFIRM,
    SIM_SUB_NOTICED,
    SIM_SUB_RETRY,
    SIM_OWNER,
    SIM_GRANT_ARRIVES,
    SIM_FOREIGN_STEP
};

struct sim_event {
    int64_t at;
    uint64_t order;
    enum sim_kind kind;
    int who;      /* index of the peer, -1: none */
    int deferred; /* waited for a paused process or a stalled server */
    int64_t number;
    void *what;
};

struct sim_heap {
    struct sim_event *events;
    int count, room;
    uint64_t order;
};

/* A connection for commands. */
struct sim_conn {
    int64_t generation;
    int64_t down_until;
    int64_t up_at, down_at; /* last arrival each way: first in, first out */
};

enum sim_request_kind {
    SIM_EXCHANGE,
    SIM_RENEW,
    SIM_FORCED,
    SIM_RECLAIM, /* from outside of the processes: a reclaim of silent holders' permits */
    SIM_RED_ACQUIRE,
    SIM_RED_RENEW,
    SIM_RED_RELEASE
};

/* The purpose of a renewal that the watchdog did not send. */
enum sim_operation { SIM_OPERATION_NONE, SIM_OPERATION_EXTEND, SIM_OPERATION_EXPORT, SIM_OPERATION_ADOPT };

struct sim_request {
    enum sim_request_kind kind;
    enum sim_operation operation;
    void *moving;  /* EXPORT, ADOPT: the grant, and its giver */
    int64_t offer; /* the same: stands for the secret */
    int from_peer;
    int64_t from_number;
    int peer, lock, conn;
    int64_t generation;
    int full;  /* EVAL, not EVALSHA */
    int twice; /* the transport sent it twice */
    int done;  /* nobody waits for the answer any more */
    int copy;  /* a duplicate, or late: nobody gets the answer */
    int64_t stamp, attempt;
    int64_t ran_at; /* true time */
    struct dli_wish wish;
    struct dli_next served; /* TURNS: those that the release names */
    int stays;              /* the process stays in line */
    int rows;               /* RENEW */
    struct {
        int lock;
        int64_t number, lease, first;
    } row[SIM_LOCKS];
    int64_t number, lease; /* foreign: thread id and lease */
    int64_t token;         /* EXTEND: of the holder that requested it */
    dlock_status status;
    int sent;
    struct sim_result result;
};

/* A subscriber connection in the view of the server and the network. */
struct sim_subscriber {
    int peer;
    int connected; /* the server counts it */
    int silent;    /* no data gets through any more */
    int own;       /* subscribed to the channel of its process */
    int redisson;  /* bits: subscribed to Redisson's channel of these locks */
    int64_t up_at, down_at;
};

struct sim_push {
    struct sim_subscriber *subscriber;
    int lock; /* of Redisson's channel, -1: the channel of the process */
    char text[128];
};

/* The state of a grant number of one process. */
struct sim_number {
    int lock;
    int64_t first, last; /* its tokens, 0: never granted */
    int released;        /* a release of it was answered */
    int buried;          /* and the server remembers that */
    int exported;        /* it was given away, and the server remembers that */
    int forced;          /* taken away, by force or as the server lost its memory */
    int64_t gone_since;  /* since then its process believes in it, and the server does not have it; 0: it has it */
    int64_t place;       /* in the line of the fair lock */
    int64_t placed;      /* as of this round */
    int64_t excused;     /* until then the server may have it although nobody believes in it */
    int64_t wanted_at;   /* the last request that wants it ran then */
    int left;            /* TURNS: a release said that it has had its turn */
    int64_t had_at;      /* TURNS: it has had its turn then; 0: it has not */
    int64_t follows[SIM_SIDES]; /* TURNS: when it was granted, these of its process came next in line */
};

struct sim_claim {
    struct dli_claim c;
    struct dli_limits limits;
    int peer, lock, owner;
    int64_t asked_at, granted_at;
    int64_t number, token;
    int granted, released, lost_reports, let_go, adopted;
    struct sim_claim *next; /* of those granted in this run */
};

enum sim_owner_state { SIM_IDLE, SIM_ASKING, SIM_HOLDING, SIM_LEAVING };

struct sim_owner {
    int peer, index;
    enum sim_owner_state state;
    int64_t version;
    int lock;
    struct sim_claim *claim;
    int levels;
    int64_t hold_until; /* true time */
    int cancels;        /* it gives up before the end of its wait */
    int blind;          /* its check was done when its process was paused */
    int same_lock;      /* it did not release the lost lock: requests the same one again */
};

/* One lock in one process. */
struct sim_side {
    struct dli_mutex m;
    struct sim_request *exchange;
    int64_t alarm_version;
    int64_t due;    /* grant number whose renewal is due */
    int idle_turns; /* alarms in a row that changed nothing */
    int subscribed; /* subscribed to Redisson's channel */
    int giver;      /* whose grant is being adopted, or given back */
    int64_t given;  /* its number there */

    /* TURNS, as in src/client: the last number wanted; the grant's number, and whom it may serve. */
    int64_t wanted, turns;
    int served;
    struct dli_next next;
};

enum sim_red_state {
    SIM_RED_IDLE,
    SIM_RED_TRYING,
    SIM_RED_SUBSCRIBING,
    SIM_RED_WAITING,
    SIM_RED_HOLDING,
    SIM_RED_LEAVING
};

struct sim_redisson {
    enum sim_red_state state;
    int64_t version;
    int lock, subscribed, woken, renews;
    int64_t thread, lease;
    int64_t asked_at, hold_until, renew_at, wait_until;
    int believed;
    int64_t valid_until; /* its own clock */
};

struct sim_peer {
    int index, foreign, alive;
    char uuid[40];
    char bytes[10]; /* first digits of its permits' ids */
    int64_t ppm, clock_base;
    int64_t paused_until, wake_reply, wake_timer; /* after a pause its parts resume one by one */
    int64_t disturbed_until;                      /* effects of faults are possible until then */
    struct sim_conn conn[2];
    struct sim_subscriber *subscriber;
    enum dli_line line;
    int64_t numbers, highest;
    struct dli_spare spare; /* tokens for turns in memory */
    struct sim_number *number;
    int64_t number_room;
    struct dli_mutex_rules rules, readers; /* readers: of side 0 of a read-write lock */
    struct sim_side side[SIM_LOCKS];
    struct sim_request *renewal;
    struct sim_owner owner[SIM_OWNERS];
    struct sim_redisson red;
};

/* The owner of a lock on the server. */
struct sim_seen {
    int peer; /* -1: nobody */
    int64_t number, expires, fence;
};

struct sim_lock {
    char name[24], fence[64], line[64], about[64], gate[64], channel[64], once[64], side[64], turns[64];
    struct sim_seen seen; /* after the last script */
    int64_t fence_max;    /* highest token reserved */
    int64_t token_max;    /* highest token believed in */
    int64_t resource;     /* highest token the resource has seen */
    int64_t free_since, unbelieved_since;
    int expired; /* it is free because its key expired */
    int64_t forced_at;
};

struct sim_arena {
    char *block[SIM_BLOCKS];
    int blocks, current;
    size_t used;
};

struct sim {
    uint64_t seed, random;
    struct sim_plan plan;
    struct sim_stats stats;
    int64_t now;
    struct sim_heap heap;
    struct sim_store store;
    struct sim_scripts *scripts;
    struct sim_arena arena;
    struct sim_peer peer[SIM_PEERS];
    struct sim_lock lock[SIM_LOCKS];
    struct sim_subscriber subscriber[SIM_SUBSCRIBERS];
    int subscribers;
    struct sim_request *pending[SIM_PENDING];
    int pendings;
    int loaded[SIM_SCRIPTS_MAX];
    int64_t server_ppm, server_base;
    int64_t stalled_until, error_until, oom_until;
    int64_t ran_at; /* the server's clock when the last script began; 0: it need not move between two */
    int error_kind;
    int64_t server_disturbed;
    int64_t offers;               /* grants that were to be exported */
    int64_t reclaim_at, reclaims; /* next reclaim, and how many there were */
    int64_t cut_at;               /* a client of Redisson's ends the hash of a read-write lock next */
    int64_t calm_from;            /* from then on the rules for calm times hold */
    struct sim_claim *claims;
    int faults_on, working;
    uint64_t hash;
    int verbose;
    int drift_factor, driver_mutant, forgets;
    int64_t forgot_at; /* the server lost its memory last */
    enum sim_world world;
    int64_t places, round; /* places given out in the fair lock's line; scripts run */
    int64_t placed_at;     /* the server's time at the last of these places */
    char failed[400];
};

#include "sim_calls.h"

#endif
