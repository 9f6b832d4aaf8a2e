//! `dlock::aio` on the server of `DLOCK_TEST_URL`.
#![cfg(feature = "tokio")]
use dlock::aio::{Client, Guard, Lock};
use dlock::{Error, ErrorKind, Options};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

static NAMES: AtomicU32 = AtomicU32::new(0);

fn client() -> Client {
    Client::open(&std::env::var("DLOCK_TEST_URL").expect("DLOCK_TEST_URL")).expect("a client")
}

fn name() -> String {
    format!("tasks {} {}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed))
}

async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn what_threads_may_share() {
    fn shared<T: Send + Sync>(_: &T) {}
    fn sent<T: Send>(_: T) {}
    fn check(lock: &Lock, client: &Client, guard: Guard) {
        shared(lock);
        shared(client);
        shared(&guard);
        sent(lock.acquire());
        sent(guard.release());
    }
    let _: fn(&Lock, &Client, Guard) = check;
}

#[tokio::test]
async fn a_wait_that_is_dropped_holds_nothing() -> Result<(), Error> {
    let (client, other) = (client(), client());
    let name = name();
    let held = client.mutex(&name)?.acquire().await?;
    let lock = other.mutex(&name)?;
    for _ in 0..20 {
        let wait = lock.acquire();
        tokio::select! {
            _ = wait => panic!("it is held"),
            () = until(|| matches!(other.stats(), Ok(stats) if stats.waiting > 0)) => {}
        }
        until(|| matches!(other.stats(), Ok(stats) if stats.waiting == 0)).await;
    }
    held.release().await?;
    client.mutex(&name)?.acquire().await?.release().await
}

/// However far a wait has come when it is dropped, nobody holds the lock afterwards.
#[tokio::test]
async fn a_grant_that_nobody_awaits_goes_back() -> Result<(), Error> {
    let (client, other) = (client(), client());
    let name = name();
    let lock = other.mutex(&name)?;
    let mut dropped = 0;
    for round in 0..200 {
        let held = client.mutex(&name)?.acquire().await?;
        let mut wait = Box::pin(lock.acquire());
        tokio::select! {
            biased;
            _ = wait.as_mut() => panic!("it is held"),
            () = std::future::ready(()) => {}
        }
        let release = tokio::spawn(held.release());
        for _ in 0..round % 17 {
            tokio::task::yield_now().await;
        }
        drop(wait);
        dropped += 1;
        release.await.expect("no panic")?;
    }
    assert_eq!(dropped, 200);
    let free = client.mutex(&name)?.acquire_within(Duration::from_secs(10)).await?;
    free.expect("nobody holds it").release().await?;
    until(|| matches!(other.stats(), Ok(stats) if stats.held == 0 && stats.waiting == 0)).await;
    Ok(())
}

#[tokio::test]
async fn a_guard_hears_of_its_loss() -> Result<(), Error> {
    let client = client();
    let options = Options::new()?.set("lease_ms", 500)?;
    let lock = client.lock(dlock::Kind::Mutex, name(), Some(&options))?;
    let mut events = client.events();
    let mut guard = lock.acquire().await?;
    assert!(lock.force_release().await?);
    let error = tokio::time::timeout(Duration::from_secs(30), guard.lost()).await.expect("in time");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    let event = events.recv().await.expect("an event");
    assert_eq!((event.kind, event.cause), (dlock::EventKind::Lost, dlock::Cause::Taken));
    Ok(())
}

#[tokio::test]
async fn a_drop_gives_back() -> Result<(), Error> {
    let (client, other) = (client(), client());
    let name = name();
    drop(client.mutex(&name)?.acquire().await?);
    other.mutex(&name)?.acquire_within(Duration::from_secs(10)).await?.expect("given back").release().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_ends_waits_and_tells_guards() -> Result<(), Error> {
    let (client, other) = (client(), client());
    let name = name();
    let held = client.mutex(&name)?.acquire().await?;
    let lock = other.mutex(&name)?;
    let wait = tokio::spawn(async move { lock.acquire().await.map(drop) });
    until(|| matches!(other.stats(), Ok(stats) if stats.waiting > 0)).await;
    other.close(Duration::from_secs(10)).await?;
    assert_eq!(wait.await.expect("no panic").expect_err("closed").kind(), ErrorKind::Closed);
    let mut held = held;
    client.close(Duration::from_secs(10)).await?;
    assert_eq!(held.lost().await.kind(), ErrorKind::Lost);
    Ok(())
}

#[tokio::test]
async fn requests_are_awaited() -> Result<(), Error> {
    let client = client();
    client.ping().await?;
    client.check().await?;
    let lock = client.mutex(name())?;
    assert!(lock.try_acquire().await?.is_some());
    let guard = lock.acquire().await?;
    guard.extend(Duration::from_secs(60)).await?;
    assert!(lock.try_acquire().await?.is_none());
    assert!(!lock.inspect().await?.holder.is_empty());
    lock.close_gate(Duration::from_secs(60)).await?;
    assert!(lock.open_gate().await? && !lock.open_gate().await?);
    guard.release().await
}

#[tokio::test]
async fn a_fault_on_demand() -> Result<(), Error> {
    let (program, test) = (Client::open("memory://faults of tasks")?, Client::open("memory://faults of tasks")?);
    assert_eq!(test.fault("lose", "sale", 0).expect_err("free").kind(), ErrorKind::NotHeld);
    assert_eq!(client().fault("cut", "", -1).expect_err("a server").kind(), ErrorKind::Unsupported);
    let lock = program.mutex("sale")?;
    let mut guard = lock.acquire().await?;
    test.fault("lose", "sale", 0)?;
    assert_eq!(guard.lost().await.kind(), ErrorKind::Lost);
    test.fault("cut others", "", -1)?;
    assert_eq!(lock.try_acquire().await.expect_err("cut off").kind(), ErrorKind::Unreachable);
    test.fault("heal", "", 0)
}
