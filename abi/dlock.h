/*
 * dlock.h: the contract of libdlock, distributed locks on Redis.
 *
 * What is not in this file does not exist. SPDX-License-Identifier: MIT
 *
 * Threads. A client and a lock may be used from any thread at any time; several owners may wait on one lock handle
 * at once. Boxes (dlock_options, dlock_error, dlock_event) and transactions (dlock_txn) belong to one thread at a time.
 *
 * Ownership. Every object comes from a _new or _open call and goes back to the matching _free, once no call uses the
 * handle any more. _free(NULL) is fine; _free never blocks and never touches the network; objects may be freed in any
 * order. Text returned by a box lives until the box is filled again or freed; other returned text is constant. Nothing
 * is ever freed by the other side.
 *
 * Outputs. ret_* parameters are written only when the call returns DLOCK_OK, or as its comment says, and may be NULL,
 * but for those that receive a handle or the size of an exported grant. reterr is a box made by the caller or NULL; it is written only when the call does not return DLOCK_OK.
 *
 * Statuses. Comments name those that say something of the call. Any call may return DLOCK_INVALID_ARGUMENT, DLOCK_CLOSED,
 * DLOCK_FORKED, DLOCK_OUT_OF_MEMORY and DLOCK_SYSTEM_ERROR; one that talks to the server also DLOCK_UNREACHABLE,
 * DLOCK_DENIED, DLOCK_TLS_FAILED, DLOCK_WRONG_SETUP, DLOCK_INVALID_QUORUM, DLOCK_PROTOCOL_ERROR and DLOCK_SERVER_*; one
 * that a kind of lock does not have, DLOCK_UNSUPPORTED.
 *
 * Time. Durations are milliseconds in parameters ending in _ms: -1 means no limit, 0 means do not wait. A call about a
 * multi-lock may block for so long once for each member.
 *
 * Owners. A lock is held by an owner, a number chosen by the caller. 0 stands for the calling thread; tasks, goroutines
 * and coroutines pass a positive number of their own. Negative numbers are refused. An owner that holds a lock may
 * acquire it again (re-entry) and must release it as often. Two handles of one client on one name are one lock.
 *
 * Tokens. Every grant carries a fencing token: strictly increasing per lock name, the same across re-entry and renewal,
 * positive and below 2^53. A resource that stores the highest token it has seen and refuses lower ones is safe even
 * from a holder that was paused and does not know yet that it lost the lock. A server that gives a token below one that the
 * client has had has lost its memory, and its clock was set back: the grant is given back, and DLOCK_SERVER_FORGOT says so.
 *
 * Fork. A client that was not used yet works in the child as a client of its own. A client that was used answers
 * DLOCK_FORKED in the child to every call; freeing it there releases memory only. The parent is never affected.
 *
 * Submitted calls. Every call that talks to the server has a form with _submit_ in its name that leaves that to the client's
 * thread. While nothing else is under way it may send by itself, and ask for the answer for up to busy_poll_us or sleep
 * for it as long; the event is there when it returns then. Checks that need no server are made at once, with the statuses
 * of the blocking call. After DLOCK_OK exactly one event with tag, a number of the caller's choice, follows in the event
 * queue of the client; no other answer is followed by one. For dlock_lock_submit_acquire and _release it has a type of
 * their own, else it is DLOCK_EVENT_DONE: _STATUS is what the blocking call would have returned (DLOCK_CLOSED when the
 * client is closed before), the text the sentence of its error box, _LOCK_ID the handle's (-1 without one), _OWNER the
 * owner's (-1 without one; of owner 0 a negative number that stands for the thread). Results are there when the status is
 * DLOCK_OK: numbers in _VALUE, tokens in _TOKEN, what dlock_lock_inspect says in its fields, with the holder's id as the
 * text. Handles may be freed before the event comes. Calls that were submitted may overtake one another.
 * dlock_client_submit_close has no tag: the end of the queue tells.
 *
 * Begun calls, dlock_lock_begin_*, are submitted ones whose answer is returned if it is there in that moment: no event
 * follows then. Only after DLOCK_WOULD_BLOCK it does. Where the thread that begins calls is the one that reads events, as that
 * of an event loop is, one answer of 16 comes as an event all the same: others of the loop have their turn.
 *
 * Host. The library never writes to stdout or stderr, never raises SIGPIPE, installs no handlers, starts no thread
 * before first use, and its threads block all signals.
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

/* Zero: done. Positive: an expected outcome. Negative: a failure. Numbers are never reused; expect unknown ones. */
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
 * Lock kinds, for dlock_lock_new. A name belongs to one kind; READ and WRITE are the two sides of one lock, and MUTEX and
 * FAIR exclude each other on one name without waking each other.
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

