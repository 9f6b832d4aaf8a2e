//! Locks for tasks of tokio. Nothing blocks, and no thread is started: one task of the client waits on the descriptor of the
//! library and wakes whoever is answered.
//!
//! ```no_run
//! # async fn example() -> Result<(), dlock::Error> {
//! let client = dlock::aio::Client::open("redis://localhost")?;
//! let mut guard = client.mutex("sale")?.acquire().await?;
//! let token = guard.token();
//! tokio::select! {
//!     error = guard.lost() => return Err(error),
//!     () = work(token) => {}
//! }
//! guard.release().await
//! # }
//! # async fn work(_: i64) {}
//! ```
//!
//! A future may be dropped at any time: a wait then ends, and a grant that comes all the same is given back. A guard that is
//! dropped asks for the release and does not wait for the answer.
pub use crate::aio_transaction::Transaction;
use crate::error::Result;
use crate::lock::number;
use crate::{milliseconds, raw, Error, ErrorKind, Event, EventKind, Finding, Kind, Options, State, Stats};
use std::collections::HashMap;
use std::os::unix::io::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::{broadcast, oneshot, watch};

const SOME: usize = 500; // most events in one go, so that other tasks have their turn
const ROOM: usize = 128; // events that a slow subscriber may leave
const NO: [ErrorKind; 2] = [ErrorKind::Busy, ErrorKind::TimedOut];

/// Who is answered by the event with a tag.
#[derive(Debug)]
enum Call {
    Waiting(oneshot::Sender<Event>),
    Abandoned(crate::Lock, i64), // its future was dropped: a grant goes back
}

#[derive(Debug, Default)]
struct Table {
    calls: HashMap<i64, Call>,
    losses: HashMap<i64, watch::Sender<Option<Error>>>, // by owner
    late: Option<Error>,                                // what a close could not confirm
}

#[derive(Debug)]
struct Shared {
    client: crate::Client,
    table: Mutex<Table>,
    events: broadcast::Sender<Event>,
    over: watch::Sender<bool>, // the last event was read
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dispatch(&self, event: Event) {
        if matches!(event.kind, EventKind::AtRisk | EventKind::Lost | EventKind::Log) {
            return self.tell(event);
        }
        let call = self.table().calls.remove(&event.tag);
        match call {
            Some(Call::Waiting(answer)) => drop(answer.send(event)), // a dropped future: see Pending
            Some(Call::Abandoned(lock, owner)) if event.status == 0 => give_back(&lock, owner),
            _ => {}
        }
    }

    fn tell(&self, event: Event) {
        let mut table = self.table();
        if event.kind == EventKind::Lost {
            if let Some(loss) = table.losses.get(&event.owner) {
                loss.send_replace(Some(Error::of(ErrorKind::Lost, &event.text)));
            }
        } else if event.kind == EventKind::Log && ErrorKind::from(event.status) == ErrorKind::TimedOut {
            table.late = event.error();
        }
        drop(table);
        drop(self.events.send(event)); // nobody may listen
    }

    /// Reads events until the client is closed.
    async fn drive(self: Arc<Self>, fd: AsyncFd<OwnedFd>) {
        if let Some(mut event) = raw::Event::new() {
            while let Ok(mut ready) = fd.readable().await {
                match self.read(&mut event) {
                    Some(true) => ready.clear_ready(),
                    Some(false) => tokio::task::yield_now().await,
                    None => break,
                }
            }
        }
        let table = std::mem::take(&mut *self.table()); // whoever waits hears that its sender is gone
        let closed = Some(Error::of(ErrorKind::Lost, "the client was closed"));
        table.losses.values().for_each(|loss| drop(loss.send_replace(closed.clone())));
        self.table().late = table.late;
        self.over.send_replace(true);
    }

