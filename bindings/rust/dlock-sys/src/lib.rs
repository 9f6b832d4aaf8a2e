// Written by abi/gen.py from abi/dlock.json: do not edit.

//! The C API of libdlock, as it stands in `dlock.h`: nothing is added. The crate `dlock` has a safe one.
#![no_std]
#![allow(non_camel_case_types)]

extern crate std;
use std::os::raw::c_char;

pub type dlock_status = i32;

/// Opaque; freed by [`dlock_options_free`].
#[repr(C)]
pub struct dlock_options {
    _private: [u8; 0],
}

/// Opaque; freed by [`dlock_client_free`].
#[repr(C)]
pub struct dlock_client {
    _private: [u8; 0],
}

/// Opaque; freed by [`dlock_lock_free`].
#[repr(C)]
pub struct dlock_lock {
    _private: [u8; 0],
}

/// Opaque; freed by [`dlock_event_free`].
#[repr(C)]
pub struct dlock_event {
    _private: [u8; 0],
}

/// Opaque; freed by [`dlock_error_free`].
#[repr(C)]
pub struct dlock_error {
    _private: [u8; 0],
}

/// Opaque; freed by [`dlock_txn_free`].
#[repr(C)]
pub struct dlock_txn {
    _private: [u8; 0],
}

pub const DLOCK_OK: i32 = 0;
pub const DLOCK_BUSY: i32 = 1;
pub const DLOCK_TIMED_OUT: i32 = 2;
pub const DLOCK_CANCELLED: i32 = 3;
pub const DLOCK_INTERRUPTED: i32 = 4;
pub const DLOCK_WOULD_BLOCK: i32 = 5;
pub const DLOCK_NO_EVENT: i32 = 6;
pub const DLOCK_GATE_CLOSED: i32 = 7;
pub const DLOCK_CONFLICT: i32 = 8;
pub const DLOCK_NOT_FOUND: i32 = 9;
pub const DLOCK_UNCHANGED: i32 = 10;
pub const DLOCK_INVALID_ARGUMENT: i32 = -100;
pub const DLOCK_INVALID_NAME: i32 = -101;
pub const DLOCK_UNKNOWN_OPTION: i32 = -102;
pub const DLOCK_INVALID_OPTION: i32 = -103;
pub const DLOCK_INVALID_URL: i32 = -104;
pub const DLOCK_UNSUPPORTED: i32 = -105;
pub const DLOCK_OUT_OF_MEMORY: i32 = -106;
pub const DLOCK_CLOSED: i32 = -107;
pub const DLOCK_FORKED: i32 = -108;
pub const DLOCK_BUFFER_TOO_SMALL: i32 = -109;
pub const DLOCK_SYSTEM_ERROR: i32 = -110;
pub const DLOCK_DUPLICATE_NAME: i32 = -111;
pub const DLOCK_INVALID_QUORUM: i32 = -112;
pub const DLOCK_NOT_HELD: i32 = -200;
pub const DLOCK_LOST: i32 = -201;
pub const DLOCK_WRONG_KIND: i32 = -202;
pub const DLOCK_UNKNOWN_OUTCOME: i32 = -203;
pub const DLOCK_INVALID_GRANT: i32 = -204;
pub const DLOCK_UPGRADE_REFUSED: i32 = -205;
pub const DLOCK_NO_TRANSACTION: i32 = -207;
pub const DLOCK_UNREACHABLE: i32 = -300;
pub const DLOCK_DENIED: i32 = -301;
pub const DLOCK_SERVER_LOADING: i32 = -302;
pub const DLOCK_SERVER_BUSY: i32 = -303;
pub const DLOCK_SERVER_OUT_OF_MEMORY: i32 = -304;
pub const DLOCK_SERVER_READ_ONLY: i32 = -305;
pub const DLOCK_PROTOCOL_ERROR: i32 = -306;
pub const DLOCK_SERVER_ERROR: i32 = -307;
pub const DLOCK_TLS_FAILED: i32 = -310;
pub const DLOCK_WRONG_SETUP: i32 = -311;
pub const DLOCK_QUARANTINED: i32 = -312;
pub const DLOCK_LEASE_REFUSED: i32 = -313;
pub const DLOCK_NOT_REPLICATED: i32 = -314;
pub const DLOCK_SERVER_FORGOT: i32 = -315;
pub const DLOCK_UNFIT: i32 = -316;

pub const DLOCK_KIND_MUTEX: i32 = 1;
pub const DLOCK_KIND_FAIR: i32 = 2;
pub const DLOCK_KIND_READ: i32 = 3;
pub const DLOCK_KIND_WRITE: i32 = 4;
pub const DLOCK_KIND_SEMAPHORE: i32 = 5;
pub const DLOCK_KIND_PERMIT_SEMAPHORE: i32 = 6;
pub const DLOCK_KIND_LATCH: i32 = 7;
pub const DLOCK_KIND_MULTI: i32 = 8;

pub const DLOCK_STATE_NONE: i32 = 0;
pub const DLOCK_STATE_WAITING: i32 = 1;
pub const DLOCK_STATE_HELD: i32 = 2;
pub const DLOCK_STATE_AT_RISK: i32 = 3;
pub const DLOCK_STATE_LOST: i32 = 4;

