/*
 * dlock.h: the contract of libdlock, distributed locks on Redis, etcd and ZooKeeper.
 *
 * What is not in this file does not exist. SPDX-License-Identifier: MIT
 *
 * Threads. Any thread may use a client and a lock at any time. Several owners may wait on one lock handle at once.
 * Boxes (dlock_options, dlock_error, dlock_event) and transactions (dlock_txn) belong to one thread at a time.
 *
 * Ownership. Every object comes from a call whose name ends in _new or _open, or from dlock_lock_new_multi. It goes
 * back to the matching _free once no call uses the handle any more. Objects may be freed in any order. _free accepts
 * NULL, never blocks and never uses the network. Text that a box returns lives until the box is filled again or freed;
 * other returned text is constant. Neither side frees what belongs to the other.
 *
 * Outputs. Parameters named ret_... are written only when the call returns DLOCK_OK, unless its comment says more.
 * They may be NULL, except those that receive a handle or the size of an exported grant. reterr is an error box made
 * by the caller, or NULL. It is written only when the call does not return DLOCK_OK.
 *
 * Statuses. A comment names the statuses that are special to its call. Any call may return DLOCK_INVALID_ARGUMENT,
 * DLOCK_CLOSED, DLOCK_FORKED, DLOCK_OUT_OF_MEMORY and DLOCK_SYSTEM_ERROR. A call that talks to the server may also
 * return DLOCK_UNREACHABLE, DLOCK_DENIED, DLOCK_TLS_FAILED, DLOCK_WRONG_SETUP, DLOCK_INVALID_QUORUM,
 * DLOCK_PROTOCOL_ERROR and DLOCK_SERVER_*. A kind of lock, or a server, that lacks a call answers DLOCK_UNSUPPORTED.
 *
 * Time. Durations are milliseconds, in parameters whose names end in _ms. For a wait, -1 means no limit and 0 means do
 * not wait. Where another meaning holds, the comment of the call says so. A call about a multi-lock may block for that
 * long once for each member.
 *
 * Owners. A lock is held by an owner, a number that the caller chooses. 0 stands for the calling thread; tasks,
 * goroutines and coroutines pass a positive number of their own. Negative numbers are refused. An owner that holds a
 * lock may acquire it again (re-entry) and must release it as often. Two handles of one client on one name are one
 * lock.
 *
 * Tokens. Every grant but that of a latch carries a fencing token. It is positive, below 2^53, and the same across
 * re-entry and renewal. The token of a mutex, a fair lock, a read or a write lock is higher than all before it of the
 * same name. Tokens of a semaphore are unique. A resource that stores the highest token it has seen and refuses lower
 * ones is safe even from a holder that was paused and does not know yet that it lost the lock. When a server gives a
 * lower token than this client has had before, the server has lost its memory, and its clock was set back. The grant
 * is then given back, with DLOCK_SERVER_FORGOT.
 *
 * Fork. A client that was not used yet works in the child as a client of its own. A client that was used answers every
 * call in the child with DLOCK_FORKED; freeing it there only releases memory. The parent is never affected.
 *
 * Cancellation of threads. pthread_cancel ends a thread behind a call, not inside of it. dlock_lock_cancel ends a wait.
 *
 * Submitted calls. Every call that talks to the server has a form with _submit_ in its name. It does not wait for the
 * server, because the client's thread does the work. There is one exception: while the client is otherwise idle, the
 * call may send the request itself and wait for the answer, for up to twice busy_poll_us (0.2 ms unless set; 0 turns
 * it off). Then the event is there when the call returns. Checks that need no server are made at once, with the
 * statuses of the blocking call. After DLOCK_OK exactly one event with tag, a number of the caller's choice, follows
 * in the event queue of the client. After any other answer none follows. dlock_lock_submit_acquire and
 * dlock_lock_submit_release have event types of their own; all others end with DLOCK_EVENT_DONE. Handles may be freed
 * before the event comes. Submitted calls may overtake one another. dlock_client_submit_close has no tag: when the
 * close is over, dlock_client_next returns DLOCK_CLOSED.
 *
 * Fields of these events. DLOCK_FIELD_STATUS is what the blocking call would have returned, or DLOCK_CLOSED when the
 * client was closed before; the text is the message of its error box. DLOCK_FIELD_LOCK_ID is the handle's id, -1
 * without one. DLOCK_FIELD_OWNER is the owner, -1 without one; for owner 0 it is a negative number that stands for the
 * thread. When the status is DLOCK_OK, DLOCK_FIELD_VALUE has numbers and DLOCK_FIELD_TOKEN has tokens; an inspection
 * fills its own fields, with the holder's id as the text.
 *
 * Begun calls. dlock_lock_begin_acquire and dlock_lock_begin_release are submitted calls that return their answer if
 * it is there at once. A begun call gives its answer exactly once: as its return value, or, after DLOCK_WOULD_BLOCK,
 * as an event. If one thread begins calls and reads events, such as the thread of an event loop, then every 16th
 * answer comes as an event all the same, so that other work of the loop has its turn.
 *
 * Host. The library never writes to stdout or stderr, never raises SIGPIPE, and installs no handlers. It starts no
 * thread before first use. Its threads block all signals.
 */
#ifndef DLOCK_H
#define DLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DLOCK_API
#define DLOCK_API
#endif

/*
 * The answer of a call. 0: done. Positive: an expected outcome. Negative: a failure. Numbers are never reused. A newer
 * library may return numbers that are not listed here.
 */
typedef int32_t dlock_status;

enum {
    DLOCK_OK = 0,

    DLOCK_BUSY = 1,
    DLOCK_TIMED_OUT = 2,
    DLOCK_CANCELLED = 3,
    DLOCK_INTERRUPTED = 4,
    DLOCK_WOULD_BLOCK = 5,
    DLOCK_NO_EVENT = 6,
    DLOCK_GATE_CLOSED = 7,
    DLOCK_CONFLICT = 8,
    DLOCK_NOT_FOUND = 9,
    DLOCK_UNCHANGED = 10,

    DLOCK_INVALID_ARGUMENT = -100,
    DLOCK_INVALID_NAME = -101,
    DLOCK_UNKNOWN_OPTION = -102,
    DLOCK_INVALID_OPTION = -103,
    DLOCK_INVALID_URL = -104,
    DLOCK_UNSUPPORTED = -105,
    DLOCK_OUT_OF_MEMORY = -106,
    DLOCK_CLOSED = -107,
    DLOCK_FORKED = -108,
    DLOCK_BUFFER_TOO_SMALL = -109,
    DLOCK_SYSTEM_ERROR = -110,
    DLOCK_DUPLICATE_NAME = -111,
    DLOCK_INVALID_QUORUM = -112,

