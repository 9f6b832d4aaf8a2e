//! The crate without tokio, on the server of `DLOCK_TEST_URL`.
use dlock::{Client, Error, ErrorKind, Guard, Lock, Options, Owner, State, Transaction};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

static NAMES: AtomicU32 = AtomicU32::new(0);

fn client() -> Client {
    Client::open(&std::env::var("DLOCK_TEST_URL").expect("DLOCK_TEST_URL")).expect("a client")
}

fn name() -> String {
    format!("blocking {} {}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed))
}

fn kind<T>(result: Result<T, Error>) -> ErrorKind {
    result.err().expect("an error").kind()
}

#[test]
fn what_threads_may_share() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Client>();
    shared::<Lock>();
    shared::<Owner>();
    shared::<Guard>();
    shared::<Error>();
    sent::<Options>();
    sent::<Transaction>();
}

#[test]
fn a_drop_releases() -> Result<(), Error> {
    let (one, other) = (client(), client());
    let name = name();
    let guard = one.mutex(&name)?.acquire()?;
    assert!(other.mutex(&name)?.try_acquire()?.is_none());
    drop(guard);
    let next = other.mutex(&name)?.acquire_within(Duration::from_secs(10))?.expect("released");
    next.release()
}

#[test]
fn tokens_grow_and_an_owner_enters_again() -> Result<(), Error> {
    let lock = client().mutex(name())?;
    let first = lock.acquire()?;
    let (token, inner) = (first.token(), first.acquire(0)?);
    assert_eq!((inner.token(), first.hold_count()?), (token, 2));
    inner.release()?;
    assert_eq!(first.state()?, State::Held);
    first.release()?;
    assert!(lock.acquire()?.token() > token);
    Ok(())
}

#[test]
fn each_guard_is_an_owner() -> Result<(), Error> {
    let lock = client().mutex(name())?;
    let guard = lock.acquire()?;
    assert!(lock.try_acquire()?.is_none());
    assert!(lock.acquire_within(Duration::from_micros(1))?.is_none());
    guard.release()
}

#[test]
fn a_guard_may_leave_its_thread() -> Result<(), Error> {
    let lock = client().mutex(name())?;
    let guard = lock.acquire()?;
    std::thread::spawn(move || guard.release()).join().expect("no panic")?;
    assert!(lock.try_acquire()?.is_some());
    Ok(())
}

#[test]
fn another_thread_ends_a_wait() -> Result<(), Error> {
    let lock = client().mutex(name())?;
    let guard = lock.acquire()?;
    let owner = lock.owner(7);
    let waiter = owner.clone();
    let thread = std::thread::spawn(move || waiter.acquire(-1).map(drop));
    while !owner.cancel()? {
        std::thread::yield_now();
    }
    assert_eq!(kind(thread.join().expect("no panic")), ErrorKind::Cancelled);
    guard.release()
}

#[test]
fn a_release_reports_a_loss() -> Result<(), Error> {
    let lock = client().lock(dlock::Kind::Mutex, name(), Some(&Options::new()?.set("lease_ms", 500)?))?;
    let guard = lock.acquire()?;
    assert!(lock.force_release()?);
    while guard.state()? != State::Lost {
        std::thread::yield_now();
    }
    assert_eq!(kind(guard.remaining()), ErrorKind::Lost);
    assert_eq!(kind(guard.release()), ErrorKind::Lost);
    assert!(!lock.force_release()?);
    Ok(())
}

#[test]
fn a_grant_goes_to_another_client() -> Result<(), Error> {
    let name = name();
    let guard = client().mutex(&name)?.acquire()?;
    let adopted = client().mutex(&name)?.adopt(&guard.export()?)?;
    assert_eq!(adopted.token(), guard.token());
    assert_eq!(kind(guard.release()), ErrorKind::NotHeld);
    adopted.release()
}

#[test]
fn errors_have_a_kind_and_a_sentence() -> Result<(), Error> {
    assert_eq!(kind(Client::open("nonsense")), ErrorKind::InvalidUrl);
    assert_eq!(kind(Client::open("redis://a\0b")), ErrorKind::InvalidArgument);
    assert_eq!(kind(Options::new()?.set("no such option", 1)), ErrorKind::UnknownOption);
    let error = client().mutex("").expect_err("no name");
    assert_eq!((error.kind(), error.name(), error.is_retryable()), (ErrorKind::InvalidName, "INVALID_NAME", false));
    assert!(error.to_string().len() > 10);
    assert_eq!(ErrorKind::from(-31_999), ErrorKind::Other(-31_999));
    assert_eq!(i32::from(ErrorKind::Other(-31_999)), -31_999);
    let silent = client();
    silent.close(Duration::from_secs(5))?;
    assert_eq!(kind(silent.mutex(name()).and_then(|lock| lock.acquire())), ErrorKind::Closed);
    Ok(())
}

#[test]
fn other_kinds_and_transactions() -> Result<(), Error> {
    let client = client();
    let semaphore = client.lock(dlock::Kind::PermitSemaphore, name(), None)?;
    assert!(semaphore.set_permits(2)? && !semaphore.set_permits(3)?);
    let permit = semaphore.acquire()?;
    assert_eq!((permit.permit_id(0)?.len(), semaphore.available_permits()?), (32, 1));
    permit.release()?;
    let latch = client.lock(dlock::Kind::Latch, name(), None)?;
    assert!(latch.set_count(1)? && latch.count_down(1)? == 0);
    drop(latch.acquire()?);
    let (one, two) = (client.mutex(name())?, client.mutex(name())?);
    client.multi(&[&one, &two])?.acquire()?.release()?;
    let (key, mut txn) = (name(), client.transaction()?);
    txn.watch(&key)?;
    assert_eq!(txn.get(&key)?, None);
    txn.set(&key, &vec![7; 1000], Some(Duration::from_secs(60)))?;
    assert!(txn.commit()?);
    txn.watch(&key)?;
    assert_eq!(txn.get(&key)?, Some(vec![7; 1000]));
    txn.rollback()?;
    let seen = one.inspect()?;
    assert!(seen.holder.is_empty() && !seen.foreign);
    assert!(client.stats()?.acquired >= 2);
    Ok(())
}

#[test]
fn a_fault_on_demand() -> Result<(), Error> {
    let (program, test) = (Client::open("memory://faults")?, Client::open("memory://faults")?);
    assert_eq!(kind(test.fault("lose", "sale", 0)), ErrorKind::NotHeld);
    assert_eq!(kind(test.fault("lose", b"\xff".repeat(1025), 0)), ErrorKind::InvalidName);
    assert_eq!(kind(test.fault("cut\0", "", -1)), ErrorKind::InvalidArgument);
    assert_eq!(kind(client().fault("cut", "", -1)), ErrorKind::Unsupported);
    let lock = program.mutex("sale")?;
    test.fault("deny others", "sale", -1)?;
    assert_eq!(kind(lock.try_acquire()), ErrorKind::Denied);
    test.fault("heal", "", 0)?;
    let guard = lock.acquire()?;
    test.fault("lose", "sale", 0)?;
    assert_eq!(kind(guard.release()), ErrorKind::Lost);
    Ok(())
}