pub const DLOCK_CAUSE_NONE: i32 = 0;
pub const DLOCK_CAUSE_EXPIRED: i32 = 1;
pub const DLOCK_CAUSE_TAKEN: i32 = 2;
pub const DLOCK_CAUSE_MAX_HOLD: i32 = 3;
pub const DLOCK_CAUSE_CLOSED: i32 = 4;

pub const DLOCK_EVENT_NONE: i32 = 0;
pub const DLOCK_EVENT_ACQUIRED: i32 = 1;
pub const DLOCK_EVENT_ACQUIRE_FAILED: i32 = 2;
pub const DLOCK_EVENT_RELEASED: i32 = 3;
pub const DLOCK_EVENT_RELEASE_FAILED: i32 = 4;
pub const DLOCK_EVENT_AT_RISK: i32 = 5;
pub const DLOCK_EVENT_LOST: i32 = 6;
pub const DLOCK_EVENT_LOG: i32 = 7;
pub const DLOCK_EVENT_INSPECTION: i32 = 8;
pub const DLOCK_EVENT_DONE: i32 = 9;
pub const DLOCK_EVENT_FINDING: i32 = 10;

pub const DLOCK_FINDING_EVICTION: i32 = 1;
pub const DLOCK_FINDING_PERSISTENCE: i32 = 2;
pub const DLOCK_FINDING_PERSISTENCE_FAILS: i32 = 3;
pub const DLOCK_FINDING_VERSION: i32 = 4;
pub const DLOCK_FINDING_READ_ONLY: i32 = 5;
pub const DLOCK_FINDING_REPLICAS: i32 = 6;
pub const DLOCK_FINDING_CLOCK: i32 = 7;
pub const DLOCK_FINDING_COMMAND_MISSING: i32 = 8;
pub const DLOCK_FINDING_COMMAND_DENIED: i32 = 9;
pub const DLOCK_FINDING_WRITE_REFUSED: i32 = 10;
pub const DLOCK_FINDING_NO_ANSWER: i32 = 11;
pub const DLOCK_FINDING_NO_LEADER: i32 = 12;
pub const DLOCK_FINDING_ALARM: i32 = 13;
pub const DLOCK_FINDING_OPEN: i32 = 14;
pub const DLOCK_FINDING_FAULTY_VERSION: i32 = 15;
pub const DLOCK_FINDING_OLD_VERSION: i32 = 16;

pub const DLOCK_SEVERITY_WARNING: i32 = 1;
pub const DLOCK_SEVERITY_DANGER: i32 = 2;

pub const DLOCK_FIELD_TYPE: usize = 0;
pub const DLOCK_FIELD_STATUS: usize = 1;
pub const DLOCK_FIELD_TAG: usize = 2;
pub const DLOCK_FIELD_LOCK_ID: usize = 3;
pub const DLOCK_FIELD_OWNER: usize = 4;
pub const DLOCK_FIELD_TOKEN: usize = 5;
pub const DLOCK_FIELD_REMAINING_MS: usize = 6;
pub const DLOCK_FIELD_CAUSE: usize = 7;
pub const DLOCK_FIELD_HELD_FOR_MS: usize = 8;
pub const DLOCK_FIELD_WAITERS: usize = 9;
pub const DLOCK_FIELD_FOREIGN: usize = 10;
pub const DLOCK_FIELD_VALUE: usize = 11;
pub const DLOCK_FIELD_COUNT: usize = 12;

pub const DLOCK_STAT_ACQUIRED: usize = 0;
pub const DLOCK_STAT_WIRE_GRANTS: usize = 1;
pub const DLOCK_STAT_PUSHED_GRANTS: usize = 2;
pub const DLOCK_STAT_HANDOVERS: usize = 3;
pub const DLOCK_STAT_RELEASED: usize = 4;
pub const DLOCK_STAT_LOST: usize = 5;
pub const DLOCK_STAT_RENEWED: usize = 6;
pub const DLOCK_STAT_RENEWALS_LATE: usize = 7;
pub const DLOCK_STAT_RENEWAL_SCRIPTS: usize = 8;
pub const DLOCK_STAT_UNDONE: usize = 9;
pub const DLOCK_STAT_COMMANDS: usize = 10;
pub const DLOCK_STAT_CONNECTS: usize = 11;
pub const DLOCK_STAT_CONNECT_FAILURES: usize = 12;
pub const DLOCK_STAT_SCRIPT_RELOADS: usize = 13;
pub const DLOCK_STAT_EVENTS_DROPPED: usize = 14;
pub const DLOCK_STAT_HELD: usize = 15;
pub const DLOCK_STAT_WAITING: usize = 16;
pub const DLOCK_STAT_LOCKS: usize = 17;
pub const DLOCK_STAT_COUNT: usize = 18;