    DLOCK_NOT_HELD = -200,
    DLOCK_LOST = -201,
    DLOCK_WRONG_KIND = -202,
    DLOCK_UNKNOWN_OUTCOME = -203,
    DLOCK_INVALID_GRANT = -204,
    DLOCK_UPGRADE_REFUSED = -205,
    DLOCK_NO_TRANSACTION = -207,

    DLOCK_UNREACHABLE = -300,
    DLOCK_DENIED = -301,
    DLOCK_SERVER_LOADING = -302,
    DLOCK_SERVER_BUSY = -303,
    DLOCK_SERVER_OUT_OF_MEMORY = -304,
    DLOCK_SERVER_READ_ONLY = -305,
    DLOCK_PROTOCOL_ERROR = -306,
    DLOCK_SERVER_ERROR = -307,
    DLOCK_TLS_FAILED = -310,
    DLOCK_WRONG_SETUP = -311,
    DLOCK_QUARANTINED = -312,
    DLOCK_LEASE_REFUSED = -313,
    DLOCK_NOT_REPLICATED = -314,
    DLOCK_SERVER_FORGOT = -315,
    DLOCK_UNFIT = -316
};

/*
 * Kinds of locks, for dlock_lock_new. A name belongs to one kind. READ and WRITE are the two sides of one lock. MUTEX
 * and FAIR exclude each other on one name, but do not wake each other.
 */
enum {
    DLOCK_KIND_MUTEX = 1,
    DLOCK_KIND_FAIR = 2,
    DLOCK_KIND_READ = 3,
    DLOCK_KIND_WRITE = 4,
    DLOCK_KIND_SEMAPHORE = 5,
    DLOCK_KIND_PERMIT_SEMAPHORE = 6,
    DLOCK_KIND_LATCH = 7,
    DLOCK_KIND_MULTI = 8
};

/* What an owner has of a lock, see dlock_lock_state. AT_RISK: held, but renewal fails. */
enum {
    DLOCK_STATE_NONE = 0,
    DLOCK_STATE_WAITING = 1,
    DLOCK_STATE_HELD = 2,
    DLOCK_STATE_AT_RISK = 3,
    DLOCK_STATE_LOST = 4
};

/* Why a grant was lost, in DLOCK_EVENT_LOST. */
enum {
    DLOCK_CAUSE_NONE = 0,
    DLOCK_CAUSE_EXPIRED = 1,
    DLOCK_CAUSE_TAKEN = 2,
    DLOCK_CAUSE_MAX_HOLD = 3,
    DLOCK_CAUSE_CLOSED = 4
};

/* Event types, see dlock_event_type. */
enum {
    DLOCK_EVENT_NONE = 0,
    DLOCK_EVENT_ACQUIRED = 1,
    DLOCK_EVENT_ACQUIRE_FAILED = 2,
    DLOCK_EVENT_RELEASED = 3,
    DLOCK_EVENT_RELEASE_FAILED = 4,
    DLOCK_EVENT_AT_RISK = 5,
    DLOCK_EVENT_LOST = 6,
    DLOCK_EVENT_LOG = 7,
    DLOCK_EVENT_INSPECTION = 8,
    DLOCK_EVENT_DONE = 9,
    DLOCK_EVENT_FINDING = 10
};

/* What dlock_client_check may find. */
enum {
    DLOCK_FINDING_EVICTION = 1,
    DLOCK_FINDING_PERSISTENCE = 2,
    DLOCK_FINDING_PERSISTENCE_FAILS = 3,
    DLOCK_FINDING_VERSION = 4,
    DLOCK_FINDING_READ_ONLY = 5,
    DLOCK_FINDING_REPLICAS = 6,
    DLOCK_FINDING_CLOCK = 7,
    DLOCK_FINDING_COMMAND_MISSING = 8,
    DLOCK_FINDING_COMMAND_DENIED = 9,
    DLOCK_FINDING_WRITE_REFUSED = 10,
    DLOCK_FINDING_NO_ANSWER = 11,
    DLOCK_FINDING_NO_LEADER = 12,
    DLOCK_FINDING_ALARM = 13,
    DLOCK_FINDING_OPEN = 14,
    DLOCK_FINDING_FAULTY_VERSION = 15,
    DLOCK_FINDING_OLD_VERSION = 16
};

/* How bad a finding is. WARNING: less is guaranteed than could be. DANGER: locks fail, or the server may lose them. */
enum { DLOCK_SEVERITY_WARNING = 1, DLOCK_SEVERITY_DANGER = 2 };

/* Places in the array that dlock_event_unpack fills. Times are milliseconds. -1 means unknown or not applicable. */
enum {
    DLOCK_FIELD_TYPE = 0,
    DLOCK_FIELD_STATUS = 1,
    DLOCK_FIELD_TAG = 2,
    DLOCK_FIELD_LOCK_ID = 3,
    DLOCK_FIELD_OWNER = 4,
    DLOCK_FIELD_TOKEN = 5,
    DLOCK_FIELD_REMAINING_MS = 6,
    DLOCK_FIELD_CAUSE = 7,
    DLOCK_FIELD_HELD_FOR_MS = 8,
    DLOCK_FIELD_WAITERS = 9,
    DLOCK_FIELD_FOREIGN = 10,
    DLOCK_FIELD_VALUE = 11,
    DLOCK_FIELD_COUNT = 12
};

/* Places in the array that dlock_client_stats fills. All but the last three only grow. */
enum {
    DLOCK_STAT_ACQUIRED = 0,
    DLOCK_STAT_WIRE_GRANTS = 1,
    DLOCK_STAT_PUSHED_GRANTS = 2,
    DLOCK_STAT_HANDOVERS = 3,
    DLOCK_STAT_RELEASED = 4,
    DLOCK_STAT_LOST = 5,
    DLOCK_STAT_RENEWED = 6,
    DLOCK_STAT_RENEWALS_LATE = 7,
    DLOCK_STAT_RENEWAL_SCRIPTS = 8,
    DLOCK_STAT_UNDONE = 9,
    DLOCK_STAT_COMMANDS = 10,
    DLOCK_STAT_CONNECTS = 11,
    DLOCK_STAT_CONNECT_FAILURES = 12,
    DLOCK_STAT_SCRIPT_RELOADS = 13,
    DLOCK_STAT_EVENTS_DROPPED = 14,
    DLOCK_STAT_HELD = 15,
    DLOCK_STAT_WAITING = 16,
    DLOCK_STAT_LOCKS = 17,
    DLOCK_STAT_COUNT = 18
};

/* The six opaque types. */
typedef struct dlock_options dlock_options;
typedef struct dlock_client dlock_client;
typedef struct dlock_lock dlock_lock;
typedef struct dlock_event dlock_event;
typedef struct dlock_error dlock_error;
typedef struct dlock_txn dlock_txn;

/* ---- library ---------------------------------------------------------------------------------------------------- */