    /// Dispatches some events. Whether all were read; `None` after the last one of a closed client.
    fn read(&self, event: &mut raw::Event) -> Option<bool> {
        for _ in 0..SOME {
            match self.client.0.next(0, event) {
                Ok(()) => self.dispatch(Event::read(event)),
                Err(error) if error.kind() == ErrorKind::NoEvent => return Some(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        Some(false)
    }
}

fn give_back(lock: &crate::Lock, owner: i64) {
    drop(lock.raw().submit_release(owner, 0)); // nobody waits for the answer
}

/// The connections to the servers of a URL. A clone is the same client. When the last clone, lock and guard are dropped, what
/// is held expires; close it for an orderly end.
#[derive(Clone, Debug)]
pub struct Client(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    driver: tokio::task::JoinHandle<()>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Client {
    /// Makes a client inside of a runtime that has I/O enabled. It connects on first use.
    ///
    /// # Errors
    /// `InvalidUrl`, `UnknownOption`, `InvalidOption`, `Unsupported`.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn open(url: &str) -> Result<Self> {
        Self::with(crate::Client::open(url)?)
    }

    /// As [`Client::open`], with options that go before those of the URL.
    ///
    /// # Errors
    /// As [`Client::open`].
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn open_with(url: &str, options: &Options) -> Result<Self> {
        Self::with(crate::Client::open_with(url, options)?)
    }

    fn with(client: crate::Client) -> Result<Self> {
        #[allow(deprecated)] // its successor is newer than tokio 1.24
        let fd = AsyncFd::new(client.0.descriptor()?).map_err(|e| Error::of(ErrorKind::SystemError, &e.to_string()))?;
        let (events, over) = (broadcast::channel(ROOM).0, watch::channel(false).0);
        let shared = Arc::new(Shared { client, table: Mutex::default(), events, over });
        let driver = tokio::spawn(Arc::clone(&shared).drive(fd));
        Ok(Self(Arc::new(Handle { shared, driver })))
    }

    /// A lock of any kind but `Multi`. Nothing is sent.
    ///
    /// # Errors
    /// `InvalidName`, `InvalidOption`.
    pub fn lock(&self, kind: Kind, name: impl AsRef<[u8]>, options: Option<&Options>) -> Result<Lock> {
        Ok(Lock { lock: self.0.shared.client.lock(kind, name, options)?, client: self.clone() })
    }

    /// A mutex. Nothing is sent.
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
        let members: Vec<_> = members.iter().map(|one| &one.lock).collect();
        Ok(Lock { lock: self.0.shared.client.multi(&members)?, client: self.clone() })
    }

    /// As [`crate::Client::ping`].
    ///
    /// # Errors
    /// Those of [`crate::Client::ping`].
    pub async fn ping(&self) -> Result<()> {
        self.ask(|raw, tag| raw.submit_ping(-1, tag)).await.map(drop)
    }

    /// As [`crate::Client::provision`].
    ///
    /// # Errors
    /// Those of [`crate::Client::provision`].
    pub async fn provision(&self) -> Result<()> {
        self.ask(|raw, tag| raw.submit_provision(-1, tag)).await.map(drop)
    }

    /// As [`crate::Client::check`].
    ///
    /// # Errors
    /// Those of [`crate::Client::check`].
    pub async fn check(&self) -> Result<Vec<Finding>> {
        self.ask(|raw, tag| raw.submit_check(-1, tag)).await?;
        self.0.shared.client.findings()
    }

    /// As [`crate::Client::fault`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), dlock::Error> {
    /// let client = dlock::aio::Client::open("memory:")?;
    /// let mut guard = client.mutex("sale")?.acquire().await?;
    /// client.fault("lose", "sale", 0)?;
    /// assert_eq!(guard.lost().await.kind(), dlock::ErrorKind::Lost);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`crate::Client::fault`].
    pub fn fault(&self, what: &str, name: impl AsRef<[u8]>, ms: i64) -> Result<()> {
        self.0.shared.client.fault(what, name, ms)
    }

    /// The counters of the client.
    ///
    /// # Errors
    /// `Closed`.
    pub fn stats(&self) -> Result<Stats> {
        self.0.shared.client.stats()
    }

    /// As [`crate::Client::metrics`].
    ///
    /// # Errors
    /// `Closed`.
    pub fn metrics(&self) -> Result<String> {
        self.0.shared.client.metrics()
    }

    /// What happens from here on: `AtRisk`, `Lost` and `Log`.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.0.shared.events.subscribe()
    }

    /// As [`crate::Client::close`].
    ///
    /// # Errors
    /// Those of [`crate::Client::close`].
    pub async fn close(&self, wait: Duration) -> Result<()> {
        let shared = &self.0.shared;
        let mut over = shared.over.subscribe();
        shared.client.0.submit_close(milliseconds(wait))?;
        loop {
            if *over.borrow_and_update() {
                break;
            }
            if over.changed().await.is_err() {
                break;
            }
        }
        let late = shared.table().late.take();
        late.map_or(Ok(()), Err)
    }

    /// As [`crate::Client::transaction`].
    ///
    /// # Errors
    /// `Unsupported` on a quorum and on `ZooKeeper`.
    pub fn transaction(&self) -> Result<Transaction> {
        Ok(Transaction { raw: self.0.shared.client.0.txn_new()?, client: self.clone() })
    }

    async fn ask(&self, submit: impl FnOnce(&raw::Client, i64) -> Result<()>) -> Result<Event> {
        ask(self, |tag| submit(&self.0.shared.client.0, tag)).await
    }
}

/// The answer to a submitted call.
pub(crate) async fn ask(client: &Client, submit: impl FnOnce(i64) -> Result<()>) -> Result<Event> {
    let mut call = Pending::new(&client.0.shared, None);
    call.begun(submit(call.tag))?;
    call.answer().await
}

/// A call that an event will answer. If it is dropped before, a grant that comes goes back.
struct Pending<'a> {
    shared: &'a Shared,
    tag: i64,
    wish: Option<(crate::Lock, i64)>, // what the call acquires, and for whom
    answer: oneshot::Receiver<Event>,
}

