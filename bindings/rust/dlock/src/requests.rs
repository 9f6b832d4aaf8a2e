// Written by abi/gen.py from abi/dlock.json: do not edit.

//! Requests to the server about a lock. They block for as long as the server takes, up to the option `command_timeout_ms`;
//! those of [`crate::aio`] are awaited.
use crate::{milliseconds, Error, ErrorKind, Inspection, Lock, Owner};
use std::time::Duration;

impl Lock {
    /// Take the lock from its holder, in any process. `false` when it was free.
    ///
    /// # Errors
    /// The statuses of the call in C: `NotHeld`, `WrongKind`, Unsupported, Unreachable; what stands in the way of
    /// any request.
    pub fn force_release(&self) -> Result<bool, Error> {
        Error::unless(self.raw().force_release(), ErrorKind::NotHeld)
    }
    /// End all waits for the lock, in all processes, with `GateClosed`, and refuse new ones for ttl.
    ///
    /// # Errors
    /// The statuses of the call in C: `WrongKind`, Unsupported; what stands in the way of any request.
    pub fn close_gate(&self, ttl: Duration) -> Result<(), Error> {
        self.raw().close_gate(milliseconds(ttl))
    }
    /// Open the gate that `close_gate` closed. `false` when it was open.
    ///
    /// # Errors
    /// The statuses of the call in C: Unchanged; what stands in the way of any request.
    pub fn open_gate(&self) -> Result<bool, Error> {
        Error::unless(self.raw().open_gate(), ErrorKind::Unchanged)
    }
    /// Ask the server who holds the lock.
    ///
    /// # Errors
    /// The statuses of the call in C: `WrongKind`; what stands in the way of any request.
    pub fn inspect(&self) -> Result<Inspection, Error> {
        self.seen(|lock, event| lock.inspect(event))
    }
    /// Create the semaphore with so many permits. `false`, and nothing changes, when it exists.
    ///
    /// # Errors
    /// The statuses of the call in C: Unchanged, `UnknownOutcome`; what stands in the way of any request.
    pub fn set_permits(&self, permits: i64) -> Result<bool, Error> {
        Error::unless(self.raw().semaphore_set(permits), ErrorKind::Unchanged)
    }
    /// Add permits, or remove them when negative. Returns how many are free now.
    ///
    /// # Errors
    /// The statuses of the call in C: ; what stands in the way of any request.
    pub fn add_permits(&self, permits: i64) -> Result<i64, Error> {
        self.raw().semaphore_add(permits)
    }
    /// Remove all free permits for good. Returns how many. Unsupported for a permit semaphore.
    ///
    /// # Errors
    /// The statuses of the call in C: Unsupported; what stands in the way of any request.
    pub fn drain_permits(&self) -> Result<i64, Error> {
        self.raw().semaphore_drain()
    }
    /// Free permits whose holder has not renewed for its `lease_ms` and silent more. Returns how many.
    ///
    /// # Errors
    /// The statuses of the call in C: Unsupported; what stands in the way of any request.
    pub fn reclaim_permits(&self, silent: Duration) -> Result<i64, Error> {
        self.raw().semaphore_reclaim(milliseconds(silent))
    }
    /// How many permits are free.
    ///
    /// # Errors
    /// The statuses of the call in C: ; what stands in the way of any request.
    pub fn available_permits(&self) -> Result<i64, Error> {
        self.raw().semaphore_available()
    }
    /// Set the count of an open latch. `false`, and nothing changes, when it has a count.
    ///
    /// # Errors
    /// The statuses of the call in C: Unchanged, `UnknownOutcome`; what stands in the way of any request.
    pub fn set_count(&self, count: i64) -> Result<bool, Error> {
        Error::unless(self.raw().latch_set(count), ErrorKind::Unchanged)
    }
    /// Count down, but not below zero. Returns the new count.
    ///
    /// # Errors
    /// The statuses of the call in C: ; what stands in the way of any request.
    pub fn count_down(&self, count: i64) -> Result<i64, Error> {
        self.raw().latch_count_down(count)
    }
    /// The count; 0 means that the latch is open.
    ///
    /// # Errors
    /// The statuses of the call in C: ; what stands in the way of any request.
    pub fn count(&self) -> Result<i64, Error> {
        self.raw().latch_count()
    }
}

impl Owner {
    /// Set the lease: the server keeps the lock for so long from now and from each renewal. `NotHeld`, `Lost`.
    ///
    /// # Errors
    /// The statuses of the call in C: `NotHeld`, `Lost`, `InvalidArgument`, `LeaseRefused`, `NotReplicated`,
    /// Unsupported; what stands in the way of any request.
    pub fn extend(&self, lease: Duration) -> Result<(), Error> {
        self.raw().extend(self.number(), milliseconds(lease))
    }
}