/*
 * The version of the loaded library: major * 65536 + minor * 256 + patch.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
uint32_t dlock_version(void);

/*
 * The version of the loaded library as text, for example "0.1.0".
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_version_string(void);

/*
 * 1 if this build has the named feature, 0 if not or if the name is unknown. Features: "mutex", "fair", "read", "write",
 * "semaphore", "permit_semaphore", "latch", "gate", "transaction", "fencing", "watchdog", "handover", "redisson", "tcp",
 * "unix", "tls", "sentinel", "cluster", "quorum", "etcd", "zookeeper", "memory".
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
int32_t dlock_supports(const char *feature);

/* ---- status table ----------------------------------------------------------------------------------------------- */

/*
 * The number of statuses this library can return.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
size_t dlock_status_count(void);

/*
 * The status at place index of the table, counted from 0; DLOCK_INVALID_ARGUMENT past its end.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_status_at(size_t index);

/*
 * The name of a status, for example "TIMED_OUT"; "UNKNOWN" for a number that is not in the table.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_status_name(dlock_status status);

/*
 * One sentence about what a status means.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_status_text(dlock_status status);

/*
 * 1 if the same call may succeed later without a change by the caller, else 0. Works for the status of a call and of
 * an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
int32_t dlock_status_retryable(dlock_status status);

/* ---- error box -------------------------------------------------------------------------------------------------- */

/*
 * A new, empty error box; NULL without memory. Its text buffer is inside the box, so filling it cannot fail.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_error *dlock_error_new(void);

/*
 * Free an error box. NULL is fine.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
void dlock_error_free(dlock_error *error);

/*
 * The status of the call that last filled the box; DLOCK_OK for a new box or NULL.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_error_code(const dlock_error *error);

/*
 * One sentence that names the lock and the server; "" for a new box or NULL. It never holds a credential.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_error_message(const dlock_error *error);

/*
 * dlock_status_retryable of the status in the box; 0 for a new box or NULL.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
int32_t dlock_error_retryable(const dlock_error *error);

/* ---- options ---------------------------------------------------------------------------------------------------- */

/*
 * A new set of options, all at their defaults; NULL without memory. A call that takes a set copies what it needs.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_options *dlock_options_new(void);

/*
 * Free a set of options; secrets in it are wiped. NULL is fine.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
void dlock_options_free(dlock_options *options);

/*
 * Set one option from text. After an error the set is unchanged.
 * Errors: DLOCK_UNKNOWN_OPTION, DLOCK_INVALID_OPTION (the message says what is accepted), DLOCK_OUT_OF_MEMORY.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_options_set(dlock_options *options, const char *name, const char *value, dlock_error *reterr);

/*
 * Copy the value of one option as text, with a terminator, into buffer. A secret reads "***". *ret_size is the length
 * without the terminator.
 * Errors: DLOCK_UNKNOWN_OPTION, DLOCK_BUFFER_TOO_SMALL when it does not fit into size bytes.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_options_get(const dlock_options *options, const char *name, char *buffer, size_t size,
                               size_t *ret_size, dlock_error *reterr);

/*
 * The number of options.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
size_t dlock_option_count(void);

/*
 * The name of the option at place index, counted from 0; NULL past the end.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_option_name(size_t index);

/*
 * The type and range of the option at place index as text, for example "integer 100..86400000"; NULL past the end.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_option_type(size_t index);

/*
 * The default of the option at place index as text; NULL past the end.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_option_default(size_t index);

/*
 * One sentence about the option at place index; NULL past the end.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_option_help(size_t index);

/* ---- client ----------------------------------------------------------------------------------------------------- */