/* What an owner has, see dlock_lock_state. */
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

/* What a look at the server may find, see dlock_client_check. */
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
    DLOCK_FINDING_NO_ANSWER = 11
};

/* How bad it is. WARNING: less is promised than could be. DANGER: locks fail, or may be lost while the server runs. */
enum { DLOCK_SEVERITY_WARNING = 1, DLOCK_SEVERITY_DANGER = 2 };

/* Places in the array filled by dlock_event_unpack. Times are milliseconds; -1 means unknown or not applicable. */
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

/* Places in the array filled by dlock_client_stats. All but the last three only grow. */
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
 * The version of the loaded library as major * 65536 + minor * 256 + patch.
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
 * 1 if this build has the named feature, 0 if not or if the name is unknown: "mutex", "fair", "read", "write", "semaphore",
 * "permit_semaphore", "latch", "gate", "transaction", "fencing", "watchdog", "handover", "redisson", "tcp", "unix", "tls",
 * "sentinel", "cluster", "quorum".
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
 * The status at place index of the table, or DLOCK_INVALID_ARGUMENT when index is past its end.
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
 * One sentence that says what a status means.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_status_text(dlock_status status);

/*
 * 1 if a call that ended with the status may succeed later without a change by the caller, else 0. Also for the status of
 * an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
int32_t dlock_status_retryable(dlock_status status);

/* ---- error box -------------------------------------------------------------------------------------------------- */

/*
 * A new, empty error box, or NULL without memory. Its text buffer is inside: filling it cannot fail.
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
 * The status of the call that filled the box last; DLOCK_OK for a new box or NULL.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_error_code(const dlock_error *error);

/*
 * One sentence that names the lock and the server; "" for a new box or NULL. Never holds a credential.
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
 * A new set of options, all at their defaults, or NULL without memory. Options are copied at use.
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
 * Set one option from text. DLOCK_UNKNOWN_OPTION, DLOCK_INVALID_OPTION (the message says what is accepted),
 * DLOCK_OUT_OF_MEMORY; the set is then unchanged.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_options_set(dlock_options *options, const char *name, const char *value, dlock_error *reterr);

/*
 * Copy the text of one option, terminated, into buffer; secrets read "***". *ret_size is the length without terminator.
 * DLOCK_BUFFER_TOO_SMALL when it does not fit into size bytes.
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
 * The name of option index, or NULL past the end.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_option_name(size_t index);

/*
 * The type and range of option index as text, for example "integer 100..86400000", or NULL past the end.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_option_type(size_t index);

/*
 * The default of option index as text, or NULL past the end.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_option_default(size_t index);

/*
 * One sentence about option index, or NULL past the end.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_option_help(size_t index);

/* ---- client ----------------------------------------------------------------------------------------------------- */