#[link(name = "dlock")]
extern "C" {
    /// The version of the loaded library: major * 65536 + minor * 256 + patch.
    pub fn dlock_version() -> u32;
    /// The version of the loaded library as text, for example "0.1.0".
    pub fn dlock_version_string() -> *const c_char;
    /// 1 if this build has the named feature, 0 if not or if the name is unknown. Features: "mutex", "fair",
    /// "read", "write", "semaphore", "`permit_semaphore`", "latch", "gate", "transaction", "fencing", "watchdog",
    /// "handover", "redisson", "tcp", "unix", "tls", "sentinel", "cluster", "quorum", "etcd", "zookeeper",
    /// "memory".
    pub fn dlock_supports(feature: *const c_char) -> i32;
    /// The number of statuses this library can return.
    pub fn dlock_status_count() -> usize;
    /// The status at place index of the table, counted from 0; `DLOCK_INVALID_ARGUMENT` past its end.
    pub fn dlock_status_at(index: usize) -> dlock_status;
    /// The name of a status, for example "`TIMED_OUT`"; "UNKNOWN" for a number that is not in the table.
    pub fn dlock_status_name(status: dlock_status) -> *const c_char;
    /// One sentence about what a status means.
    pub fn dlock_status_text(status: dlock_status) -> *const c_char;
    /// 1 if the same call may succeed later without a change by the caller, else 0. Works for the status of a call
    /// and of an event.
    pub fn dlock_status_retryable(status: dlock_status) -> i32;
    /// A new, empty error box; NULL without memory. Its text buffer is inside the box, so filling it cannot fail.
    pub fn dlock_error_new() -> *mut dlock_error;
    /// Free an error box. NULL is fine.
    pub fn dlock_error_free(error: *mut dlock_error);
    /// The status of the call that last filled the box; `DLOCK_OK` for a new box or NULL.
    pub fn dlock_error_code(error: *const dlock_error) -> dlock_status;
    /// One sentence that names the lock and the server; "" for a new box or NULL. It never holds a credential.
    pub fn dlock_error_message(error: *const dlock_error) -> *const c_char;
    /// `dlock_status_retryable` of the status in the box; 0 for a new box or NULL.
    pub fn dlock_error_retryable(error: *const dlock_error) -> i32;
    /// A new set of options, all at their defaults; NULL without memory. A call that takes a set copies what it
    /// needs.
    pub fn dlock_options_new() -> *mut dlock_options;
    /// Free a set of options; secrets in it are wiped. NULL is fine.
    pub fn dlock_options_free(options: *mut dlock_options);
    /// Set one option from text. After an error the set is unchanged.
    pub fn dlock_options_set(options: *mut dlock_options, name: *const c_char, value: *const c_char, reterr: *mut dlock_error) -> dlock_status;
    /// Copy the value of one option as text, with a terminator, into buffer. A secret reads "***". `*ret_size` is
    /// the length without the terminator.
    pub fn dlock_options_get(options: *const dlock_options, name: *const c_char, buffer: *mut c_char, size: usize, ret_size: *mut usize, reterr: *mut dlock_error) -> dlock_status;
    /// The number of options.
    pub fn dlock_option_count() -> usize;
    /// The name of the option at place index, counted from 0; NULL past the end.
    pub fn dlock_option_name(index: usize) -> *const c_char;
    /// The type and range of the option at place index as text, for example "integer 100..86400000"; NULL past the
    /// end.
    pub fn dlock_option_type(index: usize) -> *const c_char;
    /// The default of the option at place index as text; NULL past the end.
    pub fn dlock_option_default(index: usize) -> *const c_char;
    /// One sentence about the option at place index; NULL past the end.
    pub fn dlock_option_help(index: usize) -> *const c_char;
    /// Make a client from a URL. The forms are:
    ///
    ///  `redis://\[user\[:password\]@\]host\[:port\]\[/db\]\[?option=value&...]` one server, port 6379
    /// `redis+unix://\[user\[:password\]@\]/path\[?db=n&option=value&...]` one server on a unix socket
    /// `redis+sentinel://\[user\[:password\]@\]host\[:port]`,host.../service\[/db\] hosts are sentinels, port 26379
    /// `redis+cluster://\[user\[:password\]@\]host\[:port]`,host... some servers of a Redis Cluster
    /// `redis+quorum://\[user\[:password\]@\]host\[:port]`,host...\[/db\] an odd number of independent servers;
    /// mutexes `etcd://\[user:password@\]host\[:port]`,host... some members of an etcd cluster, port 2379
    /// `zookeeper://\[user:password@\]host\[:port]`,host...\[/chroot\] some members of a `ZooKeeper` ensemble, port
    /// 2181 memory: no server: locks of this client alone `memory://name` the same for all clients of the process
    /// with this name, until the last one is closed
    ///
    /// All forms take options. With "rediss" in place of "redis" (not for unix sockets), "etcds" in place of
    /// "etcd", or "zookeepers" in place of "zookeeper", all connections use TLS. User and password are those of the
    /// servers that keep the locks; sentinels have options of their own. options may be NULL; its values win over
    /// those of the URL. Files named by options of TLS are read now, and again after they change.
    ///
    /// Nothing is connected, and no thread is started. With the option checks, the servers are checked first, as by
    /// `dlock_client_check`. That is the client's first use.
    pub fn dlock_client_open(url: *const c_char, options: *const dlock_options, ret_client: *mut *mut dlock_client, reterr: *mut dlock_error) -> dlock_status;
    /// End the client's work. Waiting calls end with `DLOCK_CLOSED`, held locks are released on the server, threads
    /// stop, and later calls return `DLOCK_CLOSED`. Closing twice is fine.
    pub fn dlock_client_close(client: *mut dlock_client, timeout_ms: i64, reterr: *mut dlock_error) -> dlock_status;
    /// `dlock_client_close` without waiting. It is over when `dlock_client_next` returns `DLOCK_CLOSED`. When the
    /// server does not confirm every release within `timeout_ms`, a `DLOCK_EVENT_LOG` with the status
    /// `DLOCK_TIMED_OUT` comes before that.
    pub fn dlock_client_submit_close(client: *mut dlock_client, timeout_ms: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Give the handle back. NULL is fine. Without `dlock_client_close` before, held locks are abandoned: renewal
    /// stops and they expire. Permits of a plain semaphore stay taken until `dlock_semaphore_reclaim`. Locks of the
    /// client stay valid objects and answer `DLOCK_CLOSED`.
    pub fn dlock_client_free(client: *mut dlock_client);
    /// The descriptor for poll or epoll. It is readable while events or a `dlock_client_wake` are pending, and for
    /// ever once `dlock_client_next` has returned `DLOCK_CLOSED`: stop polling then. Poll it or dup it; never read
    /// or close it.
    pub fn dlock_client_fd(client: *mut dlock_client, ret_fd: *mut i32, reterr: *mut dlock_error) -> dlock_status;
    /// Move the oldest event into the box.
    pub fn dlock_client_next(client: *mut dlock_client, timeout_ms: i64, event: *mut dlock_event, reterr: *mut dlock_error) -> dlock_status;
    /// End one wait in `dlock_client_next`: the present one, or the next.
    pub fn dlock_client_wake(client: *mut dlock_client, reterr: *mut dlock_error) -> dlock_status;
    /// Write up to count counters (`DLOCK_STAT_*`) to values. `*ret_count` is the number of counters that the
    /// library has.
    pub fn dlock_client_stats(client: *mut dlock_client, values: *mut i64, count: usize, ret_count: *mut usize, reterr: *mut dlock_error) -> dlock_status;
    /// Copy the counters and histograms of the client as `OpenMetrics` text, with a terminator, into buffer.
    /// `*ret_size` is the length without the terminator. Histograms: how long requests waited and locks were held,
    /// how late renewals were sent and what was left of the lease then, and how many hand-overs a grant served.
    pub fn dlock_client_metrics(client: *mut dlock_client, buffer: *mut c_char, size: usize, ret_size: *mut usize, reterr: *mut dlock_error) -> dlock_status;
    /// Ask the server whether it answers. That shows a wrong address or wrong credentials early.
    pub fn dlock_client_ping(client: *mut dlock_client, timeout_ms: i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_client_ping`, but the result comes as an event.
    pub fn dlock_client_submit_ping(client: *mut dlock_client, timeout_ms: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Tell the server that it remembers all of its locks. That ends a quarantine (option `quarantine_ms`), and
    /// makes this client's `quarantine_ms` the longest lease of all clients. Use it for a new server, when nobody
    /// can hold a lock that it has forgotten. Make the longest lease shorter only when no lock with a longer one is
    /// held. On a cluster every primary is told for each of its slots; after a failure midway, the slots that were
    /// told stay told.
    pub fn dlock_client_provision(client: *mut dlock_client, timeout_ms: i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_client_provision`, but the result comes as an event.
    pub fn dlock_client_submit_provision(client: *mut dlock_client, timeout_ms: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// List names of locks, some at a time. A name is known to the server while it remembers its token: from its
    /// first grant on, until `token_ttl_ms` after the last. So a listed name may be free; `dlock_lock_inspect`
    /// tells. Names that Redisson alone uses without a fencing token, and latches, are not listed. With the option
    /// namespace, only names in it are, without it.
    ///
    /// cursor is 0 to begin, then the `*ret_cursor` of the call before; when that is 0, it was the last one. A call
    /// asks one server to look at some 100 of its keys, so it may bring no name at all, and a list takes many
    /// calls. No call blocks the server for long. buffer gets the names, each with a terminator, `*ret_size` bytes
    /// together. A name may come more than once; one that comes or goes meanwhile may be missing. Braces around a
    /// whole name are left off.
    pub fn dlock_client_list(client: *mut dlock_client, cursor: i64, timeout_ms: i64, buffer: *mut u8, size: usize, ret_size: *mut usize, ret_cursor: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_client_list`, but the result comes as an event: `DLOCK_FIELD_VALUE` is the next cursor,
    /// `dlock_event_data` has the names.
    pub fn dlock_client_submit_list(client: *mut dlock_client, cursor: i64, timeout_ms: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Make something go wrong, for the test of a program that uses locks. Only a store in memory does it (memory:
    /// in `dlock_client_open`). What follows is what a server would cause: the same statuses and events.
    ///
    /// what is one of these words. name is that of a lock; with `name_size` 0, none. value is a number of
    /// milliseconds. Where value says how long the fault lasts, -1 means until heal or another call, and 0 ends it.
    ///
    ///  lose name, value 0 whoever holds the lock loses it now, and is told; it passes on renewals or name, value
    /// renewals fail, of all locks or of this one deny or name, value requests are refused with `DLOCK_DENIED`, for
    /// all locks or for this one cut value requests and messages do not get through pause value the store answers
    /// nothing; what was asked for meanwhile is answered later, if that is in time delay value each request takes
    /// this time; 0 ends it clock value the clock of the store jumps by value, or back: leases end sooner or later
    /// heal value 0 all faults of all clients end
    ///
    /// lose, pause, clock and heal are about the store: all clients that share it meet them. The others are about
    /// this client alone; with " others" behind the word, as "cut others", they are about the other clients that
    /// share the store now. A later library may know more words.
    pub fn dlock_client_fault(client: *mut dlock_client, what: *const c_char, name: *const c_char, name_size: usize, value: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Check whether the server is fit to keep locks: eviction, persistence, version, role, replicas, clock, and
    /// the rights that a mutex needs, tried on a name of its own. On a cluster every primary and replica is
    /// checked, on a quorum every server, on etcd and `ZooKeeper` every member; findings begin with the server's
    /// name there. `*ret_count` is the number of findings for `dlock_client_finding`; they stay until the next
    /// check. The option checks does the same when a client is opened.
    pub fn dlock_client_check(client: *mut dlock_client, timeout_ms: i64, ret_count: *mut usize, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_client_check`, but the result comes as an event; `DLOCK_FIELD_VALUE` is the number of findings.
    pub fn dlock_client_submit_check(client: *mut dlock_client, timeout_ms: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Put the finding at place index of the last check into an event box of the caller: the type is
    /// `DLOCK_EVENT_FINDING`, `DLOCK_FIELD_VALUE` is `DLOCK_FINDING_*`, `DLOCK_FIELD_CAUSE` is `DLOCK_SEVERITY_*`,
    /// and the text is a sentence with advice.
    pub fn dlock_client_finding(client: *mut dlock_client, index: usize, event: *mut dlock_event, reterr: *mut dlock_error) -> dlock_status;
    /// The name of a finding, for example "EVICTION"; "UNKNOWN" for other numbers. The text lives as long as the
    /// library.
    pub fn dlock_finding_name(finding: i32) -> *const c_char;
    /// A handle on the lock called name. Nothing is sent. options may be NULL; its values win over those of the
    /// client. A name has 1 to 1024 bytes without NUL, including the namespace and its colon. Braces must form a
    /// hash tag that Redis and Redisson read alike.
    pub fn dlock_lock_new(client: *mut dlock_client, kind: i32, name: *const c_char, name_size: usize, options: *const dlock_options, ret_lock: *mut *mut dlock_lock, reterr: *mut dlock_error) -> dlock_status;
    /// A handle for 1 to 16 locks of client that are acquired and released as one: all or none. Members are
    /// mutexes, fair, read or write locks; their handles may be freed afterwards. Members are taken in the order of
    /// their names, the same in every process, so two multi-locks never wait for each other. Free mutexes that
    /// share a slot are taken in one step. The token is the largest of the members' tokens; their own handles tell
    /// theirs. The message of a failure names the member that stood in the way.
    ///
    /// After `DLOCK_INTERRUPTED` the members acquired so far are kept: call again to go on, or `dlock_lock_cancel`
    /// to give them back.
    pub fn dlock_lock_new_multi(client: *mut dlock_client, members: *mut *mut dlock_lock, count: usize, ret_lock: *mut *mut dlock_lock, reterr: *mut dlock_error) -> dlock_status;
    /// Give the handle back. NULL is fine. Release first: a lock that is held through the handle stays held, and is
    /// renewed, while the client lives.
    pub fn dlock_lock_free(lock: *mut dlock_lock);
    /// The number of the lock in events, unique within the client; 0 for NULL.
    pub fn dlock_lock_id(lock: *const dlock_lock) -> i64;
    /// Acquire for owner, waiting up to `wait_ms`. On `DLOCK_OK` `*ret_token` is the fencing token. After any other
    /// answer but `DLOCK_INTERRUPTED` nothing is held; a grant that the server made meanwhile is given back in the
    /// background.
    ///
    /// With the option interruptible the call ends with `DLOCK_INTERRUPTED` when a signal was handled, and after
    /// each second of waiting, because a signal may come before the wait begins. The request keeps its place. Call
    /// again, or `dlock_lock_submit_acquire`, to go on waiting; or cancel it. Without that it ends when `wait_ms`
    /// is over, and a grant that it got goes back.
    pub fn dlock_lock_acquire(lock: *mut dlock_lock, owner: i64, wait_ms: i64, ret_token: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// Release one hold of owner. The last release gives the lock to the next waiter. After any answer, owner holds
    /// nothing at this level.
    pub fn dlock_lock_release(lock: *mut dlock_lock, owner: i64, reterr: *mut dlock_error) -> dlock_status;
    /// `dlock_lock_acquire` without the network: for re-entry, and for a lock that lingers (`linger_ms`).
    pub fn dlock_lock_acquire_local(lock: *mut dlock_lock, owner: i64, ret_token: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// `dlock_lock_release` without the network: for an inner level, and for a hand-over to a waiter in this
    /// process.
    pub fn dlock_lock_release_local(lock: *mut dlock_lock, owner: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Ask for the lock. `DLOCK_EVENT_ACQUIRED` or `DLOCK_EVENT_ACQUIRE_FAILED` with tag follows in the event
    /// queue, exactly once. It also continues a `dlock_lock_acquire` of owner that ended with `DLOCK_INTERRUPTED`.
    pub fn dlock_lock_submit_acquire(lock: *mut dlock_lock, owner: i64, wait_ms: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Ask for a release. `DLOCK_EVENT_RELEASED` or `DLOCK_EVENT_RELEASE_FAILED` with tag follows, exactly once. A
    /// failure that is known at once (`DLOCK_NOT_HELD`, `DLOCK_LOST`, ...) is returned, and no event follows.
    pub fn dlock_lock_submit_release(lock: *mut dlock_lock, owner: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Ask for the lock, and return the answer if it is there at once: then no event follows, and `*ret_token` and
    /// the statuses are those of `dlock_lock_acquire`. For a multi-lock the answer is always an event.
    pub fn dlock_lock_begin_acquire(lock: *mut dlock_lock, owner: i64, wait_ms: i64, tag: i64, ret_token: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// Ask for a release, and return the answer if it is there at once, with the statuses of `dlock_lock_release`.
    pub fn dlock_lock_begin_release(lock: *mut dlock_lock, owner: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// End the wait of owner: it gets `DLOCK_CANCELLED`. A blocking acquire in the middle of a round trip returns
    /// when that ends.
    pub fn dlock_lock_cancel(lock: *mut dlock_lock, owner: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Make the server keep the lock for at least `lease_ms` from now. Later renewals use the new lease, too.
    pub fn dlock_lock_extend(lock: *mut dlock_lock, owner: i64, lease_ms: i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_lock_extend`, but the result comes as an event. A failure that is known at once (`DLOCK_NOT_HELD`,
    /// `DLOCK_LOST`, ...) is returned, and no event follows.
    pub fn dlock_lock_submit_extend(lock: *mut dlock_lock, owner: i64, lease_ms: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Take the lock away from its holder, in any process, and wake the next waiter. The holder is not told. It
    /// gets `DLOCK_EVENT_LOST` at its next renewal, up to a third of its lease later, and until then believes that
    /// it holds the lock beside the next holder. Only the token tells them apart.
    pub fn dlock_lock_force_release(lock: *mut dlock_lock, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_lock_force_release`, but the result comes as an event.
    pub fn dlock_lock_submit_force_release(lock: *mut dlock_lock, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// What owner has (`DLOCK_STATE_*`), by the clock at this instant. HELD and `AT_RISK` are never the answer
    /// after the deadline.
    pub fn dlock_lock_state(lock: *mut dlock_lock, owner: i64, ret_state: *mut i32, reterr: *mut dlock_error) -> dlock_status;
    /// How many milliseconds owner may still trust its grant without another renewal. Guard and drift are taken
    /// off, and `max_hold_ms` counts. -1: without end (plain semaphore).
    pub fn dlock_lock_remaining_ms(lock: *mut dlock_lock, owner: i64, ret_remaining_ms: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// The fencing token of the grant of owner.
    pub fn dlock_lock_token(lock: *mut dlock_lock, owner: i64, ret_token: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// How often owner holds the lock; 0 when it does not.
    pub fn dlock_lock_hold_count(lock: *mut dlock_lock, owner: i64, ret_count: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// Ask the server who holds the lock. The box gets `DLOCK_EVENT_INSPECTION`. Its text is the holder's id on the
    /// server, "" when the lock is free. `DLOCK_FIELD_TOKEN` is the highest token reserved so far, at least the
    /// holder's; `DLOCK_FIELD_REMAINING_MS` what is left of the lease; `DLOCK_FIELD_HELD_FOR_MS` how long it is
    /// held; `DLOCK_FIELD_WAITERS` the number of processes in line; `DLOCK_FIELD_FOREIGN` is 1 when the holder is
    /// not libdlock. Token and time held are -1 when the holder has had the lock for longer than `token_ttl_ms`.
    pub fn dlock_lock_inspect(lock: *mut dlock_lock, event: *mut dlock_event, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_lock_inspect`, but the result comes as an event: `DLOCK_EVENT_DONE` with the same numbers and
    /// text.
    pub fn dlock_lock_submit_inspect(lock: *mut dlock_lock, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Export the grant of owner as `*ret_size` bytes. Another process can adopt them before the lease ends, which
    /// counts from this call. The bytes are a secret that works once: whoever has them first gets the lock. The
    /// server keeps a hash of them, and nothing else that it shows helps to adopt. On `DLOCK_OK` owner holds
    /// nothing here any more, and nothing is renewed. On any other status owner holds as before, unless the lock is
    /// lost, and nobody can adopt: no outcome is open. 512 bytes beyond the name always suffice.
    pub fn dlock_lock_export_grant(lock: *mut dlock_lock, owner: i64, buffer: *mut u8, size: usize, ret_size: *mut usize, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_lock_export_grant`, but the result comes as an event, and the bytes are its data
    /// (`dlock_event_data`). A failure that is known at once (`DLOCK_NOT_HELD`, `DLOCK_LOST`, `DLOCK_BUSY`) is
    /// returned, and no event follows.
    pub fn dlock_lock_submit_export_grant(lock: *mut dlock_lock, owner: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Take over a grant that `dlock_lock_export_grant` gave out for the same name. It keeps its token. The first
    /// client gets it. Token and lease are what the server was told at the export. `DLOCK_UNREACHABLE` leaves open
    /// what the server did; the adoption is then undone in the background. Any client may then adopt the bytes
    /// until the lease ends; this client need not wait for the undo.
    pub fn dlock_lock_adopt_grant(lock: *mut dlock_lock, owner: i64, grant: *const u8, grant_size: usize, ret_token: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_lock_adopt_grant`, but the result comes as an event, with the token. A failure that is known at
    /// once (`DLOCK_INVALID_GRANT`, `DLOCK_BUSY`) is returned, and no event follows. The bytes may be freed when
    /// the call returns.
    pub fn dlock_lock_submit_adopt_grant(lock: *mut dlock_lock, owner: i64, grant: *const u8, grant_size: usize, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Close the gate of the lock for `ttl_ms`, 1 to 31536000000 (a year). Every waiter for the lock, in any
    /// process, gets `DLOCK_GATE_CLOSED`, and so does every later request, until the gate is opened or the time is
    /// over. The holder goes on. Closing a closed gate sets its time anew.
    pub fn dlock_lock_close_gate(lock: *mut dlock_lock, ttl_ms: i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_lock_close_gate`, but the result comes as an event.
    pub fn dlock_lock_submit_close_gate(lock: *mut dlock_lock, ttl_ms: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Open the gate of the lock.
    pub fn dlock_lock_open_gate(lock: *mut dlock_lock, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_lock_open_gate`, but the result comes as an event.
    pub fn dlock_lock_submit_open_gate(lock: *mut dlock_lock, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Give a semaphore that does not exist yet its permits, 1 to 2^31 - 1.
    pub fn dlock_semaphore_set(lock: *mut dlock_lock, permits: i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_semaphore_set`, but the result comes as an event.
    pub fn dlock_semaphore_submit_set(lock: *mut dlock_lock, permits: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Add permits, or take them away for good when permits is negative. `*ret_available` is what is free now; it
    /// may be below zero.
    pub fn dlock_semaphore_add(lock: *mut dlock_lock, permits: i64, ret_available: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_semaphore_add`, but the result comes as an event; its value is what is free now.
    pub fn dlock_semaphore_submit_add(lock: *mut dlock_lock, permits: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Take all free permits for good. `*ret_drained` is their number. When fewer than zero were free, permits are
    /// added until zero are free, as with Redisson.
    pub fn dlock_semaphore_drain(lock: *mut dlock_lock, ret_drained: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_semaphore_drain`, but the result comes as an event; its value is how many permits were taken.
    pub fn dlock_semaphore_submit_drain(lock: *mut dlock_lock, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Give back the permits of dead holders. A holder renews each third of its `lease_ms`. It counts as dead when
    /// its last renewal is older than its `lease_ms` plus `silent_ms`, which is 0 to a year. Nobody can renew while
    /// the server is away, so `silent_ms` should be longer than the server may be away. `*ret_reclaimed` is the
    /// number of permits that came back, each once; waiters are told. Permits that Redisson took have no known
    /// holder and stay taken. A holder that is alive after all does not know until its next renewal: then it hears
    /// LOST, and it gives nothing back. Permits with a lease come back by themselves. But when Redis loses the key
    /// with the leases, some are missing. They come back when they have been missing for the longest lease and
    /// `silent_ms` more. The first call, or a waiter, notes the time. Each request to the server reclaims some
    /// holders. The call ends early when the command timeout is over, or when a later request fails; another call
    /// goes on.
    pub fn dlock_semaphore_reclaim(lock: *mut dlock_lock, silent_ms: i64, ret_reclaimed: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_semaphore_reclaim`, but the result comes as an event; its value is how many permits came back.
    pub fn dlock_semaphore_submit_reclaim(lock: *mut dlock_lock, silent_ms: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// The number of free permits.
    pub fn dlock_semaphore_available(lock: *mut dlock_lock, ret_available: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_semaphore_available`, but the result comes as an event; its value is how many permits are free.
    pub fn dlock_semaphore_submit_available(lock: *mut dlock_lock, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// The id of one permit of owner's last grant, as Redisson writes it: 32 hexadecimal digits and a terminator,
    /// 33 bytes. index counts from 0.
    pub fn dlock_semaphore_permit(lock: *mut dlock_lock, owner: i64, index: i64, buffer: *mut c_char, size: usize, reterr: *mut dlock_error) -> dlock_status;
    /// Give an open latch its count, 1 to 2^31 - 1.
    pub fn dlock_latch_set(lock: *mut dlock_lock, count: i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_latch_set`, but the result comes as an event.
    pub fn dlock_latch_submit_set(lock: *mut dlock_lock, count: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Count down by count (at least 1), but not below zero. `*ret_count` is what is left. At zero every waiter
    /// goes on.
    pub fn dlock_latch_count_down(lock: *mut dlock_lock, count: i64, ret_count: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_latch_count_down`, but the result comes as an event; its value is what is left.
    pub fn dlock_latch_submit_count_down(lock: *mut dlock_lock, count: i64, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// The count. Zero: the latch is open.
    pub fn dlock_latch_count(lock: *mut dlock_lock, ret_count: *mut i64, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_latch_count`, but the result comes as an event; its value is the count.
    pub fn dlock_latch_submit_count(lock: *mut dlock_lock, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// A new, empty event box; NULL without memory.
    pub fn dlock_event_new() -> *mut dlock_event;
    /// Free an event box. NULL is fine.
    pub fn dlock_event_free(event: *mut dlock_event);
    /// The type of the event in the box; `DLOCK_EVENT_NONE` for a new box or NULL.
    pub fn dlock_event_type(event: *const dlock_event) -> i32;
    /// Write up to count numbers of the event (`DLOCK_FIELD_*`) to values. `*ret_count` is the number of fields
    /// that the library has.
    pub fn dlock_event_unpack(event: *const dlock_event, values: *mut i64, count: usize, ret_count: *mut usize, reterr: *mut dlock_error) -> dlock_status;
    /// The sentence or id of the event; "" without one.
    pub fn dlock_event_text(event: *const dlock_event) -> *const c_char;
    /// Copy the bytes of the event into buffer; those of `dlock_txn_submit_get`, `dlock_client_submit_list` and
    /// `dlock_lock_submit_export_grant` have some. `*ret_size` is their number, also after
    /// `DLOCK_BUFFER_TOO_SMALL`. buffer may be NULL when size is 0.
    pub fn dlock_event_data(event: *const dlock_event, buffer: *mut u8, size: usize, ret_size: *mut usize, reterr: *mut dlock_error) -> dlock_status;
    /// A handle for optimistic transactions: watch keys, read them, queue writes, commit. The commit does all
    /// writes at once, or none when somebody has changed a watched key. Nobody has to wait for it. Keys are the
    /// server's own, 1 to 65536 bytes of any kind; the namespace of locks does not apply. Nothing is sent yet.
    ///
    /// The handle serves one round after the other. `dlock_txn_watch` begins a round; commit, rollback or a failure
    /// of the connection ends it. On Redis a round has a connection of its own: one of an earlier round, or a new
    /// one within the budget of `connects_per_second`. Up to 8 of them stay with the client between rounds, for any
    /// handle. A connection is closed after any failure, by `dlock_txn_free` in the middle of its round, and by
    /// `dlock_client_close`. On etcd all rounds share the client's connection, and what was lost with it is sent
    /// again.
    pub fn dlock_txn_new(client: *mut dlock_client, ret_txn: *mut *mut dlock_txn, reterr: *mut dlock_error) -> dlock_status;
    /// Give the handle back. NULL is fine. What was not committed is dropped, and nothing stays watched.
    pub fn dlock_txn_free(txn: *mut dlock_txn);
    /// Watch a key before you read it. The first call begins a round. A key that does not exist can be watched,
    /// too; one that expires counts as changed. On etcd a key that was made and deleted again since it was found
    /// absent does not.
    pub fn dlock_txn_watch(txn: *mut dlock_txn, key: *const c_char, key_size: usize, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_txn_watch`, but the result comes as an event. `dlock_txn_free` is allowed meanwhile: the call ends
    /// as it would.
    pub fn dlock_txn_submit_watch(txn: *mut dlock_txn, key: *const c_char, key_size: usize, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Read the value of a key, at most 1 MiB. Values that are read one after the other may belong to different
    /// moments; only the commit says that those of the watched keys belonged together. On etcd the value of a
    /// watched key is that at its watch. `*ret_size` is the size of the value, also after `DLOCK_BUFFER_TOO_SMALL`:
    /// call again with more room. buffer may be NULL when size is 0.
    pub fn dlock_txn_get(txn: *mut dlock_txn, key: *const c_char, key_size: usize, buffer: *mut u8, size: usize, ret_size: *mut usize, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_txn_get`, but the result comes as an event with the value, see `dlock_event_data`.
    /// `DLOCK_FIELD_VALUE` is its size in bytes.
    pub fn dlock_txn_submit_get(txn: *mut dlock_txn, key: *const c_char, key_size: usize, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Queue a write: the key gets a value of at most 1 MiB, which expires after `ttl_ms`. -1: it never expires,
    /// whatever it did before. On etcd `ttl_ms` is rounded up to whole seconds, and to the shortest lease that the
    /// server grants. Nothing is sent before the commit. The round goes on after an error.
    pub fn dlock_txn_set(txn: *mut dlock_txn, key: *const c_char, key_size: usize, value: *const u8, value_size: usize, ttl_ms: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Queue a write: add by to the decimal number in the key. A key that does not exist counts as 0. Errors are
    /// those of `dlock_txn_set`.
    pub fn dlock_txn_incr(txn: *mut dlock_txn, key: *const c_char, key_size: usize, by: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Queue a write: delete the key, if it exists. Errors are those of `dlock_txn_set`.
    pub fn dlock_txn_delete(txn: *mut dlock_txn, key: *const c_char, key_size: usize, reterr: *mut dlock_error) -> dlock_status;
    /// Do all writes in their order, with nothing in between. Without writes: find out whether what was read still
    /// holds. The round is over after any answer.
    pub fn dlock_txn_commit(txn: *mut dlock_txn, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_txn_commit`, but the result comes as an event.
    pub fn dlock_txn_submit_commit(txn: *mut dlock_txn, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// Drop what was queued and watched. Without a round nothing is done. The connection stays for the next round.
    pub fn dlock_txn_rollback(txn: *mut dlock_txn, reterr: *mut dlock_error) -> dlock_status;
    /// As `dlock_txn_rollback`, but the result comes as an event.
    pub fn dlock_txn_submit_rollback(txn: *mut dlock_txn, tag: i64, reterr: *mut dlock_error) -> dlock_status;
    /// How many milliseconds to pause after `DLOCK_CONFLICT`, before everything begins again from `dlock_txn_watch`
    /// on. The pause is random, so that two transactions that met do not meet again. Its bound doubles with every
    /// attempt, counted from 1, up to 250 ms.
    pub fn dlock_txn_pause_ms(attempt: i32) -> i64;
}