/*
 * Make a client from a URL. The forms are:
 *
 *   redis://[user[:password]@]host[:port][/db][?option=value&...]        one server, port 6379
 *   redis+unix://[user[:password]@]/path[?db=n&option=value&...]         one server on a unix socket
 *   redis+sentinel://[user[:password]@]host[:port],host.../service[/db]  hosts are sentinels, port 26379
 *   redis+cluster://[user[:password]@]host[:port],host...                some servers of a Redis Cluster
 *   redis+quorum://[user[:password]@]host[:port],host...[/db]            an odd number of independent servers; mutexes
 *   etcd://[user:password@]host[:port],host...                           some members of an etcd cluster, port 2379
 *   zookeeper://[user:password@]host[:port],host...[/chroot]             some members of a ZooKeeper ensemble, port 2181
 *   memory:                                                              no server: locks of this client alone
 *   memory://name                                                        the same for all clients of the process with
 *                                                                        this name, until the last one is closed
 *
 * All forms take options. With "rediss" in place of "redis" (not for unix sockets), "etcds" in place of "etcd", or
 * "zookeepers" in place of "zookeeper", all connections use TLS. User and password are those of the servers that keep
 * the locks; sentinels have options of their own. options may be NULL; its values win over those of the URL. Files named
 * by options of TLS are read now, and again after they change.
 *
 * Nothing is connected, and no thread is started. With the option checks, the servers are checked first, as by
 * dlock_client_check. That is the client's first use.
 * Errors: DLOCK_INVALID_URL, DLOCK_UNKNOWN_OPTION, DLOCK_INVALID_OPTION, DLOCK_INVALID_QUORUM (calls that ask for a
 * lock may return it, too), DLOCK_UNSUPPORTED (scheme not in this build), DLOCK_OUT_OF_MEMORY, DLOCK_SYSTEM_ERROR;
 * with checks DLOCK_UNFIT and what dlock_client_check returns.
 * Threads: any. Blocks: never; with checks up to the connect and command timeouts. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_open(const char *url, const dlock_options *options, dlock_client **ret_client,
                               dlock_error *reterr);

/*
 * End the client's work. Waiting calls end with DLOCK_CLOSED, held locks are released on the server, threads stop, and
 * later calls return DLOCK_CLOSED. Closing twice is fine.
 * Errors: DLOCK_TIMED_OUT when the server did not confirm every release within timeout_ms. What is left expires by its
 * lease. Permits of a plain semaphore have no lease: they stay taken until dlock_semaphore_reclaim.
 * Threads: any. Blocks: up to timeout_ms. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_close(dlock_client *client, int64_t timeout_ms, dlock_error *reterr);

/*
 * dlock_client_close without waiting. It is over when dlock_client_next returns DLOCK_CLOSED. When the server does not
 * confirm every release within timeout_ms, a DLOCK_EVENT_LOG with the status DLOCK_TIMED_OUT comes before that.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_submit_close(dlock_client *client, int64_t timeout_ms, dlock_error *reterr);

/*
 * Give the handle back. NULL is fine. Without dlock_client_close before, held locks are abandoned: renewal stops and
 * they expire. Permits of a plain semaphore stay taken until dlock_semaphore_reclaim. Locks of the client stay valid
 * objects and answer DLOCK_CLOSED.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
void dlock_client_free(dlock_client *client);

/*
 * The descriptor for poll or epoll. It is readable while events or a dlock_client_wake are pending, and for ever once
 * dlock_client_next has returned DLOCK_CLOSED: stop polling then. Poll it or dup it; never read or close it.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_fd(dlock_client *client, int32_t *ret_fd, dlock_error *reterr);

/*
 * Move the oldest event into the box.
 * Errors: DLOCK_NO_EVENT after timeout_ms or after dlock_client_wake; DLOCK_INTERRUPTED when a signal was handled
 * meanwhile; DLOCK_CLOSED once the client is closed and its last event is taken.
 * Threads: any, each with its own box. Blocks: up to timeout_ms. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_next(dlock_client *client, int64_t timeout_ms, dlock_event *event, dlock_error *reterr);

/*
 * End one wait in dlock_client_next: the present one, or the next.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_wake(dlock_client *client, dlock_error *reterr);

/*
 * Write up to count counters (DLOCK_STAT_*) to values. *ret_count is the number of counters that the library has.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_stats(dlock_client *client, int64_t *values, size_t count, size_t *ret_count,
                                dlock_error *reterr);

/*
 * Copy the counters and histograms of the client as OpenMetrics text, with a terminator, into buffer. *ret_size is the
 * length without the terminator. Histograms: how long requests waited and locks were held, how late renewals were sent
 * and what was left of the lease then, and how many hand-overs a grant served.
 * Errors: DLOCK_BUFFER_TOO_SMALL: *ret_size is written, and buffer has the beginning. 32 KiB suffice.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_metrics(dlock_client *client, char *buffer, size_t size, size_t *ret_size,
                                  dlock_error *reterr);

/*
 * Ask the server whether it answers. That shows a wrong address or wrong credentials early.
 * Errors: DLOCK_UNREACHABLE, DLOCK_DENIED, DLOCK_SERVER_*.
 * Threads: any. Blocks: up to timeout_ms (-1: the connect and command timeouts). Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_ping(dlock_client *client, int64_t timeout_ms, dlock_error *reterr);

/*
 * As dlock_client_ping, but the result comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_submit_ping(dlock_client *client, int64_t timeout_ms, int64_t tag, dlock_error *reterr);

/*
 * Tell the server that it remembers all of its locks. That ends a quarantine (option quarantine_ms), and makes this
 * client's quarantine_ms the longest lease of all clients. Use it for a new server, when nobody can hold a lock that it
 * has forgotten. Make the longest lease shorter only when no lock with a longer one is held. On a cluster every primary
 * is told for each of its slots; after a failure midway, the slots that were told stay told.
 * Errors: DLOCK_UNSUPPORTED without quarantine_ms, and those of dlock_client_ping.
 * Threads: any. Blocks: up to timeout_ms (-1: the connect and command timeouts, on a cluster 31 command timeouts).
 * Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_provision(dlock_client *client, int64_t timeout_ms, dlock_error *reterr);

/*
 * As dlock_client_provision, but the result comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_submit_provision(dlock_client *client, int64_t timeout_ms, int64_t tag, dlock_error *reterr);

/*
 * List names of locks, some at a time. A name is known to the server while it remembers its token: from its first
 * grant on, until token_ttl_ms after the last. So a listed name may be free; dlock_lock_inspect tells. Names that
 * Redisson alone uses without a fencing token, and latches, are not listed. With the option namespace, only names in it
 * are, without it.
 *
 * cursor is 0 to begin, then the *ret_cursor of the call before; when that is 0, it was the last one. A call asks one
 * server to look at some 100 of its keys, so it may bring no name at all, and a list takes many calls. No call blocks
 * the server for long. buffer gets the names, each with a terminator, *ret_size bytes together. A name may come more
 * than once; one that comes or goes meanwhile may be missing. Braces around a whole name are left off.
 * Errors: DLOCK_BUFFER_TOO_SMALL: *ret_size is what is needed; call again with the same cursor. 64 KiB suffice for most
 * calls.
 * Threads: any. Blocks: up to timeout_ms (-1: the connect and command timeouts). Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_list(dlock_client *client, int64_t cursor, int64_t timeout_ms, uint8_t *buffer, size_t size,
                               size_t *ret_size, int64_t *ret_cursor, dlock_error *reterr);

/*
 * As dlock_client_list, but the result comes as an event: DLOCK_FIELD_VALUE is the next cursor, dlock_event_data has
 * the names.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_submit_list(dlock_client *client, int64_t cursor, int64_t timeout_ms, int64_t tag,
                                      dlock_error *reterr);

/*
 * Make something go wrong, for the test of a program that uses locks. Only a store in memory does it (memory: in
 * dlock_client_open). What follows is what a server would cause: the same statuses and events.
 *
 * what is one of these words. name is that of a lock; with name_size 0, none. value is a number of milliseconds. Where
 * value says how long the fault lasts, -1 means until heal or another call, and 0 ends it.
 *
 *   lose      name, value 0   whoever holds the lock loses it now, and is told; it passes on
 *   renewals  or name, value  renewals fail, of all locks or of this one
 *   deny      or name, value  requests are refused with DLOCK_DENIED, for all locks or for this one
 *   cut       value           requests and messages do not get through
 *   pause     value           the store answers nothing; what was asked for meanwhile is answered later, if that is in time
 *   delay     value           each request takes this time; 0 ends it
 *   clock     value           the clock of the store jumps by value, or back: leases end sooner or later
 *   heal      value 0         all faults of all clients end
 *
 * lose, pause, clock and heal are about the store: all clients that share it meet them. The others are about this client
 * alone; with " others" behind the word, as "cut others", they are about the other clients that share the store now. A
 * later library may know more words.
 * Errors: DLOCK_UNSUPPORTED (the store is a real server), DLOCK_INVALID_ARGUMENT (an unknown word, or a name or value that
 * does not fit it), DLOCK_INVALID_NAME, DLOCK_NOT_HELD (lose: nobody holds the lock), DLOCK_NOT_FOUND (there are no
 * others), DLOCK_FORKED, DLOCK_CLOSED, DLOCK_OUT_OF_MEMORY, DLOCK_SYSTEM_ERROR.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_fault(dlock_client *client, const char *what, const char *name, size_t name_size,
                                int64_t value, dlock_error *reterr);

/*
 * Check whether the server is fit to keep locks: eviction, persistence, version, role, replicas, clock, and the rights
 * that a mutex needs, tried on a name of its own. On a cluster every primary and replica is checked, on a quorum every
 * server, on etcd and ZooKeeper every member; findings begin with the server's name there. *ret_count is the number of
 * findings for dlock_client_finding; they stay until the next check. The option checks does the same when a client is
 * opened.
 * Errors: those of dlock_client_ping. With several servers, each one that does not answer is a finding,
 * DLOCK_FINDING_NO_ANSWER; the call fails when none answers, or too few of a quorum.
 * Threads: any. Blocks: up to timeout_ms (-1: the connect and command timeouts). Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_check(dlock_client *client, int64_t timeout_ms, size_t *ret_count, dlock_error *reterr);

/*
 * As dlock_client_check, but the result comes as an event; DLOCK_FIELD_VALUE is the number of findings.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_submit_check(dlock_client *client, int64_t timeout_ms, int64_t tag, dlock_error *reterr);

/*
 * Put the finding at place index of the last check into an event box of the caller: the type is DLOCK_EVENT_FINDING,
 * DLOCK_FIELD_VALUE is DLOCK_FINDING_*, DLOCK_FIELD_CAUSE is DLOCK_SEVERITY_*, and the text is a sentence with advice.
 * Errors: DLOCK_NO_EVENT past the last one.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_finding(dlock_client *client, size_t index, dlock_event *event, dlock_error *reterr);

/*
 * The name of a finding, for example "EVICTION"; "UNKNOWN" for other numbers. The text lives as long as the library.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_finding_name(int32_t finding);

/* ---- lock ------------------------------------------------------------------------------------------------------- */