/*
 * Make a client from a URL: redis://[user[:password]@]host[:port][/db][?option=value&...], rediss:// for the same with TLS,
 * redis+unix://[user[:password]@]/path[?db=n&option=value&...], or
 * redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/service[/db][?...], where the hosts are sentinels (port
 * 26379) and user and password are those of the primary; rediss+sentinel:// with TLS to both; redis+cluster:// and hosts of a
 * Redis Cluster; redis+quorum:// and an odd number of hosts that know nothing of each other, where there are mutexes alone.
 * options may be NULL; what is set in it wins over the URL.
 * The files that options of TLS name are read now, and again when they have changed.
 * Nothing is connected and no thread is started yet; with the option checks the servers are looked at first, as by
 * dlock_client_check, which is the client's first use, and DLOCK_UNFIT may be the answer. DLOCK_INVALID_URL, DLOCK_UNKNOWN_OPTION, DLOCK_INVALID_OPTION,
 * DLOCK_INVALID_QUORUM (calls that ask for a lock may return it too), DLOCK_UNSUPPORTED (scheme not in this build),
 * DLOCK_OUT_OF_MEMORY, DLOCK_SYSTEM_ERROR.
 * Threads: any. Blocks: never; with checks up to the connect and command timeouts. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_open(const char *url, const dlock_options *options, dlock_client **ret_client,
                               dlock_error *reterr);

/*
 * End the client's work: waiting calls end with DLOCK_CLOSED, held locks are released on the server, threads stop, and
 * later calls return DLOCK_CLOSED. DLOCK_TIMED_OUT when the server did not confirm everything within timeout_ms; what is
 * left expires by its lease, but permits of a plain semaphore, which have none, stay taken until dlock_semaphore_reclaim. Closing twice is fine.
 * Threads: any. Blocks: up to timeout_ms. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_close(dlock_client *client, int64_t timeout_ms, dlock_error *reterr);

/*
 * dlock_client_close without waiting. It is over when dlock_client_next returns DLOCK_CLOSED; before that a
 * DLOCK_EVENT_LOG with the status DLOCK_TIMED_OUT comes when the server did not confirm everything within timeout_ms.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_submit_close(dlock_client *client, int64_t timeout_ms, dlock_error *reterr);

/*
 * Give the handle back. Without dlock_client_close before, held locks are abandoned: renewal stops and they expire, and
 * permits of a plain semaphore stay taken until dlock_semaphore_reclaim.
 * Locks of the client stay valid objects and answer DLOCK_CLOSED.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
void dlock_client_free(dlock_client *client);

/*
 * The descriptor that is readable while events or a dlock_client_wake wait, and for ever once dlock_client_next has said
 * DLOCK_CLOSED: stop polling then. Poll it or dup it; never read or close it.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_fd(dlock_client *client, int32_t *ret_fd, dlock_error *reterr);

/*
 * Move the oldest event into the box. DLOCK_NO_EVENT after timeout_ms or after dlock_client_wake; DLOCK_INTERRUPTED
 * when a signal was handled while waiting; DLOCK_CLOSED once the client was closed and its last event was taken.
 * Threads: any, each with its own box. Blocks: up to timeout_ms. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_next(dlock_client *client, int64_t timeout_ms, dlock_event *event, dlock_error *reterr);

/*
 * End one present or future wait in dlock_client_next.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_wake(dlock_client *client, dlock_error *reterr);

/*
 * Write up to count counters (DLOCK_STAT_*) to values; *ret_count is the number the library has.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_stats(dlock_client *client, int64_t *values, size_t count, size_t *ret_count,
                                dlock_error *reterr);

/*
 * Ask the server for a sign of life; shows wrong addresses and credentials early. DLOCK_UNREACHABLE, DLOCK_DENIED and
 * the DLOCK_SERVER_* statuses.
 * Threads: any. Blocks: up to timeout_ms (-1: the connect and command timeouts). Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_ping(dlock_client *client, int64_t timeout_ms, dlock_error *reterr);

/*
 * dlock_client_ping whose end comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_submit_ping(dlock_client *client, int64_t timeout_ms, int64_t tag, dlock_error *reterr);

/*
 * Say to the server that it remembers every lock of its own: a quarantine (see the option quarantine_ms) ends, and the longest
 * lease of all clients is from now on this client's quarantine_ms. For a server that is new, when nobody can hold a lock it has
 * forgotten; make the longest lease shorter only when no lock with a longer one is held. On a cluster it is said of every
 * slot to the primary that has it; when that fails midway, those that were told go on as told. DLOCK_UNSUPPORTED without
 * quarantine_ms, and what dlock_client_ping says.
 * Threads: any. Blocks: up to timeout_ms (-1: the connect and command timeouts, on a cluster 31 command timeouts). Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_provision(dlock_client *client, int64_t timeout_ms, dlock_error *reterr);

/*
 * dlock_client_provision whose end comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_submit_provision(dlock_client *client, int64_t timeout_ms, int64_t tag, dlock_error *reterr);

/*
 * Look whether the server is fit to keep locks: eviction, persistence, version, role, replicas, clock, and whether the user may do
 * what a mutex needs, tried on a name of its own. On a cluster every primary and replica is looked at, on a quorum every server;
 * sentences begin with the server's name there. *ret_count is how many findings there are, for dlock_client_finding; they
 * stay until the next look. Opening does the same when the option checks says so. What dlock_client_ping says; where there are
 * several servers, one that does not answer is DLOCK_FINDING_NO_ANSWER, and the look fails when all (of a quorum: too many) do not.
 * Threads: any. Blocks: up to timeout_ms (-1: the connect and command timeouts). Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_check(dlock_client *client, int64_t timeout_ms, size_t *ret_count, dlock_error *reterr);

/*
 * dlock_client_check whose end comes as an event; DLOCK_FIELD_VALUE is the number of findings.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_submit_check(dlock_client *client, int64_t timeout_ms, int64_t tag, dlock_error *reterr);

/*
 * Put one finding of the last look into an event box, which is the caller's as always: type DLOCK_EVENT_FINDING, DLOCK_FIELD_VALUE
 * DLOCK_FINDING_*, DLOCK_FIELD_CAUSE DLOCK_SEVERITY_*, the text a sentence with advice. DLOCK_NO_EVENT behind the last one.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_client_finding(dlock_client *client, size_t index, dlock_event *event, dlock_error *reterr);

/*
 * The name of a finding, "EVICTION" say; "UNKNOWN" for other numbers. Lives as long as the library.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_finding_name(int32_t finding);

/* ---- lock ------------------------------------------------------------------------------------------------------- */

