// Written by abi/gen.py from abi/dlock.json: do not edit.

//! The calls of the library as safe methods of handles. All unsafe code of the crate is here.
use crate::Error;
use dlock_sys as sys;
use std::ffi::{CStr, CString};
use std::os::raw::c_char;
use std::os::unix::io::{BorrowedFd, OwnedFd};
use std::ptr::{null, null_mut, NonNull};

thread_local! {
    static BOX: ErrorBox = ErrorBox(unsafe { sys::dlock_error_new() });
}

/// The error box of a thread; null without memory, which every call accepts.
struct ErrorBox(*mut sys::dlock_error);

impl Drop for ErrorBox {
    fn drop(&mut self) {
        unsafe { sys::dlock_error_free(self.0) }
    }
}

/// Makes a call with the box of this thread. A thread that ends has none any more.
fn call(f: impl FnOnce(*mut sys::dlock_error) -> i32) -> Result<(), Error> {
    let mut f = Some(f);
    let mut run = |b: *mut sys::dlock_error| match f.take().map_or(0, |f| f(b)) {
        sys::DLOCK_OK => Ok(()),
        status => Err(Error::new(status, if b.is_null() { "" } else { unsafe { text(sys::dlock_error_message(b)) } })),
    };
    match BOX.try_with(|b| b.0) {
        Ok(b) => run(b),
        Err(_) => run(null_mut()),
    }
}

/// Text of the library. It must live as long as the result is used.
unsafe fn text<'a>(from: *const c_char) -> &'a str {
    if from.is_null() { "" } else { CStr::from_ptr(from).to_str().unwrap_or("") }
}

fn terminated(from: &str) -> Result<CString, Error> {
    CString::new(from).map_err(|_| Error::new(sys::DLOCK_INVALID_ARGUMENT, "text may not have a NUL"))
}

impl Client {
    /// A duplicate of the descriptor, which is polled and closed apart from the client.
    pub fn descriptor(&self) -> Result<OwnedFd, Error> {
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd()?) };
        fd.try_clone_to_owned().map_err(|e| Error::new(sys::DLOCK_SYSTEM_ERROR, &e.to_string()))
    }
}

#[derive(Debug)]
pub struct Options(NonNull<sys::dlock_options>);

unsafe impl Send for Options {}

impl Drop for Options {
    fn drop(&mut self) {
        unsafe { sys::dlock_options_free(self.0.as_ptr()) }
    }
}

#[derive(Debug)]
pub struct Client(NonNull<sys::dlock_client>);

unsafe impl Send for Client {}
unsafe impl Sync for Client {}

impl Drop for Client {
    fn drop(&mut self) {
        unsafe { sys::dlock_client_free(self.0.as_ptr()) }
    }
}

#[derive(Debug)]
pub struct Lock(NonNull<sys::dlock_lock>);

unsafe impl Send for Lock {}
unsafe impl Sync for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        unsafe { sys::dlock_lock_free(self.0.as_ptr()) }
    }
}

#[derive(Debug)]
pub struct Event(NonNull<sys::dlock_event>);

unsafe impl Send for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        unsafe { sys::dlock_event_free(self.0.as_ptr()) }
    }
}

#[derive(Debug)]
pub struct Txn(NonNull<sys::dlock_txn>);

unsafe impl Send for Txn {}

impl Drop for Txn {
    fn drop(&mut self) {
        unsafe { sys::dlock_txn_free(self.0.as_ptr()) }
    }
}

