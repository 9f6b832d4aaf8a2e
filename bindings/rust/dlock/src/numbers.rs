// Written by abi/gen.py from abi/dlock.json: do not edit.

//! Statuses, kinds, states, causes and counters.

/// What kind of error it is: the statuses of the library but OK. A newer library may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Somebody else holds the lock and the caller did not want to wait.
    Busy,
    /// The caller's time to wait is over.
    TimedOut,
    /// The wait was cancelled.
    Cancelled,
    /// A signal was handled while waiting; call again to go on.
    Interrupted,
    /// This takes longer than a moment; use the call that may block, or wait for the event.
    WouldBlock,
    /// No event waits in the queue.
    NoEvent,
    /// The gate of the lock is closed: nobody acquires it until it is opened again.
    GateClosed,
    /// Somebody else changed a watched key; nothing was written.
    Conflict,
    /// There is no such key.
    NotFound,
    /// It was set before; nothing changed.
    Unchanged,
    /// An argument is outside of what the call accepts.
    InvalidArgument,
    /// The lock name is empty, too long, or holds bytes or braces that are refused.
    InvalidName,
    /// There is no option of this name.
    UnknownOption,
    /// The option does not accept this value.
    InvalidOption,
    /// The URL cannot be read.
    InvalidUrl,
    /// This lock, set-up or build of the library cannot do that.
    Unsupported,
    /// This process has no memory left.
    OutOfMemory,
    /// The client is closed.
    Closed,
    /// The client was used before the fork and belongs to the parent process.
    Forked,
    /// The result does not fit into the caller's buffer.
    BufferTooSmall,
    /// The operating system refused something the library needs.
    SystemError,
    /// A lock is named twice; each may be named once.
    DuplicateName,
    /// These servers cannot vote together.
    InvalidQuorum,
    /// The owner does not hold the lock.
    NotHeld,
    /// The owner held the lock and lost it before this call.
    Lost,
    /// The server uses the name for another kind of lock, or for something else.
    WrongKind,
    /// The request was sent, but no answer came: it may have been carried out, or may still be.
    UnknownOutcome,
    /// The bytes are not a grant of this lock.
    InvalidGrant,
    /// The owner holds the lock for reading; it must release that before it asks to write.
    UpgradeRefused,
    /// No transaction is under way: watch a key first.
    NoTransaction,
    /// The server cannot be reached or does not answer.
    Unreachable,
    /// The server refuses the credentials or does not permit the command.
    Denied,
    /// The server is loading its data, or waits for its primary.
    ServerLoading,
    /// The server is busy with a long script or has too many clients.
    ServerBusy,
    /// The server has reached its memory limit.
    ServerOutOfMemory,
    /// The server takes no writes: it is a replica, or it cannot save.
    ServerReadOnly,
    /// The server sent something that is not its protocol, or is larger than the library takes.
    ProtocolError,
    /// The server answered with an error.
    ServerError,
    /// TLS with the server failed, or the server did not prove its name.
    TlsFailed,
    /// The server belongs to another set-up than the URL says: use another scheme.
    WrongSetup,
    /// The server may have lost its memory: no lock is granted until all older leases have ended.
    Quarantined,
    /// The server keeps another longest lease than `quarantine_ms` says.
    LeaseRefused,
    /// Too few replicas confirmed in time: a grant is taken back, a renewal does not count.
    NotReplicated,
    /// The server gave a lower token than before: it lost its memory, and its clock is behind.
    ServerForgot,
    /// The server is not fit to keep locks.
    Unfit,
    /// A status that this crate does not know.
    Other(i32),
}

impl From<i32> for ErrorKind {
    fn from(number: i32) -> Self {
        match number {
            1 => Self::Busy,
            2 => Self::TimedOut,
            3 => Self::Cancelled,
            4 => Self::Interrupted,
            5 => Self::WouldBlock,
            6 => Self::NoEvent,
            7 => Self::GateClosed,
            8 => Self::Conflict,
            9 => Self::NotFound,
            10 => Self::Unchanged,
            -100 => Self::InvalidArgument,
            -101 => Self::InvalidName,
            -102 => Self::UnknownOption,
            -103 => Self::InvalidOption,
            -104 => Self::InvalidUrl,
            -105 => Self::Unsupported,
            -106 => Self::OutOfMemory,
            -107 => Self::Closed,
            -108 => Self::Forked,
            -109 => Self::BufferTooSmall,
            -110 => Self::SystemError,
            -111 => Self::DuplicateName,
            -112 => Self::InvalidQuorum,
            -200 => Self::NotHeld,
            -201 => Self::Lost,
            -202 => Self::WrongKind,
            -203 => Self::UnknownOutcome,
            -204 => Self::InvalidGrant,
            -205 => Self::UpgradeRefused,
            -207 => Self::NoTransaction,
            -300 => Self::Unreachable,
            -301 => Self::Denied,
            -302 => Self::ServerLoading,
            -303 => Self::ServerBusy,
            -304 => Self::ServerOutOfMemory,
            -305 => Self::ServerReadOnly,
            -306 => Self::ProtocolError,
            -307 => Self::ServerError,
            -310 => Self::TlsFailed,
            -311 => Self::WrongSetup,
            -312 => Self::Quarantined,
            -313 => Self::LeaseRefused,
            -314 => Self::NotReplicated,
            -315 => Self::ServerForgot,
            -316 => Self::Unfit,
            other => Self::Other(other),
        }
    }
}