/*
 * A handle on the lock called name. Nothing is sent. options may be NULL; what is set in it wins over the client's.
 * Names are 1 to 1024 bytes without NUL, with the namespace and its colon; braces must form a Redis hash tag that Redisson and Redis read alike.
 * DLOCK_INVALID_NAME, DLOCK_UNSUPPORTED (kind), DLOCK_INVALID_OPTION (also: an option of the client), DLOCK_LEASE_REFUSED.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_new(dlock_client *client, int32_t kind, const char *name, size_t name_size,
                            const dlock_options *options, dlock_lock **ret_lock, dlock_error *reterr);

/*
 * A handle for 1 to 16 locks of client that are acquired and released as one: all or none. Members are mutexes, fair,
 * read or write locks; their handles may be freed afterwards. They are taken in the order of their names, the same for
 * every process, so that two multi-locks never wait for each other; free mutexes in one step. The sentence of a failure
 * names the member that stood in the way. The token of a multi-lock is the largest of its members', whose own ones their
 * handles tell. After DLOCK_INTERRUPTED it keeps the members it has: call again to go on, or dlock_lock_cancel to give
 * all back. DLOCK_DUPLICATE_NAME, DLOCK_INVALID_ARGUMENT.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_new_multi(dlock_client *client, dlock_lock **members, size_t count, dlock_lock **ret_lock,
                                  dlock_error *reterr);

/*
 * Give the handle back. What is held through it stays held (and renewed) as long as the client lives: release first.
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
 * Acquire for owner, waiting up to wait_ms. On DLOCK_OK *ret_token is the fencing token. DLOCK_BUSY (wait_ms is 0),
 * DLOCK_TIMED_OUT, DLOCK_CANCELLED, DLOCK_CLOSED, DLOCK_GATE_CLOSED, DLOCK_UPGRADE_REFUSED (a write lock by who holds the
 * read lock), DLOCK_WRONG_KIND, DLOCK_QUARANTINED, DLOCK_LEASE_REFUSED (longer than a quarantine), DLOCK_NOT_REPLICATED,
 * DLOCK_LOST (the grant was over before the caller woke up). With the option interruptible the call ends with DLOCK_INTERRUPTED
 * when a signal was handled, and after each second of waiting, since a signal may come before the wait begins: the request
 * keeps its place, call again (or dlock_lock_submit_acquire) to go on waiting, or cancel it. After any other answer but
 * DLOCK_OK nothing is held; what the server may have granted meanwhile is given back in the background.
 * Threads: any; an owner that already waits here gets DLOCK_INVALID_ARGUMENT. Blocks: up to wait_ms; one round trip,
 * bounded by the timeouts, when wait_ms is 0. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t *ret_token,
                                dlock_error *reterr);

/*
 * Release one hold of owner; the last one gives the lock to the next waiter. DLOCK_NOT_HELD when owner holds nothing,
 * DLOCK_LOST when the grant was lost before, DLOCK_UNKNOWN_OUTCOME when the server did not answer within
 * release_timeout_ms: the release goes on in the background, as it does after DLOCK_DENIED and DLOCK_SERVER_*. After any answer owner holds nothing at this level.
 * Threads: any. Blocks: up to release_timeout_ms. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_release(dlock_lock *lock, int64_t owner, dlock_error *reterr);

/*
 * dlock_lock_acquire for what needs no network: re-entry, and a lock that lingers (linger_ms). DLOCK_WOULD_BLOCK otherwise, and
 * owner has nothing more than before.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_acquire_local(dlock_lock *lock, int64_t owner, int64_t *ret_token, dlock_error *reterr);

/*
 * dlock_lock_release for what needs no network: an inner level, or the hand-over to a waiter in this process.
 * DLOCK_WOULD_BLOCK otherwise, and nothing changed.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_release_local(dlock_lock *lock, int64_t owner, dlock_error *reterr);

/*
 * Ask for the lock; DLOCK_EVENT_ACQUIRED or DLOCK_EVENT_ACQUIRE_FAILED with tag follows in the event queue, exactly once.
 * A dlock_lock_acquire of owner that ended with DLOCK_INTERRUPTED goes on as this one.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t tag,
                                       dlock_error *reterr);

/*
 * Ask for a release; DLOCK_EVENT_RELEASED or DLOCK_EVENT_RELEASE_FAILED with tag follows, exactly once. A failure known
 * at once (DLOCK_NOT_HELD, DLOCK_LOST, ...) is returned instead.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_release(dlock_lock *lock, int64_t owner, int64_t tag, dlock_error *reterr);

/*
 * dlock_lock_submit_acquire that returns the answer if it is there at once: no event follows, and *ret_token and the statuses are
 * those of dlock_lock_acquire. DLOCK_WOULD_BLOCK: the event follows, always for a multi-lock.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_begin_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t tag, int64_t *ret_token,
                                      dlock_error *reterr);

/*
 * dlock_lock_submit_release in the same way, with the statuses of dlock_lock_release.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_begin_release(dlock_lock *lock, int64_t owner, int64_t tag, dlock_error *reterr);

/*
 * End the wait of owner with DLOCK_CANCELLED. DLOCK_NOT_HELD when it does not wait (it may just have won). A blocking
 * acquire that is in the middle of a round trip returns when that ends.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_cancel(dlock_lock *lock, int64_t owner, dlock_error *reterr);

/*
 * Make the server keep the lock for at least lease_ms from now; the new lease also holds for later renewals.
 * DLOCK_NOT_HELD, DLOCK_LOST, DLOCK_INVALID_ARGUMENT (range of the option lease_ms; below 500 with renew), DLOCK_LEASE_REFUSED,
 * DLOCK_NOT_REPLICATED, DLOCK_UNSUPPORTED (plain semaphore, latch).
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_extend(dlock_lock *lock, int64_t owner, int64_t lease_ms, dlock_error *reterr);

/*
 * dlock_lock_extend whose end comes as an event. What is known at once (DLOCK_NOT_HELD, DLOCK_LOST, ...) is returned
 * instead.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_extend(dlock_lock *lock, int64_t owner, int64_t lease_ms, int64_t tag,
                                      dlock_error *reterr);

/*
 * Take the lock away from whoever holds it, in any process, and wake the next waiter. The holder is not told: it hears
 * DLOCK_EVENT_LOST at its next renewal, up to a third of its lease later, and until then believes that it holds beside the
 * next one; only the token tells them apart. DLOCK_NOT_HELD when it was free, DLOCK_WRONG_KIND, DLOCK_UNSUPPORTED
 * (semaphores, latch); after DLOCK_UNREACHABLE it may have been taken all the same.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_force_release(dlock_lock *lock, dlock_error *reterr);

/*
 * dlock_lock_force_release whose end comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_force_release(dlock_lock *lock, int64_t tag, dlock_error *reterr);

/*
 * What owner has (DLOCK_STATE_*), by the clock at this instant: HELD and AT_RISK are never answered after the deadline.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_state(dlock_lock *lock, int64_t owner, int32_t *ret_state, dlock_error *reterr);

/*
 * How long owner may still trust its grant without another renewal, guard and drift taken off, max_hold_ms counted; -1:
 * without end (plain semaphore). DLOCK_NOT_HELD, DLOCK_LOST.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_remaining_ms(dlock_lock *lock, int64_t owner, int64_t *ret_remaining_ms, dlock_error *reterr);

/*
 * The fencing token of the grant of owner. DLOCK_NOT_HELD, DLOCK_LOST.
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
 * Ask the server who holds the lock. The box gets DLOCK_EVENT_INSPECTION: text is the holder's id on the wire ("" when
 * free), DLOCK_FIELD_TOKEN (the highest one reserved so far: not below the holder's), _REMAINING_MS, _HELD_FOR_MS,
 * _WAITERS (processes in line), _FOREIGN (1: not libdlock). Token and time held are -1 when the holder has had the lock for
 * longer than token_ttl_ms. DLOCK_WRONG_KIND.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_inspect(dlock_lock *lock, dlock_event *event, dlock_error *reterr);

/*
 * dlock_lock_inspect whose end comes as an event: DLOCK_EVENT_DONE with the same numbers and text.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_inspect(dlock_lock *lock, int64_t tag, dlock_error *reterr);

/*
 * Give the grant of owner out of this process: *ret_size bytes that another process can adopt before the lease ends.
 * Afterwards owner holds nothing here and nothing is renewed. DLOCK_NOT_HELD, DLOCK_LOST, DLOCK_BUFFER_TOO_SMALL (512
 * bytes always suffice beyond the name), DLOCK_BUSY when the hold is nested.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_export_grant(dlock_lock *lock, int64_t owner, uint8_t *buffer, size_t size, size_t *ret_size,
                                     dlock_error *reterr);

/*
 * Take over a grant given out by dlock_lock_export_grant for the same name. It keeps its token. The first client gets it;
 * after an error that leaves open what the server did (DLOCK_UNREACHABLE) the adoption is undone in the background. The bytes
 * are then what they were: any client may adopt them until the lease ends, this one also before the undo is over.
 * DLOCK_INVALID_GRANT when the bytes are not such a grant, DLOCK_LOST when the lease ended meanwhile or another client was
 * first, DLOCK_BUSY when this process holds or waits, or undoes the adoption of another grant, DLOCK_SERVER_FORGOT when this
 * client has had a higher token: the grant goes back then.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_adopt_grant(dlock_lock *lock, int64_t owner, const uint8_t *grant, size_t grant_size,
                                    int64_t *ret_token, dlock_error *reterr);

/*
 * dlock_lock_adopt_grant whose end comes as an event, with the token. What is known at once (DLOCK_INVALID_GRANT,
 * DLOCK_BUSY) is returned instead. The bytes may go when the call returns.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_adopt_grant(dlock_lock *lock, int64_t owner, const uint8_t *grant, size_t grant_size,
                                           int64_t tag, dlock_error *reterr);

/*
 * Close the gate of the lock for ttl_ms: whoever waits for it, in any process, gets DLOCK_GATE_CLOSED, and so does whoever
 * asks for it, until the gate is opened or the time is over: 1 to 31536000000 ms, a year. Who holds it goes on.
 * DLOCK_WRONG_KIND, DLOCK_UNSUPPORTED (multi-lock: its members have gates). Closing a closed gate sets its time anew.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_close_gate(dlock_lock *lock, int64_t ttl_ms, dlock_error *reterr);

/*
 * dlock_lock_close_gate whose end comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_close_gate(dlock_lock *lock, int64_t ttl_ms, int64_t tag, dlock_error *reterr);

/*
 * Open the gate of the lock. DLOCK_UNCHANGED when it is open.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_open_gate(dlock_lock *lock, dlock_error *reterr);

/*
 * dlock_lock_open_gate whose end comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_lock_submit_open_gate(dlock_lock *lock, int64_t tag, dlock_error *reterr);

/* ---- semaphore: handles of DLOCK_KIND_SEMAPHORE and DLOCK_KIND_PERMIT_SEMAPHORE --------------------------------- */