/// The version of the loaded library: major * 65536 + minor * 256 + patch.
pub fn version() -> u32 {
    unsafe { sys::dlock_version() }
}
/// The version of the loaded library as text, for example "0.1.0".
pub fn version_string() -> &'static str {
    unsafe { text(sys::dlock_version_string()) }
}
/// 1 if this build has the named feature, 0 if not or if the name is unknown. Features: "mutex", "fair",
/// "read", "write", "semaphore", "`permit_semaphore`", "latch", "gate", "transaction", "fencing", "watchdog",
/// "handover", "redisson", "tcp", "unix", "tls", "sentinel", "cluster", "quorum", "etcd", "zookeeper",
/// "memory".
pub fn supports(feature: &str) -> i32 {
    let feature = terminated(feature).unwrap_or_default();
    unsafe { sys::dlock_supports(feature.as_ptr()) }
}
/// The number of statuses this library can return.
pub fn status_count() -> usize {
    unsafe { sys::dlock_status_count() }
}
/// The status at place index of the table, counted from 0; `DLOCK_INVALID_ARGUMENT` past its end.
pub fn status_at(index: usize) -> i32 {
    unsafe { sys::dlock_status_at(index) }
}
/// The name of a status, for example "`TIMED_OUT`"; "UNKNOWN" for a number that is not in the table.
pub fn status_name(status: i32) -> &'static str {
    unsafe { text(sys::dlock_status_name(status)) }
}
/// One sentence about what a status means.
pub fn status_text(status: i32) -> &'static str {
    unsafe { text(sys::dlock_status_text(status)) }
}
/// 1 if the same call may succeed later without a change by the caller, else 0. Works for the status of a call
/// and of an event.
pub fn status_retryable(status: i32) -> i32 {
    unsafe { sys::dlock_status_retryable(status) }
}
/// The number of options.
pub fn option_count() -> usize {
    unsafe { sys::dlock_option_count() }
}
/// The name of the option at place index, counted from 0; NULL past the end.
pub fn option_name(index: usize) -> &'static str {
    unsafe { text(sys::dlock_option_name(index)) }
}
/// The type and range of the option at place index as text, for example "integer 100..86400000"; NULL past the
/// end.
pub fn option_type(index: usize) -> &'static str {
    unsafe { text(sys::dlock_option_type(index)) }
}
/// The default of the option at place index as text; NULL past the end.
pub fn option_default(index: usize) -> &'static str {
    unsafe { text(sys::dlock_option_default(index)) }
}
/// One sentence about the option at place index; NULL past the end.
pub fn option_help(index: usize) -> &'static str {
    unsafe { text(sys::dlock_option_help(index)) }
}
/// The name of a finding, for example "EVICTION"; "UNKNOWN" for other numbers. The text lives as long as the
/// library.
pub fn finding_name(finding: i32) -> &'static str {
    unsafe { text(sys::dlock_finding_name(finding)) }
}
/// How many milliseconds to pause after `DLOCK_CONFLICT`, before everything begins again from `dlock_txn_watch`
/// on. The pause is random, so that two transactions that met do not meet again. Its bound doubles with every
/// attempt, counted from 1, up to 250 ms.
pub fn txn_pause_ms(attempt: i32) -> i64 {
    unsafe { sys::dlock_txn_pause_ms(attempt) }
}
impl Options {
    /// A new set of options, all at their defaults; NULL without memory. A call that takes a set copies what it
    /// needs.
    pub fn new() -> Option<Self> {
        NonNull::new(unsafe { sys::dlock_options_new() }).map(Self)
    }
    /// Set one option from text. After an error the set is unchanged.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let name = terminated(name)?;
        let value = terminated(value)?;
        call(|reterr| unsafe { sys::dlock_options_set(self.0.as_ptr(), name.as_ptr(), value.as_ptr(), reterr) })
    }
    /// Copy the value of one option as text, with a terminator, into buffer. A secret reads "***". `*ret_size` is
    /// the length without the terminator.
    pub fn get(&self, name: &str, buffer: &mut [u8]) -> Result<usize, Error> {
        let name = terminated(name)?;
        let mut ret_size = 0;
        call(|reterr| unsafe { sys::dlock_options_get(self.0.as_ptr(), name.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len(), &mut ret_size, reterr) })?;
        Ok(ret_size)
    }
}