/*
 * A handle on the lock called name. Nothing is sent. options may be NULL; its values win over those of the client. A
 * name has 1 to 1024 bytes without NUL, including the namespace and its colon. Braces must form a hash tag that Redis
 * and Redisson read alike.
 * Errors: DLOCK_INVALID_NAME, DLOCK_UNSUPPORTED (kind), DLOCK_INVALID_OPTION (also for an option of the client),
 * DLOCK_LEASE_REFUSED.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_new(dlock_client *client, int32_t kind, const char *name, size_t name_size,
                            const dlock_options *options, dlock_lock **ret_lock, dlock_error *reterr);

/*
 * A handle for 1 to 16 locks of client that are acquired and released as one: all or none. Members are mutexes, fair,
 * read or write locks; their handles may be freed afterwards. Members are taken in the order of their names, the same
 * in every process, so two multi-locks never wait for each other. Free mutexes that share a slot are taken in one
 * step. The token is the largest of the members' tokens; their own handles tell theirs. The message of a failure names
 * the member that stood in the way.
 *
 * After DLOCK_INTERRUPTED the members acquired so far are kept: call again to go on, or dlock_lock_cancel to give them
 * back.
 * Errors: DLOCK_DUPLICATE_NAME, DLOCK_INVALID_ARGUMENT.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_new_multi(dlock_client *client, dlock_lock **members, size_t count, dlock_lock **ret_lock,
                                  dlock_error *reterr);

/*
 * Give the handle back. NULL is fine. Release first: a lock that is held through the handle stays held, and is renewed,
 * while the client lives.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
void dlock_lock_free(dlock_lock *lock);

/*
 * The number of the lock in events, unique within the client; 0 for NULL.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
int64_t dlock_lock_id(const dlock_lock *lock);

/*
 * Acquire for owner, waiting up to wait_ms. On DLOCK_OK *ret_token is the fencing token. After any other answer but
 * DLOCK_INTERRUPTED nothing is held; a grant that the server made meanwhile is given back in the background.
 *
 * With the option interruptible the call ends with DLOCK_INTERRUPTED when a signal was handled, and after each second
 * of waiting, because a signal may come before the wait begins. The request keeps its place. Call again, or
 * dlock_lock_submit_acquire, to go on waiting; or cancel it. Without that it ends when wait_ms is over, and a grant that
 * it got goes back.
 * Errors: DLOCK_BUSY (wait_ms is 0), DLOCK_TIMED_OUT, DLOCK_CANCELLED, DLOCK_INTERRUPTED, DLOCK_CLOSED,
 * DLOCK_GATE_CLOSED, DLOCK_UPGRADE_REFUSED (a write lock for an owner that reads), DLOCK_WRONG_KIND,
 * DLOCK_QUARANTINED, DLOCK_LEASE_REFUSED (longer than the quarantine), DLOCK_NOT_REPLICATED, DLOCK_SERVER_FORGOT,
 * DLOCK_LOST (the grant was over before the caller woke up), DLOCK_INVALID_ARGUMENT for an owner that already waits
 * here.
 * Threads: any; an owner that already waits here gets DLOCK_INVALID_ARGUMENT. Blocks: up to wait_ms; one round trip,
 * bounded by the timeouts, when wait_ms is 0. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t *ret_token,
                                dlock_error *reterr);

/*
 * Release one hold of owner. The last release gives the lock to the next waiter. After any answer, owner holds nothing
 * at this level.
 * Errors: DLOCK_NOT_HELD when owner holds nothing, DLOCK_LOST when the grant was lost before, DLOCK_UNKNOWN_OUTCOME
 * when the server did not answer within release_timeout_ms. After DLOCK_UNKNOWN_OUTCOME, DLOCK_DENIED and
 * DLOCK_SERVER_* the release goes on in the background.
 * Threads: any. Blocks: up to release_timeout_ms. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_release(dlock_lock *lock, int64_t owner, dlock_error *reterr);

/*
 * dlock_lock_acquire without the network: for re-entry, and for a lock that lingers (linger_ms).
 * Errors: DLOCK_WOULD_BLOCK when it takes the network; owner then has nothing more than before.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_acquire_local(dlock_lock *lock, int64_t owner, int64_t *ret_token, dlock_error *reterr);

/*
 * dlock_lock_release without the network: for an inner level, and for a hand-over to a waiter in this process.
 * Errors: DLOCK_WOULD_BLOCK when it takes the network; nothing changed then.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_release_local(dlock_lock *lock, int64_t owner, dlock_error *reterr);

/*
 * Ask for the lock. DLOCK_EVENT_ACQUIRED or DLOCK_EVENT_ACQUIRE_FAILED with tag follows in the event queue, exactly
 * once. It also continues a dlock_lock_acquire of owner that ended with DLOCK_INTERRUPTED.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t tag,
                                       dlock_error *reterr);

/*
 * Ask for a release. DLOCK_EVENT_RELEASED or DLOCK_EVENT_RELEASE_FAILED with tag follows, exactly once. A failure that
 * is known at once (DLOCK_NOT_HELD, DLOCK_LOST, ...) is returned, and no event follows.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_release(dlock_lock *lock, int64_t owner, int64_t tag, dlock_error *reterr);

/*
 * Ask for the lock, and return the answer if it is there at once: then no event follows, and *ret_token and the
 * statuses are those of dlock_lock_acquire. For a multi-lock the answer is always an event.
 * Errors: DLOCK_WOULD_BLOCK: the event of dlock_lock_submit_acquire follows.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_begin_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t tag, int64_t *ret_token,
                                      dlock_error *reterr);

/*
 * Ask for a release, and return the answer if it is there at once, with the statuses of dlock_lock_release.
 * Errors: DLOCK_WOULD_BLOCK: the event of dlock_lock_submit_release follows.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_begin_release(dlock_lock *lock, int64_t owner, int64_t tag, dlock_error *reterr);

/*
 * End the wait of owner: it gets DLOCK_CANCELLED. A blocking acquire in the middle of a round trip returns when that
 * ends.
 * Errors: DLOCK_NOT_HELD when owner does not wait; it may just have won.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_cancel(dlock_lock *lock, int64_t owner, dlock_error *reterr);

/*
 * Make the server keep the lock for at least lease_ms from now. Later renewals use the new lease, too.
 * Errors: DLOCK_NOT_HELD, DLOCK_LOST, DLOCK_INVALID_ARGUMENT (range of the option lease_ms; below 500 with renew),
 * DLOCK_LEASE_REFUSED, DLOCK_NOT_REPLICATED, DLOCK_UNSUPPORTED (plain semaphore, latch).
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_extend(dlock_lock *lock, int64_t owner, int64_t lease_ms, dlock_error *reterr);

/*
 * As dlock_lock_extend, but the result comes as an event. A failure that is known at once (DLOCK_NOT_HELD, DLOCK_LOST,
 * ...) is returned, and no event follows.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_extend(dlock_lock *lock, int64_t owner, int64_t lease_ms, int64_t tag,
                                      dlock_error *reterr);

/*
 * Take the lock away from its holder, in any process, and wake the next waiter. The holder is not told. It gets
 * DLOCK_EVENT_LOST at its next renewal, up to a third of its lease later, and until then believes that it holds the
 * lock beside the next holder. Only the token tells them apart.
 * Errors: DLOCK_NOT_HELD when the lock is free, DLOCK_WRONG_KIND, DLOCK_UNSUPPORTED (semaphores, latch). After
 * DLOCK_UNREACHABLE the lock may have been taken away all the same.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_force_release(dlock_lock *lock, dlock_error *reterr);

/*
 * As dlock_lock_force_release, but the result comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_force_release(dlock_lock *lock, int64_t tag, dlock_error *reterr);

/*
 * What owner has (DLOCK_STATE_*), by the clock at this instant. HELD and AT_RISK are never the answer after the
 * deadline.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_state(dlock_lock *lock, int64_t owner, int32_t *ret_state, dlock_error *reterr);

/*
 * How many milliseconds owner may still trust its grant without another renewal. Guard and drift are taken off, and
 * max_hold_ms counts. -1: without end (plain semaphore).
 * Errors: DLOCK_NOT_HELD, DLOCK_LOST.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_remaining_ms(dlock_lock *lock, int64_t owner, int64_t *ret_remaining_ms, dlock_error *reterr);

/*
 * The fencing token of the grant of owner.
 * Errors: DLOCK_NOT_HELD, DLOCK_LOST.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_token(dlock_lock *lock, int64_t owner, int64_t *ret_token, dlock_error *reterr);

/*
 * How often owner holds the lock; 0 when it does not.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_hold_count(dlock_lock *lock, int64_t owner, int64_t *ret_count, dlock_error *reterr);

/*
 * Ask the server who holds the lock. The box gets DLOCK_EVENT_INSPECTION. Its text is the holder's id on the server,
 * "" when the lock is free. DLOCK_FIELD_TOKEN is the highest token reserved so far, at least the holder's;
 * DLOCK_FIELD_REMAINING_MS what is left of the lease; DLOCK_FIELD_HELD_FOR_MS how long it is held; DLOCK_FIELD_WAITERS
 * the number of processes in line; DLOCK_FIELD_FOREIGN is 1 when the holder is not libdlock. Token and time held are
 * -1 when the holder has had the lock for longer than token_ttl_ms.
 * Errors: DLOCK_WRONG_KIND.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_inspect(dlock_lock *lock, dlock_event *event, dlock_error *reterr);

/*
 * As dlock_lock_inspect, but the result comes as an event: DLOCK_EVENT_DONE with the same numbers and text.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_inspect(dlock_lock *lock, int64_t tag, dlock_error *reterr);

/*
 * Export the grant of owner as *ret_size bytes. Another process can adopt them before the lease ends, which counts from this
 * call. The bytes are a secret that works once: whoever has them first gets the lock. The server keeps a hash of them, and
 * nothing else that it shows helps to adopt. On DLOCK_OK owner holds nothing here any more, and nothing is renewed. On any
 * other status owner holds as before, unless the lock is lost, and nobody can adopt: no outcome is open. 512 bytes beyond the
 * name always suffice.
 * Errors: DLOCK_NOT_HELD, DLOCK_LOST, DLOCK_BUFFER_TOO_SMALL, DLOCK_BUSY when the hold is nested or is being exported.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_export_grant(dlock_lock *lock, int64_t owner, uint8_t *buffer, size_t size, size_t *ret_size,
                                     dlock_error *reterr);

/*
 * As dlock_lock_export_grant, but the result comes as an event, and the bytes are its data (dlock_event_data). A failure that
 * is known at once (DLOCK_NOT_HELD, DLOCK_LOST, DLOCK_BUSY) is returned, and no event follows.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_export_grant(dlock_lock *lock, int64_t owner, int64_t tag, dlock_error *reterr);

/*
 * Take over a grant that dlock_lock_export_grant gave out for the same name. It keeps its token. The first client gets
 * it. Token and lease are what the server was told at the export. DLOCK_UNREACHABLE leaves open what the server did; the
 * adoption is then undone in the background. Any client may then adopt the bytes until the lease ends; this client need not
 * wait for the undo.
 * Errors: DLOCK_INVALID_GRANT when the bytes are no such grant or any of them was changed, DLOCK_LOST when the lease ended
 * meanwhile or another client was first, DLOCK_BUSY when this process holds the lock, waits for it, or undoes the adoption of
 * another grant, DLOCK_SERVER_FORGOT when this client has had a higher token; the grant then goes back.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_adopt_grant(dlock_lock *lock, int64_t owner, const uint8_t *grant, size_t grant_size,
                                    int64_t *ret_token, dlock_error *reterr);

/*
 * As dlock_lock_adopt_grant, but the result comes as an event, with the token. A failure that is known at once
 * (DLOCK_INVALID_GRANT, DLOCK_BUSY) is returned, and no event follows. The bytes may be freed when the call returns.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_adopt_grant(dlock_lock *lock, int64_t owner, const uint8_t *grant, size_t grant_size,
                                           int64_t tag, dlock_error *reterr);

/*
 * Close the gate of the lock for ttl_ms, 1 to 31536000000 (a year). Every waiter for the lock, in any process, gets
 * DLOCK_GATE_CLOSED, and so does every later request, until the gate is opened or the time is over. The holder goes
 * on. Closing a closed gate sets its time anew.
 * Errors: DLOCK_WRONG_KIND, DLOCK_UNSUPPORTED (multi-lock: its members have gates).
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_close_gate(dlock_lock *lock, int64_t ttl_ms, dlock_error *reterr);

/*
 * As dlock_lock_close_gate, but the result comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_close_gate(dlock_lock *lock, int64_t ttl_ms, int64_t tag, dlock_error *reterr);

/*
 * Open the gate of the lock.
 * Errors: DLOCK_UNCHANGED when it is open.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_open_gate(dlock_lock *lock, dlock_error *reterr);

/*
 * As dlock_lock_open_gate, but the result comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_open_gate(dlock_lock *lock, int64_t tag, dlock_error *reterr);

/* ---- semaphore: handles of DLOCK_KIND_SEMAPHORE and DLOCK_KIND_PERMIT_SEMAPHORE --------------------------------- */