/*
 * Give a semaphore that does not exist yet its permits (1 to 2^31 - 1). DLOCK_UNCHANGED when it exists.
 * DLOCK_UNKNOWN_OUTCOME when the server did not answer, here and below: it may have acted.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_set(dlock_lock *lock, int64_t permits, dlock_error *reterr);

/*
 * dlock_semaphore_set whose end comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_submit_set(dlock_lock *lock, int64_t permits, int64_t tag, dlock_error *reterr);

/*
 * Add permits, or take them away for good when negative; *ret_available is what is free now, which may be below zero.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_add(dlock_lock *lock, int64_t permits, int64_t *ret_available, dlock_error *reterr);

/*
 * dlock_semaphore_add whose end comes as an event; its value is what is free now.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_submit_add(dlock_lock *lock, int64_t permits, int64_t tag, dlock_error *reterr);

/*
 * Take all permits that are free for good; *ret_drained is how many that were. None is free afterwards: when that was below
 * zero permits are added, as with Redisson. DLOCK_UNSUPPORTED for permits that expire.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_drain(dlock_lock *lock, int64_t *ret_drained, dlock_error *reterr);

/*
 * dlock_semaphore_drain whose end comes as an event; its value is how many permits were taken.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_submit_drain(dlock_lock *lock, int64_t tag, dlock_error *reterr);

/*
 * Give back the permits of dead holders: of those that their client has not renewed for its lease_ms (a renewal comes each third of
 * it) and for silent_ms more, 0 to a year. *ret_reclaimed is how many came back, each once; waiters are told. Permits that
 * Redisson or an older libdlock took are nobody's and stay taken. A holder that lives after all hears LOST at its next renewal and gives
 * nothing back; until then it does not know. Nobody renews while the server is away: let silent_ms be longer than that may
 * last. One call looks at 1,000 holders at most. DLOCK_UNSUPPORTED for permits that expire, which come back by themselves.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_reclaim(dlock_lock *lock, int64_t silent_ms, int64_t *ret_reclaimed, dlock_error *reterr);

/*
 * dlock_semaphore_reclaim whose end comes as an event; its value is how many permits came back.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_submit_reclaim(dlock_lock *lock, int64_t silent_ms, int64_t tag, dlock_error *reterr);

/*
 * How many permits are free.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_available(dlock_lock *lock, int64_t *ret_available, dlock_error *reterr);

/*
 * dlock_semaphore_available whose end comes as an event; its value is how many permits are free.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_submit_available(dlock_lock *lock, int64_t tag, dlock_error *reterr);

/*
 * The id of a permit of owner's last grant, as Redisson writes it: 32 hexadecimal digits and a terminator. index counts
 * from 0. DLOCK_UNSUPPORTED for a plain semaphore, DLOCK_NOT_HELD, DLOCK_LOST, DLOCK_BUFFER_TOO_SMALL (33 bytes).
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_semaphore_permit(dlock_lock *lock, int64_t owner, int64_t index, char *buffer, size_t size,
                                    dlock_error *reterr);

/* ---- latch: handles of DLOCK_KIND_LATCH; to acquire one is to wait until its count is zero, nothing is held then --- */