impl Client {
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
    pub fn open(url: &str, options: Option<&Options>) -> Result<Self, Error> {
        let url = terminated(url)?;
        let mut ret_client = null_mut();
        call(|reterr| unsafe { sys::dlock_client_open(url.as_ptr(), options.map_or(null(), |one| one.0.as_ptr() as *const _), &mut ret_client, reterr) })?;
        Ok(Client(NonNull::new(ret_client).ok_or_else(Error::unmade)?))
    }
    /// End the client's work. Waiting calls end with `DLOCK_CLOSED`, held locks are released on the server, threads
    /// stop, and later calls return `DLOCK_CLOSED`. Closing twice is fine.
    pub fn close(&self, timeout_ms: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_client_close(self.0.as_ptr(), timeout_ms, reterr) })
    }
    /// `dlock_client_close` without waiting. It is over when `dlock_client_next` returns `DLOCK_CLOSED`. When the
    /// server does not confirm every release within `timeout_ms`, a `DLOCK_EVENT_LOG` with the status
    /// `DLOCK_TIMED_OUT` comes before that.
    pub fn submit_close(&self, timeout_ms: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_client_submit_close(self.0.as_ptr(), timeout_ms, reterr) })
    }
    /// The descriptor for poll or epoll. It is readable while events or a `dlock_client_wake` are pending, and for
    /// ever once `dlock_client_next` has returned `DLOCK_CLOSED`: stop polling then. Poll it or dup it; never read
    /// or close it.
    pub fn fd(&self) -> Result<i32, Error> {
        let mut ret_fd = 0;
        call(|reterr| unsafe { sys::dlock_client_fd(self.0.as_ptr(), &mut ret_fd, reterr) })?;
        Ok(ret_fd)
    }
    /// Move the oldest event into the box.
    pub fn next(&self, timeout_ms: i64, event: &mut Event) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_client_next(self.0.as_ptr(), timeout_ms, event.0.as_ptr(), reterr) })
    }
    /// End one wait in `dlock_client_next`: the present one, or the next.
    pub fn wake(&self) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_client_wake(self.0.as_ptr(), reterr) })
    }
    /// Write up to count counters (`DLOCK_STAT_*`) to values. `*ret_count` is the number of counters that the
    /// library has.
    pub fn stats(&self, values: &mut [i64]) -> Result<usize, Error> {
        let mut ret_count = 0;
        call(|reterr| unsafe { sys::dlock_client_stats(self.0.as_ptr(), values.as_mut_ptr(), values.len(), &mut ret_count, reterr) })?;
        Ok(ret_count)
    }
    /// Copy the counters and histograms of the client as `OpenMetrics` text, with a terminator, into buffer.
    /// `*ret_size` is the length without the terminator. Histograms: how long requests waited and locks were held,
    /// how late renewals were sent and what was left of the lease then, and how many hand-overs a grant served.
    pub fn metrics(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut ret_size = 0;
        call(|reterr| unsafe { sys::dlock_client_metrics(self.0.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len(), &mut ret_size, reterr) })?;
        Ok(ret_size)
    }
    /// Ask the server whether it answers. That shows a wrong address or wrong credentials early.
    pub fn ping(&self, timeout_ms: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_client_ping(self.0.as_ptr(), timeout_ms, reterr) })
    }
    /// As `dlock_client_ping`, but the result comes as an event.
    pub fn submit_ping(&self, timeout_ms: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_client_submit_ping(self.0.as_ptr(), timeout_ms, tag, reterr) })
    }
    /// Tell the server that it remembers all of its locks. That ends a quarantine (option `quarantine_ms`), and
    /// makes this client's `quarantine_ms` the longest lease of all clients. Use it for a new server, when nobody
    /// can hold a lock that it has forgotten. Make the longest lease shorter only when no lock with a longer one is
    /// held. On a cluster every primary is told for each of its slots; after a failure midway, the slots that were
    /// told stay told.
    pub fn provision(&self, timeout_ms: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_client_provision(self.0.as_ptr(), timeout_ms, reterr) })
    }
    /// As `dlock_client_provision`, but the result comes as an event.
    pub fn submit_provision(&self, timeout_ms: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_client_submit_provision(self.0.as_ptr(), timeout_ms, tag, reterr) })
    }
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
    pub fn list(&self, cursor: i64, timeout_ms: i64, buffer: &mut [u8]) -> Result<(usize, i64), Error> {
        let mut ret_size = 0;
        let mut ret_cursor = 0;
        call(|reterr| unsafe { sys::dlock_client_list(self.0.as_ptr(), cursor, timeout_ms, buffer.as_mut_ptr(), buffer.len(), &mut ret_size, &mut ret_cursor, reterr) })?;
        Ok((ret_size, ret_cursor))
    }
    /// As `dlock_client_list`, but the result comes as an event: `DLOCK_FIELD_VALUE` is the next cursor,
    /// `dlock_event_data` has the names.
    pub fn submit_list(&self, cursor: i64, timeout_ms: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_client_submit_list(self.0.as_ptr(), cursor, timeout_ms, tag, reterr) })
    }
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
    pub fn fault(&self, what: &str, name: &[u8], value: i64) -> Result<(), Error> {
        let what = terminated(what)?;
        call(|reterr| unsafe { sys::dlock_client_fault(self.0.as_ptr(), what.as_ptr(), name.as_ptr().cast(), name.len(), value, reterr) })
    }
    /// Check whether the server is fit to keep locks: eviction, persistence, version, role, replicas, clock, and
    /// the rights that a mutex needs, tried on a name of its own. On a cluster every primary and replica is
    /// checked, on a quorum every server, on etcd and `ZooKeeper` every member; findings begin with the server's
    /// name there. `*ret_count` is the number of findings for `dlock_client_finding`; they stay until the next
    /// check. The option checks does the same when a client is opened.
    pub fn check(&self, timeout_ms: i64) -> Result<usize, Error> {
        let mut ret_count = 0;
        call(|reterr| unsafe { sys::dlock_client_check(self.0.as_ptr(), timeout_ms, &mut ret_count, reterr) })?;
        Ok(ret_count)
    }
    /// As `dlock_client_check`, but the result comes as an event; `DLOCK_FIELD_VALUE` is the number of findings.
    pub fn submit_check(&self, timeout_ms: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_client_submit_check(self.0.as_ptr(), timeout_ms, tag, reterr) })
    }
    /// Put the finding at place index of the last check into an event box of the caller: the type is
    /// `DLOCK_EVENT_FINDING`, `DLOCK_FIELD_VALUE` is `DLOCK_FINDING_*`, `DLOCK_FIELD_CAUSE` is `DLOCK_SEVERITY_*`,
    /// and the text is a sentence with advice.
    pub fn finding(&self, index: usize, event: &mut Event) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_client_finding(self.0.as_ptr(), index, event.0.as_ptr(), reterr) })
    }
    /// A handle on the lock called name. Nothing is sent. options may be NULL; its values win over those of the
    /// client. A name has 1 to 1024 bytes without NUL, including the namespace and its colon. Braces must form a
    /// hash tag that Redis and Redisson read alike.
    pub fn lock_new(&self, kind: i32, name: &[u8], options: Option<&Options>) -> Result<Lock, Error> {
        let mut ret_lock = null_mut();
        call(|reterr| unsafe { sys::dlock_lock_new(self.0.as_ptr(), kind, name.as_ptr().cast(), name.len(), options.map_or(null(), |one| one.0.as_ptr() as *const _), &mut ret_lock, reterr) })?;
        Ok(Lock(NonNull::new(ret_lock).ok_or_else(Error::unmade)?))
    }
    /// A handle for 1 to 16 locks of client that are acquired and released as one: all or none. Members are
    /// mutexes, fair, read or write locks; their handles may be freed afterwards. Members are taken in the order of
    /// their names, the same in every process, so two multi-locks never wait for each other. Free mutexes that
    /// share a slot are taken in one step. The token is the largest of the members' tokens; their own handles tell
    /// theirs. The message of a failure names the member that stood in the way.
    ///
    /// After `DLOCK_INTERRUPTED` the members acquired so far are kept: call again to go on, or `dlock_lock_cancel`
    /// to give them back.
    pub fn lock_new_multi(&self, members: &[&Lock]) -> Result<Lock, Error> {
        let mut members: Vec<_> = members.iter().map(|one| one.0.as_ptr()).collect();
        let mut ret_lock = null_mut();
        call(|reterr| unsafe { sys::dlock_lock_new_multi(self.0.as_ptr(), members.as_mut_ptr(), members.len(), &mut ret_lock, reterr) })?;
        Ok(Lock(NonNull::new(ret_lock).ok_or_else(Error::unmade)?))
    }
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
    pub fn txn_new(&self) -> Result<Txn, Error> {
        let mut ret_txn = null_mut();
        call(|reterr| unsafe { sys::dlock_txn_new(self.0.as_ptr(), &mut ret_txn, reterr) })?;
        Ok(Txn(NonNull::new(ret_txn).ok_or_else(Error::unmade)?))
    }
}

