//! Clients and their options.
use crate::error::Result;
use crate::{milliseconds, raw, Error, ErrorKind, Event, Finding, Kind, Lock, Stats, Transaction};
use dlock_sys as sys;
use std::sync::Arc;
use std::time::Duration;

/// Options of a client or a lock, by their names in the library's manual.
#[derive(Debug)]
pub struct Options(pub(crate) raw::Options);

impl Options {
    /// All options at their defaults.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new() -> Result<Self> {
        raw::Options::new().map(Self).ok_or_else(Error::unmade)
    }

    /// The same options with one set, for example `set("lease_ms", 10_000)`.
    ///
    /// # Errors
    /// `UnknownOption`, `InvalidOption`.
    #[allow(clippy::needless_pass_by_value)]
    pub fn set(mut self, name: &str, value: impl ToString) -> Result<Self> {
        self.0.set(name, &value.to_string())?;
        Ok(self)
    }
}

/// The connections to the servers of a URL, and a watchdog that renews what is held. A clone is the same client.
#[derive(Clone, Debug)]
pub struct Client(pub(crate) Arc<raw::Client>);

impl Client {
    /// Makes a client. It connects on first use.
    ///
    /// # Errors
    /// `InvalidUrl`, `UnknownOption`, `InvalidOption`, `Unsupported`.
    pub fn open(url: &str) -> Result<Self> {
        Ok(Self(Arc::new(raw::Client::open(url, None)?)))
    }

    /// As [`Client::open`], with options that go before those of the URL.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn open_with(url: &str, options: &Options) -> Result<Self> {
        Ok(Self(Arc::new(raw::Client::open(url, Some(&options.0))?)))
    }

    /// A lock of any kind but `Multi`. Nothing is sent.
    ///
    /// # Errors
    /// `InvalidName`, `InvalidOption`.
    pub fn lock(&self, kind: Kind, name: impl AsRef<[u8]>, options: Option<&Options>) -> Result<Lock> {
        let handle = self.0.lock_new(kind.into(), name.as_ref(), options.map(|one| &one.0))?;
        Ok(Lock::new(handle, self))
    }

    /// A re-entrant mutex. Nothing is sent.
    ///
    /// # Errors
    /// `InvalidName`.
    pub fn mutex(&self, name: impl AsRef<[u8]>) -> Result<Lock> {
        self.lock(Kind::Mutex, name, None)
    }

    /// 1 to 16 locks of this client as one: all are acquired, or none.
    ///
    /// # Errors
    /// `DuplicateName`, `InvalidArgument`.
    pub fn multi(&self, members: &[&Lock]) -> Result<Lock> {
        let members: Vec<_> = members.iter().map(|one| one.raw()).collect();
        Ok(Lock::new(self.0.lock_new_multi(&members)?, self))
    }

    /// Asks the server whether it answers.
    ///
    /// # Errors
    /// `Unreachable`, `Denied` and the kinds that begin with `Server`.
    pub fn ping(&self) -> Result<()> {
        self.0.ping(-1)
    }

    /// Tells the server that it remembers every lock, which ends a quarantine.
    ///
    /// # Errors
    /// `Unsupported` without the option `quarantine_ms`.
    pub fn provision(&self) -> Result<()> {
        self.0.provision(-1)
    }

    /// Checks whether the server is fit to keep locks.
    ///
    /// # Errors
    /// Those of [`Client::ping`].
    pub fn check(&self) -> Result<Vec<Finding>> {
        self.0.check(-1)?;
        self.findings()
    }

    /// What the last check found.
    pub(crate) fn findings(&self) -> Result<Vec<Finding>> {
        let (mut found, mut event) = (Vec::new(), raw::Event::new().ok_or_else(Error::unmade)?);
        while Error::unless(self.0.finding(found.len(), &mut event), ErrorKind::NoEvent)? {
            let said = Event::read(&event);
            let number = i32::try_from(said.value).unwrap_or(-1);
            let danger = i32::from(said.cause) == sys::DLOCK_SEVERITY_DANGER;
            found.push(Finding { kind: number.into(), name: raw::finding_name(number), danger, text: said.text });
        }
        Ok(found)
    }

    /// Makes something go wrong, for the test of a program that uses locks. Only a client of `memory:` does it. The words
    /// are those of `dlock_client_fault` in the library's manual; `name` is that of a lock, or empty. `ms` is the value of
    /// the fault: mostly how long it lasts, where -1 means until "heal". Never blocks.
    ///
    /// ```
    /// use dlock::{Client, ErrorKind};
    ///
    /// let client = Client::open("memory:")?;
    /// let guard = client.mutex("sale")?.acquire()?;
    /// client.fault("lose", "sale", 0)?;
    /// assert_eq!(guard.release().unwrap_err().kind(), ErrorKind::Lost);
    /// # Ok::<(), dlock::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` on a real server; `InvalidArgument`, `InvalidName`, `NotHeld`, `NotFound`, `Closed`.
    pub fn fault(&self, what: &str, name: impl AsRef<[u8]>, ms: i64) -> Result<()> {
        self.0.fault(what, name.as_ref(), ms)
    }

    /// The counters of the client.
    ///
    /// # Errors
    /// `Closed`.
    pub fn stats(&self) -> Result<Stats> {
        let mut values = [0; sys::DLOCK_STAT_COUNT];
        self.0.stats(&mut values)?;
        Ok(values.into())
    }

    /// The counters and histograms of the client as `OpenMetrics` text. Never blocks.
    ///
    /// # Errors
    /// `Closed`.
    pub fn metrics(&self) -> Result<String> {
        let mut buffer = vec![0; 32768];
        loop {
            match self.0.metrics(&mut buffer) {
                Ok(size) => {
                    buffer.truncate(size);
                    return Ok(String::from_utf8_lossy(&buffer).into_owned());
                }
                Err(error) if error.kind() == ErrorKind::BufferTooSmall => buffer.resize(2 * buffer.len(), 0),
                Err(error) => return Err(error),
            }
        }
    }

    /// The oldest event; `None` when none came in time.
    ///
    /// # Errors
    /// `Closed` after the last event of a closed client.
    pub fn next_event(&self, wait: Duration) -> Result<Option<Event>> {
        let mut event = raw::Event::new().ok_or_else(Error::unmade)?;
        let came = self.0.next(milliseconds(wait), &mut event);
        Ok(Error::unless(came, ErrorKind::NoEvent)?.then(|| Event::read(&event)))
    }

    /// An optimistic transaction over keys of the server.
    ///
    /// # Errors
    /// `Unsupported` on a quorum and on `ZooKeeper`.
    pub fn transaction(&self) -> Result<Transaction> {
        Ok(Transaction { raw: self.0.txn_new()? })
    }

    /// Ends all waits with `Closed`, releases what is held, and stops. Without a close, what is held expires.
    ///
    /// # Errors
    /// `TimedOut` when the server did not confirm every release in time.
    pub fn close(&self, wait: Duration) -> Result<()> {
        self.0.close(milliseconds(wait))
    }
}
