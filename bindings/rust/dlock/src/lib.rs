//! Distributed locks on Redis, etcd and `ZooKeeper` with fencing tokens, by libdlock.
//!
//! ```no_run
//! let client = dlock::Client::open("redis://localhost")?;
//! let guard = client.mutex("sale")?.acquire()?;
//! println!("mine, with token {}", guard.token());
//! guard.release()?;
//! # Ok::<(), dlock::Error>(())
//! ```
//!
//! A [`Guard`] releases its lock when it is dropped. A drop cannot report: [`Guard::release`] tells whether the lock was
//! held to the end. While a guard lives, the library renews the lock. A guard whose lock was lost says so by
//! [`Owner::state`] and [`Owner::remaining`]; a write that carries the token can be refused where it arrives.
//!
//! Clients, locks and guards may be sent to and shared by threads. With the feature `tokio`, [`aio`] has the same for
//! tasks.
#![deny(unsafe_code, unused_must_use)]
#![warn(missing_docs, clippy::pedantic)]

#[cfg(feature = "tokio")]
pub mod aio;
#[cfg(feature = "tokio")]
mod aio_transaction;
mod client;
mod error;
mod event;
mod lock;
#[rustfmt::skip]
mod numbers;
#[rustfmt::skip]
#[allow(unsafe_code, dead_code, missing_docs, clippy::missing_errors_doc)]
mod raw;
#[rustfmt::skip]
#[allow(clippy::redundant_closure_for_method_calls)]
mod requests;
mod transaction;

pub use client::{Client, Options};
pub use error::Error;
pub use event::{Event, Finding, Inspection};
pub use lock::{Guard, Lock, Owner};
pub use numbers::{Cause, ErrorKind, EventKind, FindingKind, Kind, State, Stats};
pub use transaction::Transaction;

use std::time::Duration;

/// The version of the loaded library, for example "0.1.0".
#[must_use]
pub fn version() -> &'static str {
    raw::version_string()
}

/// Whole milliseconds, rounded up: a short wait is not the same as none.
pub(crate) fn milliseconds(time: Duration) -> i64 {
    i64::try_from((time.as_nanos() + 999_999) / 1_000_000).unwrap_or(i64::MAX)
}

/// None for what is unknown or without end.
pub(crate) fn duration(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}