impl Lock {
    /// The number of the lock in events, unique within the client; 0 for NULL.
    pub fn id(&self) -> i64 {
        unsafe { sys::dlock_lock_id(self.0.as_ptr()) }
    }
    /// Acquire for owner, waiting up to `wait_ms`. On `DLOCK_OK` `*ret_token` is the fencing token. After any other
    /// answer but `DLOCK_INTERRUPTED` nothing is held; a grant that the server made meanwhile is given back in the
    /// background.
    ///
    /// With the option interruptible the call ends with `DLOCK_INTERRUPTED` when a signal was handled, and after
    /// each second of waiting, because a signal may come before the wait begins. The request keeps its place. Call
    /// again, or `dlock_lock_submit_acquire`, to go on waiting; or cancel it. Without that it ends when `wait_ms`
    /// is over, and a grant that it got goes back.
    pub fn acquire(&self, owner: i64, wait_ms: i64) -> Result<i64, Error> {
        let mut ret_token = 0;
        call(|reterr| unsafe { sys::dlock_lock_acquire(self.0.as_ptr(), owner, wait_ms, &mut ret_token, reterr) })?;
        Ok(ret_token)
    }
    /// Release one hold of owner. The last release gives the lock to the next waiter. After any answer, owner holds
    /// nothing at this level.
    pub fn release(&self, owner: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_release(self.0.as_ptr(), owner, reterr) })
    }
    /// `dlock_lock_acquire` without the network: for re-entry, and for a lock that lingers (`linger_ms`).
    pub fn acquire_local(&self, owner: i64) -> Result<i64, Error> {
        let mut ret_token = 0;
        call(|reterr| unsafe { sys::dlock_lock_acquire_local(self.0.as_ptr(), owner, &mut ret_token, reterr) })?;
        Ok(ret_token)
    }
    /// `dlock_lock_release` without the network: for an inner level, and for a hand-over to a waiter in this
    /// process.
    pub fn release_local(&self, owner: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_release_local(self.0.as_ptr(), owner, reterr) })
    }
    /// Ask for the lock. `DLOCK_EVENT_ACQUIRED` or `DLOCK_EVENT_ACQUIRE_FAILED` with tag follows in the event
    /// queue, exactly once. It also continues a `dlock_lock_acquire` of owner that ended with `DLOCK_INTERRUPTED`.
    pub fn submit_acquire(&self, owner: i64, wait_ms: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_submit_acquire(self.0.as_ptr(), owner, wait_ms, tag, reterr) })
    }
    /// Ask for a release. `DLOCK_EVENT_RELEASED` or `DLOCK_EVENT_RELEASE_FAILED` with tag follows, exactly once. A
    /// failure that is known at once (`DLOCK_NOT_HELD`, `DLOCK_LOST`, ...) is returned, and no event follows.
    pub fn submit_release(&self, owner: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_submit_release(self.0.as_ptr(), owner, tag, reterr) })
    }
    /// Ask for the lock, and return the answer if it is there at once: then no event follows, and `*ret_token` and
    /// the statuses are those of `dlock_lock_acquire`. For a multi-lock the answer is always an event.
    pub fn begin_acquire(&self, owner: i64, wait_ms: i64, tag: i64) -> Result<i64, Error> {
        let mut ret_token = 0;
        call(|reterr| unsafe { sys::dlock_lock_begin_acquire(self.0.as_ptr(), owner, wait_ms, tag, &mut ret_token, reterr) })?;
        Ok(ret_token)
    }
    /// Ask for a release, and return the answer if it is there at once, with the statuses of `dlock_lock_release`.
    pub fn begin_release(&self, owner: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_begin_release(self.0.as_ptr(), owner, tag, reterr) })
    }
    /// End the wait of owner: it gets `DLOCK_CANCELLED`. A blocking acquire in the middle of a round trip returns
    /// when that ends.
    pub fn cancel(&self, owner: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_cancel(self.0.as_ptr(), owner, reterr) })
    }
    /// Make the server keep the lock for at least `lease_ms` from now. Later renewals use the new lease, too.
    pub fn extend(&self, owner: i64, lease_ms: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_extend(self.0.as_ptr(), owner, lease_ms, reterr) })
    }
    /// As `dlock_lock_extend`, but the result comes as an event. A failure that is known at once (`DLOCK_NOT_HELD`,
    /// `DLOCK_LOST`, ...) is returned, and no event follows.
    pub fn submit_extend(&self, owner: i64, lease_ms: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_submit_extend(self.0.as_ptr(), owner, lease_ms, tag, reterr) })
    }
    /// Take the lock away from its holder, in any process, and wake the next waiter. The holder is not told. It
    /// gets `DLOCK_EVENT_LOST` at its next renewal, up to a third of its lease later, and until then believes that
    /// it holds the lock beside the next holder. Only the token tells them apart.
    pub fn force_release(&self) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_force_release(self.0.as_ptr(), reterr) })
    }
    /// As `dlock_lock_force_release`, but the result comes as an event.
    pub fn submit_force_release(&self, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_submit_force_release(self.0.as_ptr(), tag, reterr) })
    }
    /// What owner has (`DLOCK_STATE_*`), by the clock at this instant. HELD and `AT_RISK` are never the answer
    /// after the deadline.
    pub fn state(&self, owner: i64) -> Result<i32, Error> {
        let mut ret_state = 0;
        call(|reterr| unsafe { sys::dlock_lock_state(self.0.as_ptr(), owner, &mut ret_state, reterr) })?;
        Ok(ret_state)
    }
    /// How many milliseconds owner may still trust its grant without another renewal. Guard and drift are taken
    /// off, and `max_hold_ms` counts. -1: without end (plain semaphore).
    pub fn remaining_ms(&self, owner: i64) -> Result<i64, Error> {
        let mut ret_remaining_ms = 0;
        call(|reterr| unsafe { sys::dlock_lock_remaining_ms(self.0.as_ptr(), owner, &mut ret_remaining_ms, reterr) })?;
        Ok(ret_remaining_ms)
    }
    /// The fencing token of the grant of owner.
    pub fn token(&self, owner: i64) -> Result<i64, Error> {
        let mut ret_token = 0;
        call(|reterr| unsafe { sys::dlock_lock_token(self.0.as_ptr(), owner, &mut ret_token, reterr) })?;
        Ok(ret_token)
    }
    /// How often owner holds the lock; 0 when it does not.
    pub fn hold_count(&self, owner: i64) -> Result<i64, Error> {
        let mut ret_count = 0;
        call(|reterr| unsafe { sys::dlock_lock_hold_count(self.0.as_ptr(), owner, &mut ret_count, reterr) })?;
        Ok(ret_count)
    }
    /// Ask the server who holds the lock. The box gets `DLOCK_EVENT_INSPECTION`. Its text is the holder's id on the
    /// server, "" when the lock is free. `DLOCK_FIELD_TOKEN` is the highest token reserved so far, at least the
    /// holder's; `DLOCK_FIELD_REMAINING_MS` what is left of the lease; `DLOCK_FIELD_HELD_FOR_MS` how long it is
    /// held; `DLOCK_FIELD_WAITERS` the number of processes in line; `DLOCK_FIELD_FOREIGN` is 1 when the holder is
    /// not libdlock. Token and time held are -1 when the holder has had the lock for longer than `token_ttl_ms`.
    pub fn inspect(&self, event: &mut Event) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_inspect(self.0.as_ptr(), event.0.as_ptr(), reterr) })
    }
    /// As `dlock_lock_inspect`, but the result comes as an event: `DLOCK_EVENT_DONE` with the same numbers and
    /// text.
    pub fn submit_inspect(&self, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_submit_inspect(self.0.as_ptr(), tag, reterr) })
    }
    /// Export the grant of owner as `*ret_size` bytes. Another process can adopt them before the lease ends, which
    /// counts from this call. The bytes are a secret that works once: whoever has them first gets the lock. The
    /// server keeps a hash of them, and nothing else that it shows helps to adopt. On `DLOCK_OK` owner holds
    /// nothing here any more, and nothing is renewed. On any other status owner holds as before, unless the lock is
    /// lost, and nobody can adopt: no outcome is open. 512 bytes beyond the name always suffice.
    pub fn export_grant(&self, owner: i64, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut ret_size = 0;
        call(|reterr| unsafe { sys::dlock_lock_export_grant(self.0.as_ptr(), owner, buffer.as_mut_ptr(), buffer.len(), &mut ret_size, reterr) })?;
        Ok(ret_size)
    }
    /// As `dlock_lock_export_grant`, but the result comes as an event, and the bytes are its data
    /// (`dlock_event_data`). A failure that is known at once (`DLOCK_NOT_HELD`, `DLOCK_LOST`, `DLOCK_BUSY`) is
    /// returned, and no event follows.
    pub fn submit_export_grant(&self, owner: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_submit_export_grant(self.0.as_ptr(), owner, tag, reterr) })
    }
    /// Take over a grant that `dlock_lock_export_grant` gave out for the same name. It keeps its token. The first
    /// client gets it. Token and lease are what the server was told at the export. `DLOCK_UNREACHABLE` leaves open
    /// what the server did; the adoption is then undone in the background. Any client may then adopt the bytes
    /// until the lease ends; this client need not wait for the undo.
    pub fn adopt_grant(&self, owner: i64, grant: &[u8]) -> Result<i64, Error> {
        let mut ret_token = 0;
        call(|reterr| unsafe { sys::dlock_lock_adopt_grant(self.0.as_ptr(), owner, grant.as_ptr(), grant.len(), &mut ret_token, reterr) })?;
        Ok(ret_token)
    }
    /// As `dlock_lock_adopt_grant`, but the result comes as an event, with the token. A failure that is known at
    /// once (`DLOCK_INVALID_GRANT`, `DLOCK_BUSY`) is returned, and no event follows. The bytes may be freed when
    /// the call returns.
    pub fn submit_adopt_grant(&self, owner: i64, grant: &[u8], tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_submit_adopt_grant(self.0.as_ptr(), owner, grant.as_ptr(), grant.len(), tag, reterr) })
    }
    /// Close the gate of the lock for `ttl_ms`, 1 to 31536000000 (a year). Every waiter for the lock, in any
    /// process, gets `DLOCK_GATE_CLOSED`, and so does every later request, until the gate is opened or the time is
    /// over. The holder goes on. Closing a closed gate sets its time anew.
    pub fn close_gate(&self, ttl_ms: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_close_gate(self.0.as_ptr(), ttl_ms, reterr) })
    }
    /// As `dlock_lock_close_gate`, but the result comes as an event.
    pub fn submit_close_gate(&self, ttl_ms: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_submit_close_gate(self.0.as_ptr(), ttl_ms, tag, reterr) })
    }
    /// Open the gate of the lock.
    pub fn open_gate(&self) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_open_gate(self.0.as_ptr(), reterr) })
    }
    /// As `dlock_lock_open_gate`, but the result comes as an event.
    pub fn submit_open_gate(&self, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_lock_submit_open_gate(self.0.as_ptr(), tag, reterr) })
    }
    /// Give a semaphore that does not exist yet its permits, 1 to 2^31 - 1.
    pub fn semaphore_set(&self, permits: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_semaphore_set(self.0.as_ptr(), permits, reterr) })
    }
    /// As `dlock_semaphore_set`, but the result comes as an event.
    pub fn semaphore_submit_set(&self, permits: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_semaphore_submit_set(self.0.as_ptr(), permits, tag, reterr) })
    }
    /// Add permits, or take them away for good when permits is negative. `*ret_available` is what is free now; it
    /// may be below zero.
    pub fn semaphore_add(&self, permits: i64) -> Result<i64, Error> {
        let mut ret_available = 0;
        call(|reterr| unsafe { sys::dlock_semaphore_add(self.0.as_ptr(), permits, &mut ret_available, reterr) })?;
        Ok(ret_available)
    }
    /// As `dlock_semaphore_add`, but the result comes as an event; its value is what is free now.
    pub fn semaphore_submit_add(&self, permits: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_semaphore_submit_add(self.0.as_ptr(), permits, tag, reterr) })
    }
    /// Take all free permits for good. `*ret_drained` is their number. When fewer than zero were free, permits are
    /// added until zero are free, as with Redisson.
    pub fn semaphore_drain(&self) -> Result<i64, Error> {
        let mut ret_drained = 0;
        call(|reterr| unsafe { sys::dlock_semaphore_drain(self.0.as_ptr(), &mut ret_drained, reterr) })?;
        Ok(ret_drained)
    }
    /// As `dlock_semaphore_drain`, but the result comes as an event; its value is how many permits were taken.
    pub fn semaphore_submit_drain(&self, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_semaphore_submit_drain(self.0.as_ptr(), tag, reterr) })
    }
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
    pub fn semaphore_reclaim(&self, silent_ms: i64) -> Result<i64, Error> {
        let mut ret_reclaimed = 0;
        call(|reterr| unsafe { sys::dlock_semaphore_reclaim(self.0.as_ptr(), silent_ms, &mut ret_reclaimed, reterr) })?;
        Ok(ret_reclaimed)
    }
    /// As `dlock_semaphore_reclaim`, but the result comes as an event; its value is how many permits came back.
    pub fn semaphore_submit_reclaim(&self, silent_ms: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_semaphore_submit_reclaim(self.0.as_ptr(), silent_ms, tag, reterr) })
    }
    /// The number of free permits.
    pub fn semaphore_available(&self) -> Result<i64, Error> {
        let mut ret_available = 0;
        call(|reterr| unsafe { sys::dlock_semaphore_available(self.0.as_ptr(), &mut ret_available, reterr) })?;
        Ok(ret_available)
    }
    /// As `dlock_semaphore_available`, but the result comes as an event; its value is how many permits are free.
    pub fn semaphore_submit_available(&self, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_semaphore_submit_available(self.0.as_ptr(), tag, reterr) })
    }
    /// The id of one permit of owner's last grant, as Redisson writes it: 32 hexadecimal digits and a terminator,
    /// 33 bytes. index counts from 0.
    pub fn semaphore_permit(&self, owner: i64, index: i64, buffer: &mut [u8]) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_semaphore_permit(self.0.as_ptr(), owner, index, buffer.as_mut_ptr().cast(), buffer.len(), reterr) })
    }
    /// Give an open latch its count, 1 to 2^31 - 1.
    pub fn latch_set(&self, count: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_latch_set(self.0.as_ptr(), count, reterr) })
    }
    /// As `dlock_latch_set`, but the result comes as an event.
    pub fn latch_submit_set(&self, count: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_latch_submit_set(self.0.as_ptr(), count, tag, reterr) })
    }
    /// Count down by count (at least 1), but not below zero. `*ret_count` is what is left. At zero every waiter
    /// goes on.
    pub fn latch_count_down(&self, count: i64) -> Result<i64, Error> {
        let mut ret_count = 0;
        call(|reterr| unsafe { sys::dlock_latch_count_down(self.0.as_ptr(), count, &mut ret_count, reterr) })?;
        Ok(ret_count)
    }
    /// As `dlock_latch_count_down`, but the result comes as an event; its value is what is left.
    pub fn latch_submit_count_down(&self, count: i64, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_latch_submit_count_down(self.0.as_ptr(), count, tag, reterr) })
    }
    /// The count. Zero: the latch is open.
    pub fn latch_count(&self) -> Result<i64, Error> {
        let mut ret_count = 0;
        call(|reterr| unsafe { sys::dlock_latch_count(self.0.as_ptr(), &mut ret_count, reterr) })?;
        Ok(ret_count)
    }
    /// As `dlock_latch_count`, but the result comes as an event; its value is the count.
    pub fn latch_submit_count(&self, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_latch_submit_count(self.0.as_ptr(), tag, reterr) })
    }
}