impl From<ErrorKind> for i32 {
    fn from(one: ErrorKind) -> Self {
        match one {
            ErrorKind::Busy => 1,
            ErrorKind::TimedOut => 2,
            ErrorKind::Cancelled => 3,
            ErrorKind::Interrupted => 4,
            ErrorKind::WouldBlock => 5,
            ErrorKind::NoEvent => 6,
            ErrorKind::GateClosed => 7,
            ErrorKind::Conflict => 8,
            ErrorKind::NotFound => 9,
            ErrorKind::Unchanged => 10,
            ErrorKind::InvalidArgument => -100,
            ErrorKind::InvalidName => -101,
            ErrorKind::UnknownOption => -102,
            ErrorKind::InvalidOption => -103,
            ErrorKind::InvalidUrl => -104,
            ErrorKind::Unsupported => -105,
            ErrorKind::OutOfMemory => -106,
            ErrorKind::Closed => -107,
            ErrorKind::Forked => -108,
            ErrorKind::BufferTooSmall => -109,
            ErrorKind::SystemError => -110,
            ErrorKind::DuplicateName => -111,
            ErrorKind::InvalidQuorum => -112,
            ErrorKind::NotHeld => -200,
            ErrorKind::Lost => -201,
            ErrorKind::WrongKind => -202,
            ErrorKind::UnknownOutcome => -203,
            ErrorKind::InvalidGrant => -204,
            ErrorKind::UpgradeRefused => -205,
            ErrorKind::NoTransaction => -207,
            ErrorKind::Unreachable => -300,
            ErrorKind::Denied => -301,
            ErrorKind::ServerLoading => -302,
            ErrorKind::ServerBusy => -303,
            ErrorKind::ServerOutOfMemory => -304,
            ErrorKind::ServerReadOnly => -305,
            ErrorKind::ProtocolError => -306,
            ErrorKind::ServerError => -307,
            ErrorKind::TlsFailed => -310,
            ErrorKind::WrongSetup => -311,
            ErrorKind::Quarantined => -312,
            ErrorKind::LeaseRefused => -313,
            ErrorKind::NotReplicated => -314,
            ErrorKind::ServerForgot => -315,
            ErrorKind::Unfit => -316,
            ErrorKind::Other(other) => other,
        }
    }
}

/// A kind of lock. A newer library may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `DLOCK_KIND_MUTEX`.
    Mutex,
    /// `DLOCK_KIND_FAIR`.
    Fair,
    /// `DLOCK_KIND_READ`.
    Read,
    /// `DLOCK_KIND_WRITE`.
    Write,
    /// `DLOCK_KIND_SEMAPHORE`.
    Semaphore,
    /// `DLOCK_KIND_PERMIT_SEMAPHORE`.
    PermitSemaphore,
    /// `DLOCK_KIND_LATCH`.
    Latch,
    /// `DLOCK_KIND_MULTI`.
    Multi,
    /// A number that this crate does not know.
    Other(i32),
}

impl From<i32> for Kind {
    fn from(number: i32) -> Self {
        match number {
            1 => Self::Mutex,
            2 => Self::Fair,
            3 => Self::Read,
            4 => Self::Write,
            5 => Self::Semaphore,
            6 => Self::PermitSemaphore,
            7 => Self::Latch,
            8 => Self::Multi,
            other => Self::Other(other),
        }
    }
}

impl From<Kind> for i32 {
    fn from(one: Kind) -> Self {
        match one {
            Kind::Mutex => 1,
            Kind::Fair => 2,
            Kind::Read => 3,
            Kind::Write => 4,
            Kind::Semaphore => 5,
            Kind::PermitSemaphore => 6,
            Kind::Latch => 7,
            Kind::Multi => 8,
            Kind::Other(other) => other,
        }
    }
}