#[cfg(feature = "tokio")]
impl crate::aio::Lock {
    /// Take the lock from its holder, in any process. `false` when it was free.
    ///
    /// # Errors
    /// The statuses of the call in C: `NotHeld`, `WrongKind`, Unsupported, Unreachable; what stands in the way of
    /// any request.
    pub async fn force_release(&self) -> Result<bool, Error> {
        Error::unless(self.request(|lock, tag| lock.submit_force_release(tag)).await.map(drop), ErrorKind::NotHeld)
    }
    /// End all waits for the lock, in all processes, with `GateClosed`, and refuse new ones for ttl.
    ///
    /// # Errors
    /// The statuses of the call in C: `WrongKind`, Unsupported; what stands in the way of any request.
    pub async fn close_gate(&self, ttl: Duration) -> Result<(), Error> {
        self.request(|lock, tag| lock.submit_close_gate(milliseconds(ttl), tag)).await.map(drop)
    }
    /// Open the gate that `close_gate` closed. `false` when it was open.
    ///
    /// # Errors
    /// The statuses of the call in C: Unchanged; what stands in the way of any request.
    pub async fn open_gate(&self) -> Result<bool, Error> {
        Error::unless(self.request(|lock, tag| lock.submit_open_gate(tag)).await.map(drop), ErrorKind::Unchanged)
    }
    /// Ask the server who holds the lock.
    ///
    /// # Errors
    /// The statuses of the call in C: `WrongKind`; what stands in the way of any request.
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        Ok(Inspection::from(&self.request(|lock, tag| lock.submit_inspect(tag)).await?))
    }
    /// Create the semaphore with so many permits. `false`, and nothing changes, when it exists.
    ///
    /// # Errors
    /// The statuses of the call in C: Unchanged, `UnknownOutcome`; what stands in the way of any request.
    pub async fn set_permits(&self, permits: i64) -> Result<bool, Error> {
        Error::unless(self.request(|lock, tag| lock.semaphore_submit_set(permits, tag)).await.map(drop), ErrorKind::Unchanged)
    }
    /// Add permits, or remove them when negative. Returns how many are free now.
    ///
    /// # Errors
    /// The statuses of the call in C: ; what stands in the way of any request.
    pub async fn add_permits(&self, permits: i64) -> Result<i64, Error> {
        Ok(self.request(|lock, tag| lock.semaphore_submit_add(permits, tag)).await?.value)
    }
    /// Remove all free permits for good. Returns how many. Unsupported for a permit semaphore.
    ///
    /// # Errors
    /// The statuses of the call in C: Unsupported; what stands in the way of any request.
    pub async fn drain_permits(&self) -> Result<i64, Error> {
        Ok(self.request(|lock, tag| lock.semaphore_submit_drain(tag)).await?.value)
    }
    /// Free permits whose holder has not renewed for its `lease_ms` and silent more. Returns how many.
    ///
    /// # Errors
    /// The statuses of the call in C: Unsupported; what stands in the way of any request.
    pub async fn reclaim_permits(&self, silent: Duration) -> Result<i64, Error> {
        Ok(self.request(|lock, tag| lock.semaphore_submit_reclaim(milliseconds(silent), tag)).await?.value)
    }
    /// How many permits are free.
    ///
    /// # Errors
    /// The statuses of the call in C: ; what stands in the way of any request.
    pub async fn available_permits(&self) -> Result<i64, Error> {
        Ok(self.request(|lock, tag| lock.semaphore_submit_available(tag)).await?.value)
    }
    /// Set the count of an open latch. `false`, and nothing changes, when it has a count.
    ///
    /// # Errors
    /// The statuses of the call in C: Unchanged, `UnknownOutcome`; what stands in the way of any request.
    pub async fn set_count(&self, count: i64) -> Result<bool, Error> {
        Error::unless(self.request(|lock, tag| lock.latch_submit_set(count, tag)).await.map(drop), ErrorKind::Unchanged)
    }
    /// Count down, but not below zero. Returns the new count.
    ///
    /// # Errors
    /// The statuses of the call in C: ; what stands in the way of any request.
    pub async fn count_down(&self, count: i64) -> Result<i64, Error> {
        Ok(self.request(|lock, tag| lock.latch_submit_count_down(count, tag)).await?.value)
    }
    /// The count; 0 means that the latch is open.
    ///
    /// # Errors
    /// The statuses of the call in C: ; what stands in the way of any request.
    pub async fn count(&self) -> Result<i64, Error> {
        Ok(self.request(|lock, tag| lock.latch_submit_count(tag)).await?.value)
    }
}

#[cfg(feature = "tokio")]
impl crate::aio::Guard {
    /// Set the lease: the server keeps the lock for so long from now and from each renewal. `NotHeld`, `Lost`.
    ///
    /// # Errors
    /// The statuses of the call in C: `NotHeld`, `Lost`, `InvalidArgument`, `LeaseRefused`, `NotReplicated`,
    /// Unsupported; what stands in the way of any request.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        self.request(|lock, tag| lock.submit_extend(self.number(), milliseconds(lease), tag)).await.map(drop)
    }
}