impl Event {
    /// A new, empty event box; NULL without memory.
    pub fn new() -> Option<Self> {
        NonNull::new(unsafe { sys::dlock_event_new() }).map(Self)
    }
    /// The type of the event in the box; `DLOCK_EVENT_NONE` for a new box or NULL.
    pub fn r#type(&self) -> i32 {
        unsafe { sys::dlock_event_type(self.0.as_ptr()) }
    }
    /// Write up to count numbers of the event (`DLOCK_FIELD_*`) to values. `*ret_count` is the number of fields
    /// that the library has.
    pub fn unpack(&self, values: &mut [i64]) -> Result<usize, Error> {
        let mut ret_count = 0;
        call(|reterr| unsafe { sys::dlock_event_unpack(self.0.as_ptr(), values.as_mut_ptr(), values.len(), &mut ret_count, reterr) })?;
        Ok(ret_count)
    }
    /// The sentence or id of the event; "" without one.
    pub fn text(&self) -> String {
        unsafe { text(sys::dlock_event_text(self.0.as_ptr())) }.to_owned()
    }
    /// Copy the bytes of the event into buffer; those of `dlock_txn_submit_get`, `dlock_client_submit_list` and
    /// `dlock_lock_submit_export_grant` have some. `*ret_size` is their number, also after
    /// `DLOCK_BUFFER_TOO_SMALL`. buffer may be NULL when size is 0.
    pub fn data(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut ret_size = 0;
        call(|reterr| unsafe { sys::dlock_event_data(self.0.as_ptr(), buffer.as_mut_ptr(), buffer.len(), &mut ret_size, reterr) })?;
        Ok(ret_size)
    }
}