/// What an owner has of a lock. A newer library may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// `DLOCK_STATE_NONE`.
    None,
    /// `DLOCK_STATE_WAITING`.
    Waiting,
    /// `DLOCK_STATE_HELD`.
    Held,
    /// `DLOCK_STATE_AT_RISK`.
    AtRisk,
    /// `DLOCK_STATE_LOST`.
    Lost,
    /// A number that this crate does not know.
    Other(i32),
}

impl From<i32> for State {
    fn from(number: i32) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Waiting,
            2 => Self::Held,
            3 => Self::AtRisk,
            4 => Self::Lost,
            other => Self::Other(other),
        }
    }
}

impl From<State> for i32 {
    fn from(one: State) -> Self {
        match one {
            State::None => 0,
            State::Waiting => 1,
            State::Held => 2,
            State::AtRisk => 3,
            State::Lost => 4,
            State::Other(other) => other,
        }
    }
}

/// Why a grant was lost. A newer library may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// `DLOCK_CAUSE_NONE`.
    None,
    /// `DLOCK_CAUSE_EXPIRED`.
    Expired,
    /// `DLOCK_CAUSE_TAKEN`.
    Taken,
    /// `DLOCK_CAUSE_MAX_HOLD`.
    MaxHold,
    /// `DLOCK_CAUSE_CLOSED`.
    Closed,
    /// A number that this crate does not know.
    Other(i32),
}

impl From<i32> for Cause {
    fn from(number: i32) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Expired,
            2 => Self::Taken,
            3 => Self::MaxHold,
            4 => Self::Closed,
            other => Self::Other(other),
        }
    }
}

impl From<Cause> for i32 {
    fn from(one: Cause) -> Self {
        match one {
            Cause::None => 0,
            Cause::Expired => 1,
            Cause::Taken => 2,
            Cause::MaxHold => 3,
            Cause::Closed => 4,
            Cause::Other(other) => other,
        }
    }
}

/// What an event tells. A newer library may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// `DLOCK_EVENT_NONE`.
    None,
    /// `DLOCK_EVENT_ACQUIRED`.
    Acquired,
    /// `DLOCK_EVENT_ACQUIRE_FAILED`.
    AcquireFailed,
    /// `DLOCK_EVENT_RELEASED`.
    Released,
    /// `DLOCK_EVENT_RELEASE_FAILED`.
    ReleaseFailed,
    /// `DLOCK_EVENT_AT_RISK`.
    AtRisk,
    /// `DLOCK_EVENT_LOST`.
    Lost,
    /// `DLOCK_EVENT_LOG`.
    Log,
    /// `DLOCK_EVENT_INSPECTION`.
    Inspection,
    /// `DLOCK_EVENT_DONE`.
    Done,
    /// `DLOCK_EVENT_FINDING`.
    Finding,
    /// A number that this crate does not know.
    Other(i32),
}

impl From<i32> for EventKind {
    fn from(number: i32) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Acquired,
            2 => Self::AcquireFailed,
            3 => Self::Released,
            4 => Self::ReleaseFailed,
            5 => Self::AtRisk,
            6 => Self::Lost,
            7 => Self::Log,
            8 => Self::Inspection,
            9 => Self::Done,
            10 => Self::Finding,
            other => Self::Other(other),
        }
    }
}

impl From<EventKind> for i32 {
    fn from(one: EventKind) -> Self {
        match one {
            EventKind::None => 0,
            EventKind::Acquired => 1,
            EventKind::AcquireFailed => 2,
            EventKind::Released => 3,
            EventKind::ReleaseFailed => 4,
            EventKind::AtRisk => 5,
            EventKind::Lost => 6,
            EventKind::Log => 7,
            EventKind::Inspection => 8,
            EventKind::Done => 9,
            EventKind::Finding => 10,
            EventKind::Other(other) => other,
        }
    }
}