/*
 * Give a semaphore that does not exist yet its permits, 1 to 2^31 - 1.
 * Errors: DLOCK_UNCHANGED when it exists; DLOCK_UNKNOWN_OUTCOME when the server did not answer: it may have acted.
 * Every call of a semaphore may return DLOCK_UNKNOWN_OUTCOME.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_set(dlock_lock *lock, int64_t permits, dlock_error *reterr);

/*
 * As dlock_semaphore_set, but the result comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_submit_set(dlock_lock *lock, int64_t permits, int64_t tag, dlock_error *reterr);

/*
 * Add permits, or take them away for good when permits is negative. *ret_available is what is free now; it may be
 * below zero.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_add(dlock_lock *lock, int64_t permits, int64_t *ret_available, dlock_error *reterr);

/*
 * As dlock_semaphore_add, but the result comes as an event; its value is what is free now.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_submit_add(dlock_lock *lock, int64_t permits, int64_t tag, dlock_error *reterr);

/*
 * Take all free permits for good. *ret_drained is their number. When fewer than zero were free, permits are added
 * until zero are free, as with Redisson.
 * Errors: DLOCK_UNSUPPORTED for permits that expire.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_drain(dlock_lock *lock, int64_t *ret_drained, dlock_error *reterr);

/*
 * As dlock_semaphore_drain, but the result comes as an event; its value is how many permits were taken.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_submit_drain(dlock_lock *lock, int64_t tag, dlock_error *reterr);

/*
 * Give back the permits of dead holders. A holder renews each third of its lease_ms. It counts as dead when its last
 * renewal is older than its lease_ms plus silent_ms, which is 0 to a year. Nobody can renew while the server is away,
 * so silent_ms should be longer than the server may be away. *ret_reclaimed is the number of permits that came back,
 * each once; waiters are told. Permits that Redisson took have no known holder and stay taken. A holder that is alive
 * after all does not know until its next renewal: then it hears LOST, and it gives nothing back.
 * Permits with a lease come back by themselves. But when Redis loses the key with the leases, some are missing. They come
 * back when they have been missing for the longest lease and silent_ms more. The first call, or a waiter, notes the time.
 * Each request to the server reclaims some holders. The call ends early when the command timeout is over, or when a later
 * request fails; another call goes on.
 * Errors: DLOCK_UNSUPPORTED for permits with a lease on etcd, on ZooKeeper and in memory: there none get lost.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_reclaim(dlock_lock *lock, int64_t silent_ms, int64_t *ret_reclaimed, dlock_error *reterr);

/*
 * As dlock_semaphore_reclaim, but the result comes as an event; its value is how many permits came back.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_submit_reclaim(dlock_lock *lock, int64_t silent_ms, int64_t tag, dlock_error *reterr);

/*
 * The number of free permits.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_available(dlock_lock *lock, int64_t *ret_available, dlock_error *reterr);

/*
 * As dlock_semaphore_available, but the result comes as an event; its value is how many permits are free.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_submit_available(dlock_lock *lock, int64_t tag, dlock_error *reterr);

/*
 * The id of one permit of owner's last grant, as Redisson writes it: 32 hexadecimal digits and a terminator, 33 bytes.
 * index counts from 0.
 * Errors: DLOCK_UNSUPPORTED for a plain semaphore, DLOCK_NOT_HELD, DLOCK_LOST, DLOCK_BUFFER_TOO_SMALL.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_permit(dlock_lock *lock, int64_t owner, int64_t index, char *buffer, size_t size,
                                    dlock_error *reterr);

/* ---- latch: handles of DLOCK_KIND_LATCH; acquire waits until the count is zero, and nothing is held then --------- */

