//! scenarios crowd URL WAITERS: that many tasks wait for one lock while it is held, then each has it once. Prints how many had
//! it, whether their tokens grew, and the threads of the process before and while all waited.
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

async fn crowd(url: &str, waiters: usize) -> Result<(), dlock::Error> {
    let client = dlock::aio::Client::open(url)?;
    let lock = client.mutex("crowd")?;
    let held = lock.acquire().await?;
    let tokens = Arc::new(Mutex::new(vec![held.token()]));
    let before = threads();
    let tasks: Vec<_> = (0..waiters)
        .map(|_| {
            let (lock, tokens) = (lock.clone(), Arc::clone(&tokens));
            tokio::spawn(async move {
                let guard = lock.acquire().await?;
                tokens.lock().expect("no panic").push(guard.token());
                guard.release().await
            })
        })
        .collect();
    while client.stats()?.waiting < waiters as i64 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let during = threads();
    held.release().await?;
    for task in tasks {
        task.await.expect("no panic")?;
    }
    let tokens = tokens.lock().expect("no panic").clone();
    let grew = tokens.windows(2).all(|two| two[0] < two[1]);
    println!("served={} grew={grew} before={before} during={during}", tokens.len() - 1);
    client.close(Duration::from_secs(20)).await
}

pub fn main() {
    let words: Vec<_> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(crowd(&words[2], words[3].parse().expect("a number"))).expect("no error");
}
