//! What smoke.sh asks of the crate dlock.
use dlock::{Client, ErrorKind, EventKind, Options};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::open_with(&std::env::var("DLOCK_URL")?, &Options::new()?.set("lease_ms", 1500)?)?;
    let lock = client.mutex("smoke-rust")?;
    let guard = lock.acquire()?;
    let first = guard.token();
    assert!(lock.force_release()?);
    while client.next_event(Duration::from_secs(30))?.expect("the loss was not heard").kind != EventKind::Lost {}
    assert_eq!(guard.release().unwrap_err().kind(), ErrorKind::Lost);
    let guard = lock.acquire()?;
    assert!(guard.token() > first);
    println!("rust: tokens {first} and {}", guard.token());
    guard.release()?;
    client.close(Duration::from_secs(10))?;
    Ok(())
}