impl<'a> Pending<'a> {
    fn new(shared: &'a Shared, wish: Option<(crate::Lock, i64)>) -> Self {
        let (sender, answer) = oneshot::channel();
        let tag = number();
        shared.table().calls.insert(tag, Call::Waiting(sender));
        Self { shared, tag, wish, answer }
    }

    /// No event answers a call that was not taken.
    fn begun<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.forget();
        }
        result
    }

    fn forget(&mut self) {
        self.shared.table().calls.remove(&self.tag);
        self.wish = None;
    }

    async fn answer(mut self) -> Result<Event> {
        let event = (&mut self.answer).await.map_err(|_| Error::of(ErrorKind::Closed, ""));
        self.forget();
        let event = event?;
        event.error().map_or(Ok(event), Err)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let (lock, owner) = match self.wish.take() {
            Some(wish) => wish,
            None => return self.forget(),
        };
        let mut table = self.shared.table();
        if let Some(call) = table.calls.get_mut(&self.tag) {
            *call = Call::Abandoned(lock.clone(), owner);
            drop(table);
            drop(lock.owner(owner).cancel()); // the answer comes in any case
        } else if matches!(self.answer.try_recv(), Ok(event) if event.status == 0) {
            drop(table);
            give_back(&lock, owner);
        }
    }
}

/// A lock with a name, shared by all hosts. A clone is the same lock.
#[derive(Clone, Debug)]
pub struct Lock {
    lock: crate::Lock,
    client: Client,
}

impl Lock {
    /// The client that made it.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Waits until the lock is granted. Each guard is an owner of its own.
    ///
    /// # Errors
    /// Those of [`crate::Lock::acquire`].
    pub async fn acquire(&self) -> Result<Guard> {
        self.win(|raw, owner, tag| raw.begin_acquire(owner, -1, tag)).await
    }