/// What a check of the server found. A newer library may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// `DLOCK_FINDING_EVICTION`.
    Eviction,
    /// `DLOCK_FINDING_PERSISTENCE`.
    Persistence,
    /// `DLOCK_FINDING_PERSISTENCE_FAILS`.
    PersistenceFails,
    /// `DLOCK_FINDING_VERSION`.
    Version,
    /// `DLOCK_FINDING_READ_ONLY`.
    ReadOnly,
    /// `DLOCK_FINDING_REPLICAS`.
    Replicas,
    /// `DLOCK_FINDING_CLOCK`.
    Clock,
    /// `DLOCK_FINDING_COMMAND_MISSING`.
    CommandMissing,
    /// `DLOCK_FINDING_COMMAND_DENIED`.
    CommandDenied,
    /// `DLOCK_FINDING_WRITE_REFUSED`.
    WriteRefused,
    /// `DLOCK_FINDING_NO_ANSWER`.
    NoAnswer,
    /// `DLOCK_FINDING_NO_LEADER`.
    NoLeader,
    /// `DLOCK_FINDING_ALARM`.
    Alarm,
    /// `DLOCK_FINDING_OPEN`.
    Open,
    /// `DLOCK_FINDING_FAULTY_VERSION`.
    FaultyVersion,
    /// `DLOCK_FINDING_OLD_VERSION`.
    OldVersion,
    /// A number that this crate does not know.
    Other(i32),
}

impl From<i32> for FindingKind {
    fn from(number: i32) -> Self {
        match number {
            1 => Self::Eviction,
            2 => Self::Persistence,
            3 => Self::PersistenceFails,
            4 => Self::Version,
            5 => Self::ReadOnly,
            6 => Self::Replicas,
            7 => Self::Clock,
            8 => Self::CommandMissing,
            9 => Self::CommandDenied,
            10 => Self::WriteRefused,
            11 => Self::NoAnswer,
            12 => Self::NoLeader,
            13 => Self::Alarm,
            14 => Self::Open,
            15 => Self::FaultyVersion,
            16 => Self::OldVersion,
            other => Self::Other(other),
        }
    }
}

impl From<FindingKind> for i32 {
    fn from(one: FindingKind) -> Self {
        match one {
            FindingKind::Eviction => 1,
            FindingKind::Persistence => 2,
            FindingKind::PersistenceFails => 3,
            FindingKind::Version => 4,
            FindingKind::ReadOnly => 5,
            FindingKind::Replicas => 6,
            FindingKind::Clock => 7,
            FindingKind::CommandMissing => 8,
            FindingKind::CommandDenied => 9,
            FindingKind::WriteRefused => 10,
            FindingKind::NoAnswer => 11,
            FindingKind::NoLeader => 12,
            FindingKind::Alarm => 13,
            FindingKind::Open => 14,
            FindingKind::FaultyVersion => 15,
            FindingKind::OldVersion => 16,
            FindingKind::Other(other) => other,
        }
    }
}

/// The counters of a client. All but the last three only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// `DLOCK_STAT_ACQUIRED`.
    pub acquired: i64,
    /// `DLOCK_STAT_WIRE_GRANTS`.
    pub wire_grants: i64,
    /// `DLOCK_STAT_PUSHED_GRANTS`.
    pub pushed_grants: i64,
    /// `DLOCK_STAT_HANDOVERS`.
    pub handovers: i64,
    /// `DLOCK_STAT_RELEASED`.
    pub released: i64,
    /// `DLOCK_STAT_LOST`.
    pub lost: i64,
    /// `DLOCK_STAT_RENEWED`.
    pub renewed: i64,
    /// `DLOCK_STAT_RENEWALS_LATE`.
    pub renewals_late: i64,
    /// `DLOCK_STAT_RENEWAL_SCRIPTS`.
    pub renewal_scripts: i64,
    /// `DLOCK_STAT_UNDONE`.
    pub undone: i64,
    /// `DLOCK_STAT_COMMANDS`.
    pub commands: i64,
    /// `DLOCK_STAT_CONNECTS`.
    pub connects: i64,
    /// `DLOCK_STAT_CONNECT_FAILURES`.
    pub connect_failures: i64,
    /// `DLOCK_STAT_SCRIPT_RELOADS`.
    pub script_reloads: i64,
    /// `DLOCK_STAT_EVENTS_DROPPED`.
    pub events_dropped: i64,
    /// `DLOCK_STAT_HELD`.
    pub held: i64,
    /// `DLOCK_STAT_WAITING`.
    pub waiting: i64,
    /// `DLOCK_STAT_LOCKS`.
    pub locks: i64,
}

impl From<[i64; 18]> for Stats {
    fn from(values: [i64; 18]) -> Self {
        let [acquired, wire_grants, pushed_grants, handovers, released, lost, renewed, renewals_late, renewal_scripts, undone, commands, connects, connect_failures, script_reloads, events_dropped, held, waiting, locks] = values;
        Self { acquired, wire_grants, pushed_grants, handovers, released, lost, renewed, renewals_late, renewal_scripts, undone, commands, connects, connect_failures, script_reloads, events_dropped, held, waiting, locks }
    }
}
