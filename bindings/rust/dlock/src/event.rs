//! Events, and what else the library tells in an event box.
use crate::{duration, raw, Cause, Error, EventKind, FindingKind};
use dlock_sys as sys;
use std::time::Duration;

const ROOM: usize = 1 << 21; // the longest value or list of names

/// Something that happened to a client. Fields that do not apply are -1 or `None`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// What it tells.
    pub kind: EventKind,
    /// 0, or the status of a failure.
    pub status: i32,
    /// The number of a submitted call.
    pub tag: i64,
    /// See [`crate::Lock::id`].
    pub lock_id: i64,
    /// See [`crate::Owner::number`].
    pub owner: i64,
    /// The fencing token.
    pub token: i64,
    /// For how long the lock is still held.
    pub remaining: Option<Duration>,
    /// Why it was lost.
    pub cause: Cause,
    /// For how long the holder has had it.
    pub held_for: Option<Duration>,
    /// How many processes wait.
    pub waiters: i64,
    /// The holder is not libdlock: 1.
    pub foreign: i64,
    /// A number that was asked for.
    pub value: i64,
    /// A sentence, or the id of a holder.
    pub text: String,
    /// Bytes that were asked for.
    pub data: Vec<u8>,
}

impl Event {
    pub(crate) fn read(from: &raw::Event) -> Self {
        let mut field = [-1; sys::DLOCK_FIELD_COUNT];
        drop(from.unpack(&mut field)); // only a missing place for the numbers is refused
        let mut data = Vec::new();
        if from.data(&mut data).is_err() {
            data.resize(ROOM, 0);
            let size = from.data(&mut data).unwrap_or(0);
            data.truncate(size);
        }
        let small = |place: usize| i32::try_from(field[place]).unwrap_or(-1);
        Self {
            kind: small(sys::DLOCK_FIELD_TYPE).into(),
            status: small(sys::DLOCK_FIELD_STATUS),
            tag: field[sys::DLOCK_FIELD_TAG],
            lock_id: field[sys::DLOCK_FIELD_LOCK_ID],
            owner: field[sys::DLOCK_FIELD_OWNER],
            token: field[sys::DLOCK_FIELD_TOKEN],
            remaining: duration(field[sys::DLOCK_FIELD_REMAINING_MS]),
            cause: small(sys::DLOCK_FIELD_CAUSE).into(),
            held_for: duration(field[sys::DLOCK_FIELD_HELD_FOR_MS]),
            waiters: field[sys::DLOCK_FIELD_WAITERS],
            foreign: field[sys::DLOCK_FIELD_FOREIGN],
            value: field[sys::DLOCK_FIELD_VALUE],
            text: from.text(),
            data,
        }
    }

    /// The error that the blocking call would have returned.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        (self.status != 0).then(|| Error::new(self.status, &self.text))
    }
}

/// The state of a lock at the server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The id of the holder on the wire; empty when the lock is free.
    pub holder: String,
    /// At least the token of the holder; -1 when unknown.
    pub token: i64,
    /// What is left of the lease.
    pub remaining: Option<Duration>,
    /// For how long the lock is held.
    pub held_for: Option<Duration>,
    /// Processes in line.
    pub waiters: i64,
    /// The holder is not libdlock.
    pub foreign: bool,
}

impl From<&Event> for Inspection {
    fn from(event: &Event) -> Self {
        Self {
            holder: event.text.clone(),
            token: event.token,
            remaining: event.remaining,
            held_for: event.held_for,
            waiters: event.waiters,
            foreign: event.foreign == 1,
        }
    }
}

/// One result of [`crate::Client::check`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// What was found.
    pub kind: FindingKind,
    /// Its name, for example "EVICTION".
    pub name: &'static str,
    /// Locks fail or may be lost; else less is guaranteed than could be.
    pub danger: bool,
    /// A sentence with advice.
    pub text: String,
}