impl Txn {
    /// Watch a key before you read it. The first call begins a round. A key that does not exist can be watched,
    /// too; one that expires counts as changed. On etcd a key that was made and deleted again since it was found
    /// absent does not.
    pub fn watch(&mut self, key: &[u8]) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_txn_watch(self.0.as_ptr(), key.as_ptr().cast(), key.len(), reterr) })
    }
    /// As `dlock_txn_watch`, but the result comes as an event. `dlock_txn_free` is allowed meanwhile: the call ends
    /// as it would.
    pub fn submit_watch(&mut self, key: &[u8], tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_txn_submit_watch(self.0.as_ptr(), key.as_ptr().cast(), key.len(), tag, reterr) })
    }
    /// Read the value of a key, at most 1 MiB. Values that are read one after the other may belong to different
    /// moments; only the commit says that those of the watched keys belonged together. On etcd the value of a
    /// watched key is that at its watch. `*ret_size` is the size of the value, also after `DLOCK_BUFFER_TOO_SMALL`:
    /// call again with more room. buffer may be NULL when size is 0.
    pub fn get(&mut self, key: &[u8], buffer: &mut [u8]) -> Result<usize, Error> {
        let mut ret_size = 0;
        call(|reterr| unsafe { sys::dlock_txn_get(self.0.as_ptr(), key.as_ptr().cast(), key.len(), buffer.as_mut_ptr(), buffer.len(), &mut ret_size, reterr) })?;
        Ok(ret_size)
    }
    /// As `dlock_txn_get`, but the result comes as an event with the value, see `dlock_event_data`.
    /// `DLOCK_FIELD_VALUE` is its size in bytes.
    pub fn submit_get(&mut self, key: &[u8], tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_txn_submit_get(self.0.as_ptr(), key.as_ptr().cast(), key.len(), tag, reterr) })
    }
    /// Queue a write: the key gets a value of at most 1 MiB, which expires after `ttl_ms`. -1: it never expires,
    /// whatever it did before. On etcd `ttl_ms` is rounded up to whole seconds, and to the shortest lease that the
    /// server grants. Nothing is sent before the commit. The round goes on after an error.
    pub fn set(&mut self, key: &[u8], value: &[u8], ttl_ms: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_txn_set(self.0.as_ptr(), key.as_ptr().cast(), key.len(), value.as_ptr(), value.len(), ttl_ms, reterr) })
    }
    /// Queue a write: add by to the decimal number in the key. A key that does not exist counts as 0. Errors are
    /// those of `dlock_txn_set`.
    pub fn incr(&mut self, key: &[u8], by: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_txn_incr(self.0.as_ptr(), key.as_ptr().cast(), key.len(), by, reterr) })
    }
    /// Queue a write: delete the key, if it exists. Errors are those of `dlock_txn_set`.
    pub fn delete(&mut self, key: &[u8]) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_txn_delete(self.0.as_ptr(), key.as_ptr().cast(), key.len(), reterr) })
    }
    /// Do all writes in their order, with nothing in between. Without writes: find out whether what was read still
    /// holds. The round is over after any answer.
    pub fn commit(&mut self) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_txn_commit(self.0.as_ptr(), reterr) })
    }
    /// As `dlock_txn_commit`, but the result comes as an event.
    pub fn submit_commit(&mut self, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_txn_submit_commit(self.0.as_ptr(), tag, reterr) })
    }
    /// Drop what was queued and watched. Without a round nothing is done. The connection stays for the next round.
    pub fn rollback(&mut self) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_txn_rollback(self.0.as_ptr(), reterr) })
    }
    /// As `dlock_txn_rollback`, but the result comes as an event.
    pub fn submit_rollback(&mut self, tag: i64) -> Result<(), Error> {
        call(|reterr| unsafe { sys::dlock_txn_submit_rollback(self.0.as_ptr(), tag, reterr) })
    }
}