    /// `None` when somebody else has the lock.
    ///
    /// # Errors
    /// Those of [`crate::Lock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        Error::none(self.win(|raw, owner, tag| raw.begin_acquire(owner, 0, tag)).await, &NO)
    }

    /// `None` when the lock was not granted in time.
    ///
    /// # Errors
    /// Those of [`crate::Lock::acquire`].
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<Guard>> {
        let ms = milliseconds(wait);
        Error::none(self.win(|raw, owner, tag| raw.begin_acquire(owner, ms, tag)).await, &NO)
    }

    /// As [`crate::Lock::adopt`].
    ///
    /// # Errors
    /// Those of [`crate::Lock::adopt`].
    pub async fn adopt(&self, grant: &[u8]) -> Result<Guard> {
        let submitted = Err(Error::of(ErrorKind::WouldBlock, ""));
        self.win(|raw, owner, tag| raw.submit_adopt_grant(owner, grant, tag).and(submitted)).await
    }

    async fn win(&self, begin: impl FnOnce(&raw::Lock, i64, i64) -> Result<i64>) -> Result<Guard> {
        let shared = &self.client.0.shared;
        let mut guard = Guard::new(self);
        let mut call = Pending::new(shared, Some((self.lock.clone(), guard.number())));
        guard.token = match begin(self.lock.raw(), guard.number(), call.tag) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => call.answer().await?.token,
            result => {
                call.forget();
                result?
            }
        };
        guard.held = true;
        Ok(guard)
    }

    pub(crate) async fn request(&self, submit: impl FnOnce(&raw::Lock, i64) -> Result<()>) -> Result<Event> {
        self.client.ask(|_, tag| submit(self.lock.raw(), tag)).await
    }
}

/// A held lock. It is given back when the guard is dropped; nobody hears how that went.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases its lock at once"]
pub struct Guard {
    owner: crate::Owner,
    client: Client,
    token: i64,
    held: bool,
    loss: watch::Receiver<Option<Error>>,
}

impl Guard {
    fn new(lock: &Lock) -> Self {
        let (sender, loss) = watch::channel(None);
        let owner = lock.lock.owner(number());
        lock.client.0.shared.table().losses.insert(owner.number(), sender);
        Self { owner, client: lock.client.clone(), token: -1, held: false, loss }
    }

    /// The fencing token: it grows with every grant.
    #[must_use]
    pub fn token(&self) -> i64 {
        self.token
    }

    /// The owner number in events.
    #[must_use]
    pub fn number(&self) -> i64 {
        self.owner.number()
    }

    /// As [`crate::Owner::state`].
    ///
    /// # Errors
    /// `Closed`.
    pub fn state(&self) -> Result<State> {
        self.owner.state()
    }

    /// As [`crate::Owner::remaining`].
    ///
    /// # Errors
    /// `NotHeld`, `Lost`.
    pub fn remaining(&self) -> Result<Option<Duration>> {
        self.owner.remaining()
    }

    /// As [`crate::Owner::permit_id`].
    ///
    /// # Errors
    /// `NotHeld`, `Lost`, `Unsupported`.
    pub fn permit_id(&self, index: i64) -> Result<String> {
        self.owner.permit_id(index)
    }

    /// As [`crate::Owner::export`]: it blocks the thread for one round trip. After a success the guard holds nothing.
    ///
    /// # Errors
    /// `NotHeld`, `Lost`.
    pub fn export(&mut self) -> Result<Vec<u8>> {
        let grant = self.owner.export()?;
        self.held = false;
        Ok(grant)
    }

    /// Waits until the lock is lost, and says why. Of a lock that is not lost it waits for ever.
    pub async fn lost(&mut self) -> Error {
        loop {
            if let Some(error) = self.loss.borrow_and_update().clone() {
                return error;
            }
            if self.loss.changed().await.is_err() {
                return Error::of(ErrorKind::Lost, "the client was closed");
            }
        }
    }

    /// Releases the lock, and says whether it was held to the end. If the future is dropped, the release goes on.
    ///
    /// # Errors
    /// Those of [`crate::Owner::release`].
    pub async fn release(mut self) -> Result<()> {
        self.held = false;
        let mut call = Pending::new(&self.client.0.shared, None);
        match self.owner.raw().begin_release(self.owner.number(), call.tag) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => call.answer().await.map(drop),
            result => {
                call.forget();
                result
            }
        }
    }

    pub(crate) async fn request(&self, submit: impl FnOnce(&raw::Lock, i64) -> Result<()>) -> Result<Event> {
        self.client.ask(|_, tag| submit(self.owner.raw(), tag)).await
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.client.0.shared.table().losses.remove(&self.owner.number());
        if self.held {
            give_back(self.owner.lock(), self.owner.number());
        }
    }
}
