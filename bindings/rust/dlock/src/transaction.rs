//! Optimistic transactions.
use crate::error::Result;
use crate::{milliseconds, raw, Error, ErrorKind};
use std::time::Duration;

const ROOM: usize = 1 << 20; // the longest value

/// Watches keys, reads them, queues writes and commits all of them, or none if a watched key was changed. One round follows
/// the other. Dropping it drops what was queued.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) raw: raw::Txn,
}

impl Transaction {
    /// Watches a key; the first one begins a round.
    ///
    /// # Errors
    /// `InvalidArgument` after a write; `Unreachable` and what else ends the round.
    pub fn watch(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.raw.watch(key.as_ref())
    }

    /// Reads a value; `None` when there is no such key.
    ///
    /// # Errors
    /// `NoTransaction` before the first watch; `WrongKind`, `Unreachable`.
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = vec![0; 256];
        let mut size = self.raw.get(key.as_ref(), &mut value);
        if matches!(&size, Err(error) if error.kind() == ErrorKind::BufferTooSmall) {
            value.resize(ROOM, 0);
            size = self.raw.get(key.as_ref(), &mut value);
        }
        let size = Error::none(size, &[ErrorKind::NotFound])?;
        Ok(size.map(|size| {
            value.truncate(size);
            value
        }))
    }

    /// Queues a write; without `ttl` the key never expires.
    ///
    /// # Errors
    /// `NoTransaction`, `InvalidArgument`.
    pub fn set(&mut self, key: impl AsRef<[u8]>, value: &[u8], ttl: Option<Duration>) -> Result<()> {
        self.raw.set(key.as_ref(), value, ttl.map_or(-1, milliseconds))
    }

    /// Queues a write: adds to the decimal number of the key.
    ///
    /// # Errors
    /// `NoTransaction`, `InvalidArgument`.
    pub fn incr(&mut self, key: impl AsRef<[u8]>, by: i64) -> Result<()> {
        self.raw.incr(key.as_ref(), by)
    }

    /// Queues a write: deletes the key.
    ///
    /// # Errors
    /// `NoTransaction`, `InvalidArgument`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.raw.delete(key.as_ref())
    }

    /// Does all writes. `false` when a watched key was changed: begin again after [`Transaction::pause`].
    ///
    /// # Errors
    /// `NoTransaction`; `UnknownOutcome`: all was written or nothing; `ServerError`: the message says what was written.
    pub fn commit(&mut self) -> Result<bool> {
        Error::unless(self.raw.commit(), ErrorKind::Conflict)
    }

    /// Drops what was queued and watched.
    ///
    /// # Errors
    /// `Closed`.
    pub fn rollback(&mut self) -> Result<()> {
        self.raw.rollback()
    }

    /// How long to pause after the nth conflict, counted from 1.
    #[must_use]
    pub fn pause(attempt: i32) -> Duration {
        crate::duration(raw::txn_pause_ms(attempt)).unwrap_or_default()
    }
}