/*
 * Give an open latch its count, 1 to 2^31 - 1.
 * Errors: DLOCK_UNCHANGED when it has one; DLOCK_UNKNOWN_OUTCOME when the server did not answer: it may have acted.
 * Every call of a latch may return DLOCK_UNKNOWN_OUTCOME.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_latch_set(dlock_lock *lock, int64_t count, dlock_error *reterr);

/*
 * As dlock_latch_set, but the result comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_latch_submit_set(dlock_lock *lock, int64_t count, int64_t tag, dlock_error *reterr);

/*
 * Count down by count (at least 1), but not below zero. *ret_count is what is left. At zero every waiter goes on.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_latch_count_down(dlock_lock *lock, int64_t count, int64_t *ret_count, dlock_error *reterr);

/*
 * As dlock_latch_count_down, but the result comes as an event; its value is what is left.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_latch_submit_count_down(dlock_lock *lock, int64_t count, int64_t tag, dlock_error *reterr);

/*
 * The count. Zero: the latch is open.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_latch_count(dlock_lock *lock, int64_t *ret_count, dlock_error *reterr);

/*
 * As dlock_latch_count, but the result comes as an event; its value is the count.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_latch_submit_count(dlock_lock *lock, int64_t tag, dlock_error *reterr);

/* ---- event ------------------------------------------------------------------------------------------------------ */

/*
 * A new, empty event box; NULL without memory.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_event *dlock_event_new(void);

/*
 * Free an event box. NULL is fine.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
void dlock_event_free(dlock_event *event);

/*
 * The type of the event in the box; DLOCK_EVENT_NONE for a new box or NULL.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
int32_t dlock_event_type(const dlock_event *event);

/*
 * Write up to count numbers of the event (DLOCK_FIELD_*) to values. *ret_count is the number of fields that the
 * library has.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_event_unpack(const dlock_event *event, int64_t *values, size_t count, size_t *ret_count,
                                dlock_error *reterr);

/*
 * The sentence or id of the event; "" without one.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_event_text(const dlock_event *event);

/*
 * Copy the bytes of the event into buffer; those of dlock_txn_submit_get, dlock_client_submit_list and
 * dlock_lock_submit_export_grant have some. *ret_size is their number, also after DLOCK_BUFFER_TOO_SMALL. buffer may be
 * NULL when size is 0.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_event_data(const dlock_event *event, uint8_t *buffer, size_t size, size_t *ret_size,
                              dlock_error *reterr);

/* ---- transaction ------------------------------------------------------------------------------------------------ */

