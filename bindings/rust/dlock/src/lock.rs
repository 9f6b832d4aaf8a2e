//! Locks, owners and guards that block.
use crate::error::Result;
use crate::{duration, milliseconds, raw, Client, Error, ErrorKind, Event, Inspection, State};
use std::ops::Deref;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Arc;
use std::time::Duration;

const NO: [ErrorKind; 2] = [ErrorKind::Busy, ErrorKind::TimedOut];
static NUMBERS: AtomicI64 = AtomicI64::new(1 << 61); // owners of guards; smaller numbers are the user's

/// A number that no other guard has.
pub(crate) fn number() -> i64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// A lock with a name, shared by all hosts. A clone is the same lock.
#[derive(Clone, Debug)]
pub struct Lock {
    raw: Arc<raw::Lock>,
    client: Client,
}

impl Lock {
    pub(crate) fn new(raw: raw::Lock, client: &Client) -> Self {
        Self { raw: Arc::new(raw), client: client.clone() }
    }

    pub(crate) fn raw(&self) -> &raw::Lock {
        &self.raw
    }

    /// The client that made it.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its number in events.
    #[must_use]
    pub fn id(&self) -> i64 {
        self.raw.id()
    }

    /// Waits until the lock is granted. Each guard is an owner of its own: a thread that has one waits for itself.
    ///
    /// # Errors
    /// `Closed`, `GateClosed`, `Unreachable`, `Denied`, `WrongKind` and what else keeps the server from answering.
    pub fn acquire(&self) -> Result<Guard> {
        self.owner(number()).acquire(-1)
    }

    /// `None` when somebody else has the lock.
    ///
    /// # Errors
    /// Those of [`Lock::acquire`].
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        Error::none(self.owner(number()).acquire(0), &NO)
    }

    /// `None` when the lock was not granted in time.
    ///
    /// # Errors
    /// Those of [`Lock::acquire`].
    pub fn acquire_within(&self, wait: Duration) -> Result<Option<Guard>> {
        Error::none(self.owner(number()).acquire(milliseconds(wait)), &NO)
    }

    /// Takes over a grant that another process has exported.
    ///
    /// # Errors
    /// `InvalidGrant`; `Lost` when it is too late; `Busy` when this process holds the lock or waits for it.
    pub fn adopt(&self, grant: &[u8]) -> Result<Guard> {
        self.owner(number()).adopt(grant)
    }

    /// An owner with a number of the caller's choice, below 2^61; 0 stands for the calling thread. An owner that holds the
    /// lock may acquire it again.
    #[must_use]
    pub fn owner(&self, number: i64) -> Owner {
        Owner { lock: self.clone(), number }
    }

    pub(crate) fn seen(&self, ask: impl FnOnce(&raw::Lock, &mut raw::Event) -> Result<()>) -> Result<Inspection> {
        let mut event = raw::Event::new().ok_or_else(Error::unmade)?;
        ask(&self.raw, &mut event)?;
        Ok(Inspection::from(&Event::read(&event)))
    }
}

/// One owner of a lock: what it has, and what it does by hand. A [`Guard`] is one, too.
#[derive(Clone, Debug)]
pub struct Owner {
    lock: Lock,
    number: i64,
}

impl Owner {
    pub(crate) fn raw(&self) -> &raw::Lock {
        &self.lock.raw
    }

    /// The lock.
    #[must_use]
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> i64 {
        self.number
    }

    /// Acquires, waiting up to so many milliseconds; -1 is without limit.
    ///
    /// # Errors
    /// Those of [`Lock::acquire`]; `Busy`, `TimedOut`; `InvalidArgument` when the owner waits already.
    pub fn acquire(&self, wait_ms: i64) -> Result<Guard> {
        let token = self.lock.raw.acquire(self.number, wait_ms)?;
        Ok(Guard { owner: self.clone(), token, held: true })
    }

    /// As [`Lock::adopt`].
    ///
    /// # Errors
    /// Those of [`Lock::adopt`].
    pub fn adopt(&self, grant: &[u8]) -> Result<Guard> {
        let token = self.lock.raw.adopt_grant(self.number, grant)?;
        Ok(Guard { owner: self.clone(), token, held: true })
    }

    /// Releases one hold.
    ///
    /// # Errors
    /// `NotHeld`, `Lost`; `UnknownOutcome` when the server did not answer in time.
    pub fn release(&self) -> Result<()> {
        self.lock.raw.release(self.number)
    }

    /// Ends the wait of this owner in another thread. `false` when it does not wait.
    ///
    /// # Errors
    /// `Closed`.
    pub fn cancel(&self) -> Result<bool> {
        Error::unless(self.lock.raw.cancel(self.number), ErrorKind::NotHeld)
    }

    /// The fencing token of the grant.
    ///
    /// # Errors
    /// `NotHeld`, `Lost`.
    pub fn current_token(&self) -> Result<i64> {
        self.lock.raw.token(self.number)
    }

    /// What the owner has, by the clock at this instant.
    ///
    /// # Errors
    /// `Closed`.
    pub fn state(&self) -> Result<State> {
        Ok(self.lock.raw.state(self.number)?.into())
    }

    /// How often the owner holds the lock.
    ///
    /// # Errors
    /// `Closed`.
    pub fn hold_count(&self) -> Result<i64> {
        self.lock.raw.hold_count(self.number)
    }

    /// For how long the grant is valid without another renewal; `None` is without end.
    ///
    /// # Errors
    /// `NotHeld`, `Lost`.
    pub fn remaining(&self) -> Result<Option<Duration>> {
        Ok(duration(self.lock.raw.remaining_ms(self.number)?))
    }

    /// Gives the grant away as bytes, in one round trip. Another process may adopt them until the lease ends. They are a secret
    /// that works once. After an error it is held as before.
    ///
    /// # Errors
    /// `NotHeld`, `Lost`, `Busy` when the hold is nested.
    pub fn export(&self) -> Result<Vec<u8>> {
        let mut grant = vec![0; 2048]; // 512 bytes and the longest name
        let size = self.lock.raw.export_grant(self.number, &mut grant)?;
        grant.truncate(size);
        Ok(grant)
    }

    /// The id of one permit of a permit semaphore; places count from 0.
    ///
    /// # Errors
    /// `NotHeld`, `Lost`, `Unsupported`.
    pub fn permit_id(&self, index: i64) -> Result<String> {
        let mut id = vec![0; 33];
        self.lock.raw.semaphore_permit(self.number, index, &mut id)?;
        Ok(String::from_utf8_lossy(&id).trim_end_matches('\0').to_owned())
    }
}

/// A held lock. It is released when the guard is dropped; that blocks up to the option `release_timeout_ms` and reports
/// nothing.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases its lock at once"]
pub struct Guard {
    owner: Owner,
    token: i64,
    held: bool,
}

impl Guard {
    /// The fencing token: it grows with every grant.
    #[must_use]
    pub fn token(&self) -> i64 {
        self.token
    }

    /// Releases the lock, and says whether it was held to the end.
    ///
    /// # Errors
    /// Those of [`Owner::release`].
    pub fn release(mut self) -> Result<()> {
        self.held = false;
        self.owner.release()
    }

    /// The owner without the guard: the lock stays held and renewed until [`Owner::release`].
    #[must_use = "the lock stays held"]
    pub fn into_owner(mut self) -> Owner {
        self.held = false;
        self.owner.clone()
    }
}

impl Deref for Guard {
    type Target = Owner;

    fn deref(&self) -> &Owner {
        &self.owner
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.held {
            drop(self.owner.release());
        }
    }
}