/*
 * Give a latch that is open its count (1 to 2^31 - 1). DLOCK_UNCHANGED when it has one.
 * DLOCK_UNKNOWN_OUTCOME when the server did not answer, here and below: it may have acted.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_latch_set(dlock_lock *lock, int64_t count, dlock_error *reterr);

/*
 * dlock_latch_set whose end comes as an event.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_latch_submit_set(dlock_lock *lock, int64_t count, int64_t tag, dlock_error *reterr);

/*
 * Count down by count (at least 1), but not below zero; *ret_count is what is left. At zero everybody who waits goes on.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_latch_count_down(dlock_lock *lock, int64_t count, int64_t *ret_count, dlock_error *reterr);

/*
 * dlock_latch_count_down whose end comes as an event; its value is what is left.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_latch_submit_count_down(dlock_lock *lock, int64_t count, int64_t tag, dlock_error *reterr);

/*
 * The count; zero: the latch is open.
 * Threads: any. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_latch_count(dlock_lock *lock, int64_t *ret_count, dlock_error *reterr);

/*
 * dlock_latch_count whose end comes as an event; its value is the count.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_latch_submit_count(dlock_lock *lock, int64_t tag, dlock_error *reterr);

/* ---- event ------------------------------------------------------------------------------------------------------ */