/*
 * A handle for optimistic transactions: watch keys, read them, queue writes, commit. The commit does all writes at
 * once, or none when somebody has changed a watched key. Nobody has to wait for it. Keys are the server's own, 1 to
 * 65536 bytes of any kind; the namespace of locks does not apply. Nothing is sent yet.
 *
 * The handle serves one round after the other. dlock_txn_watch begins a round; commit, rollback or a failure of the
 * connection ends it. On Redis a round has a connection of its own: one of an earlier round, or a new one within the
 * budget of connects_per_second. Up to 8 of them stay with the client between rounds, for any handle. A connection is
 * closed after any failure, by dlock_txn_free in the middle of its round, and by dlock_client_close. On etcd all rounds
 * share the client's connection, and what was lost with it is sent again.
 * Errors: DLOCK_UNSUPPORTED (not on a quorum or ZooKeeper).
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_new(dlock_client *client, dlock_txn **ret_txn, dlock_error *reterr);

/*
 * Give the handle back. NULL is fine. What was not committed is dropped, and nothing stays watched.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
void dlock_txn_free(dlock_txn *txn);

/*
 * Watch a key before you read it. The first call begins a round. A key that does not exist can be watched, too; one
 * that expires counts as changed. On etcd a key that was made and deleted again since it was found absent does not.
 * Errors: DLOCK_INVALID_ARGUMENT after the first write of the round and, on a cluster, for a key of another slot: the
 * round goes on. After any other failure the round is over and nothing is watched: DLOCK_UNREACHABLE (also when the
 * budget of connections is used up), DLOCK_DENIED, DLOCK_SERVER_*, DLOCK_PROTOCOL_ERROR, DLOCK_OUT_OF_MEMORY,
 * DLOCK_SYSTEM_ERROR.
 * Threads: one at a time per transaction. Blocks: up to the connect and command timeouts. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_watch(dlock_txn *txn, const char *key, size_t key_size, dlock_error *reterr);

/*
 * As dlock_txn_watch, but the result comes as an event. dlock_txn_free is allowed meanwhile: the call ends as it would.
 * Errors: DLOCK_INVALID_ARGUMENT while another call of the transaction is under way. That holds for every call of it.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_submit_watch(dlock_txn *txn, const char *key, size_t key_size, int64_t tag, dlock_error *reterr);

/*
 * Read the value of a key, at most 1 MiB. Values that are read one after the other may belong to different moments;
 * only the commit says that those of the watched keys belonged together. On etcd the value of a watched key is that at
 * its watch. *ret_size is the size of the value, also after DLOCK_BUFFER_TOO_SMALL: call again with more room. buffer may
 * be NULL when size is 0.
 * Errors: DLOCK_NOT_FOUND, DLOCK_NO_TRANSACTION, DLOCK_BUFFER_TOO_SMALL, DLOCK_INVALID_ARGUMENT after the first write
 * of the round. The round goes on after these, and after DLOCK_WRONG_KIND (not a string), DLOCK_DENIED and
 * DLOCK_SERVER_*. The round is over after DLOCK_UNREACHABLE, DLOCK_OUT_OF_MEMORY and DLOCK_PROTOCOL_ERROR (also: the
 * value is too large).
 * Threads: one at a time per transaction. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_get(dlock_txn *txn, const char *key, size_t key_size, uint8_t *buffer, size_t size,
                           size_t *ret_size, dlock_error *reterr);

/*
 * As dlock_txn_get, but the result comes as an event with the value, see dlock_event_data. DLOCK_FIELD_VALUE is its
 * size in bytes.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_submit_get(dlock_txn *txn, const char *key, size_t key_size, int64_t tag, dlock_error *reterr);

/*
 * Queue a write: the key gets a value of at most 1 MiB, which expires after ttl_ms. -1: it never expires, whatever it
 * did before. On etcd ttl_ms is rounded up to whole seconds, and to the shortest lease that the server grants. Nothing is
 * sent before the commit. The round goes on after an error.
 * Errors: DLOCK_NO_TRANSACTION, DLOCK_INVALID_ARGUMENT (also beyond 4096 writes or 16 MiB in one round).
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_set(dlock_txn *txn, const char *key, size_t key_size, const uint8_t *value, size_t value_size,
                           int64_t ttl_ms, dlock_error *reterr);

/*
 * Queue a write: add by to the decimal number in the key. A key that does not exist counts as 0. Errors are those of
 * dlock_txn_set.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_incr(dlock_txn *txn, const char *key, size_t key_size, int64_t by, dlock_error *reterr);

/*
 * Queue a write: delete the key, if it exists. Errors are those of dlock_txn_set.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_delete(dlock_txn *txn, const char *key, size_t key_size, dlock_error *reterr);

/*
 * Do all writes in their order, with nothing in between. Without writes: find out whether what was read still holds.
 * The round is over after any answer.
 * Errors: DLOCK_CONFLICT: a watched key was changed; begin again. DLOCK_UNKNOWN_OUTCOME: no answer came; all writes
 * were done or none. On etcd the library then asks whether they were done; this status means that nobody answered that
 * within the command timeout either. DLOCK_SERVER_ERROR: the message says which of two cases it is. Either the transaction
 * was refused, and nothing was written. Or one write failed (dlock_txn_incr of a value that is no number): the message
 * names its key, and the other writes were done, because Redis does not roll back. On etcd and in memory nothing is
 * written then. After any other failure nothing was written: DLOCK_NO_TRANSACTION, DLOCK_UNREACHABLE, DLOCK_DENIED, the
 * other DLOCK_SERVER_*, DLOCK_PROTOCOL_ERROR, DLOCK_OUT_OF_MEMORY.
 * Threads: one at a time per transaction. Blocks: up to twice the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_commit(dlock_txn *txn, dlock_error *reterr);

/*
 * As dlock_txn_commit, but the result comes as an event.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_submit_commit(dlock_txn *txn, int64_t tag, dlock_error *reterr);

/*
 * Drop what was queued and watched. Without a round nothing is done. The connection stays for the next round.
 * Threads: one at a time per transaction. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_rollback(dlock_txn *txn, dlock_error *reterr);

/*
 * As dlock_txn_rollback, but the result comes as an event.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_submit_rollback(dlock_txn *txn, int64_t tag, dlock_error *reterr);

/*
 * How many milliseconds to pause after DLOCK_CONFLICT, before everything begins again from dlock_txn_watch on. The
 * pause is random, so that two transactions that met do not meet again. Its bound doubles with every attempt, counted
 * from 1, up to 250 ms.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
int64_t dlock_txn_pause_ms(int32_t attempt);

#ifdef __cplusplus
}
#endif

#endif