/*
 * A new, empty event box, or NULL without memory.
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
 * Write up to count numbers of the event (DLOCK_FIELD_*) to values; *ret_count is the number the library has.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_event_unpack(const dlock_event *event, int64_t *values, size_t count, size_t *ret_count,
                                dlock_error *reterr);

/*
 * The sentence or id that belongs to the event; "" when there is none.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
const char *dlock_event_text(const dlock_event *event);

/*
 * Copy the bytes that belong to the event, of dlock_txn_submit_get alone, into buffer; *ret_size is how many there are,
 * also when the call returns DLOCK_BUFFER_TOO_SMALL. buffer may be NULL when size is 0.
 * Threads: one at a time per box. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_event_data(const dlock_event *event, uint8_t *buffer, size_t size, size_t *ret_size,
                              dlock_error *reterr);

/* ---- transaction ------------------------------------------------------------------------------------------------ */

/*
 * A handle for optimistic transactions: watch keys, read them, queue writes, commit. The commit does all writes at once,
 * or none of them when somebody changed a watched key since it was watched. Nobody is ever made to wait by one. Keys are
 * the server's own, 1 to 65536 bytes of any kind; the namespace of locks does not apply. Nothing is sent yet.
 *
 * The handle serves one round after the other: dlock_txn_watch begins one; commit, rollback or any trouble with the
 * connection ends it. A round has a connection of its own: that of an earlier one, or one made by the first dlock_txn_watch
 * within the budget of connects_per_second. Up to 8 of them stay with the client between rounds, of whichever handle.
 * One is closed after any trouble, by dlock_txn_free in the middle of its round, by dlock_client_close between rounds and
 * else by the first call after that. DLOCK_UNSUPPORTED (quorum).
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_new(dlock_client *client, dlock_txn **ret_txn, dlock_error *reterr);

/*
 * Give the handle back: what was not committed is dropped, nothing stays watched. NULL is fine.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
void dlock_txn_free(dlock_txn *txn);

/*
 * Watch a key, before it is read; begins a round when there is none. Also a key that does not exist can be watched, and
 * one that expires counts as changed. DLOCK_INVALID_ARGUMENT after the first write of the round and, on a cluster, for a key
 * of another slot than the first one's: the round goes on. After any other failure
 * the round is over, and nothing is watched: DLOCK_UNREACHABLE (also: the budget is used up), DLOCK_DENIED,
 * DLOCK_SERVER_*, DLOCK_PROTOCOL_ERROR, DLOCK_OUT_OF_MEMORY, DLOCK_SYSTEM_ERROR.
 * Threads: one at a time per transaction. Blocks: up to the connect and command timeouts. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_watch(dlock_txn *txn, const char *key, size_t key_size, dlock_error *reterr);

/*
 * dlock_txn_watch whose end comes as an event. DLOCK_INVALID_ARGUMENT while another call of the transaction is under way,
 * here and in every other call of it. dlock_txn_free is fine meanwhile: the call ends as it would.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_submit_watch(dlock_txn *txn, const char *key, size_t key_size, int64_t tag, dlock_error *reterr);

/*
 * Read the value of a key, at most 1 MiB. Values read one after the other may be of different moments: only a commit says
 * that they belonged together, of those keys that were watched. *ret_size is the size of the value, also when the call
 * returns DLOCK_BUFFER_TOO_SMALL: get it again with more room. buffer may be NULL when size is 0. DLOCK_NOT_FOUND,
 * DLOCK_NO_TRANSACTION, DLOCK_INVALID_ARGUMENT after the first write of the round. The round goes on after
 * DLOCK_WRONG_KIND (not a string), DLOCK_DENIED and DLOCK_SERVER_*; it is over after DLOCK_UNREACHABLE,
 * DLOCK_OUT_OF_MEMORY and DLOCK_PROTOCOL_ERROR (also: the value is larger).
 * Threads: one at a time per transaction. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_get(dlock_txn *txn, const char *key, size_t key_size, uint8_t *buffer, size_t size,
                           size_t *ret_size, dlock_error *reterr);

/*
 * dlock_txn_get whose end comes as an event, which has the value: see dlock_event_data. _VALUE is its size.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_submit_get(dlock_txn *txn, const char *key, size_t key_size, int64_t tag, dlock_error *reterr);

/*
 * Queue a write: the key gets a value of at most 1 MiB, which expires after ttl_ms; -1: never, whatever it did before.
 * DLOCK_NO_TRANSACTION; DLOCK_INVALID_ARGUMENT also beyond 4096 writes or 16 MiB in one round. Nothing is sent before the
 * commit, and the round goes on after a refusal.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_set(dlock_txn *txn, const char *key, size_t key_size, const uint8_t *value, size_t value_size,
                           int64_t ttl_ms, dlock_error *reterr);

/*
 * Queue a write: add a number to the decimal number in the key; one that does not exist counts as 0. As dlock_txn_set.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_incr(dlock_txn *txn, const char *key, size_t key_size, int64_t by, dlock_error *reterr);

/*
 * Queue a write: the key is deleted, if it exists. As dlock_txn_set.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_delete(dlock_txn *txn, const char *key, size_t key_size, dlock_error *reterr);

/*
 * Do all writes in their order, nobody else's in between; without writes, find out whether what was read still holds. The
 * round is over after any answer. DLOCK_CONFLICT: a watched key was changed, begin again. DLOCK_UNKNOWN_OUTCOME: no answer
 * came, all writes were done or none. DLOCK_SERVER_ERROR: the sentence says whether the transaction was refused, then
 * nothing was written; or names the key of a write that failed (dlock_txn_incr of what is no number) while the others were
 * done, as Redis does not roll back. Nothing was written after any other failure: DLOCK_NO_TRANSACTION, DLOCK_UNREACHABLE,
 * DLOCK_DENIED, the other DLOCK_SERVER_*, DLOCK_PROTOCOL_ERROR, DLOCK_OUT_OF_MEMORY.
 * Threads: one at a time per transaction. Blocks: up to twice the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_commit(dlock_txn *txn, dlock_error *reterr);

/*
 * dlock_txn_commit whose end comes as an event.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_submit_commit(dlock_txn *txn, int64_t tag, dlock_error *reterr);

/*
 * Drop what was queued and watched; without a round nothing is done. The connection stays for the next one.
 * Threads: one at a time per transaction. Blocks: up to the command timeout. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_rollback(dlock_txn *txn, dlock_error *reterr);

/*
 * dlock_txn_rollback whose end comes as an event.
 * Threads: one at a time per transaction. Blocks: never. Since: 0.1
 */
DLOCK_API
dlock_status dlock_txn_submit_rollback(dlock_txn *txn, int64_t tag, dlock_error *reterr);

/*
 * How many milliseconds to pause after DLOCK_CONFLICT, before everything is done again from dlock_txn_watch on: by chance, so
 * that those who met do not meet again, and with every attempt, counted from 1, up to twice as long; 250 at most.
 * Threads: any. Blocks: never. Since: 0.1
 */
DLOCK_API
int64_t dlock_txn_pause_ms(int32_t attempt);

#ifdef __cplusplus
}
#endif

#endif
