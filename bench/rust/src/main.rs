//! rivals WAY URL CALLERS SECONDS own|one|pair: run a lock client for Rust. own: each caller has its own lock; one: all share one lock;
//! pair: one thread with this binding, and only the time in the lock calls is measured. Callers are threads, or tasks of one thread for
//! the ways that are awaited. It prints "name value" lines, as the C programs do.
use redlock::RedLock;
use rslock::LockManager;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(30);
const NOBODY: usize = usize::MAX;

/// What one caller saw.
#[derive(Default)]
struct Caller {
    waits: Vec<Duration>,
    pairs: u64,
    handoffs: u64,
    since: Option<Instant>, // of the wait that goes on
}

struct Work {
    callers: Vec<Mutex<Caller>>,
    shared: bool,
    last: AtomicUsize, // who had the lock
}

impl Work {
    fn new(callers: usize, shared: bool) -> Arc<Self> {
        let callers = (0..callers).map(|_| Mutex::default()).collect();
        Arc::new(Self { callers, shared, last: AtomicUsize::new(NOBODY) })
    }

    fn name(&self, index: usize) -> String {
        let process = std::process::id();
        if self.shared { format!("rust:{process}") } else { format!("rust:{process}:{index}") }
    }

    fn begin(&self, index: usize) -> Instant {
        let start = Instant::now();
        self.callers[index].lock().unwrap().since = Some(start);
        start
    }

    /// The caller has the lock: how long it waited, and whether it got the lock from another one.
    fn won(&self, index: usize, start: Instant) -> (Duration, bool) {
        (start.elapsed(), self.shared && self.last.swap(index, Ordering::Relaxed) != index)
    }

    fn done(&self, index: usize, start: Instant, (wait, other): (Duration, bool)) {
        let mut caller = self.callers[index].lock().unwrap();
        caller.waits.push(if self.shared { wait } else { start.elapsed() });
        caller.pairs += 1;
        caller.handoffs += u64::from(other);
        caller.since = None;
    }

    /// A wait that has not ended counts with its length until now.
    fn report(&self, seconds: f64) {
        let (mut waits, mut pairs, mut handoffs) = (Vec::new(), 0, 0);
        for caller in &self.callers {
            let caller = caller.lock().unwrap();
            waits.extend(caller.waits.iter().copied().chain(caller.since.map(|since| since.elapsed())));
            pairs += caller.pairs;
            handoffs += caller.handoffs;
        }
        waits.sort_unstable();
        let micro = |percent: usize| waits[(waits.len() - 1) * percent / 100].as_secs_f64() * 1e6;
        println!("per_s {}\nhandoffs_per_s {}", pairs as f64 / seconds, handoffs as f64 / seconds);
        println!("p50 {}\np99 {}", micro(50), micro(99));
    }
}

/// A lock whose callers are threads. The redlock crate gives up after some attempts; `acquire` asks again.
enum Blocking {
    Ours(dlock::Lock),
    Redlock(RedLock, String),
}

impl Blocking {
    fn new(way: &str, url: &str, client: &dlock::Client, name: String) -> Result<Self, Box<dyn Error>> {
        Ok(if way == "dlock" { Self::Ours(client.mutex(name)?) } else { Self::Redlock(RedLock::new(vec![url]), name) })
    }

    fn pair<T>(&self, inside: impl FnOnce() -> T) -> Result<T, Box<dyn Error>> {
        match self {
            Self::Ours(lock) => {
                let guard = lock.acquire()?;
                let result = inside();
                guard.release()?;
                Ok(result)
            }
            Self::Redlock(all, name) => {
                let guard = all.acquire(name.as_bytes(), LEASE.as_millis() as usize)?;
                let result = inside();
                drop(guard);
                Ok(result)
            }
        }
    }
}

fn threads(work: &Arc<Work>, way: &str, url: &str, seconds: f64) -> Result<(), Box<dyn Error>> {
    let client = dlock::Client::open(url)?;
    let count = work.callers.len();
    let locks = (0..count).map(|index| Blocking::new(way, url, &client, work.name(index))).collect::<Result<Vec<_>, _>>()?;
    for lock in locks.iter().take(8).cycle().take(50 * count.min(8)) {
        lock.pair(|| ())?; // connections, caches
    }
    for (index, lock) in locks.into_iter().enumerate() {
        let work = Arc::clone(work);
        std::thread::spawn(move || loop {
            let start = work.begin(index);
            match lock.pair(|| work.won(index, start)) {
                Ok(won) => work.done(index, start, won),
                Err(error) => fail(&error.to_string()),
            }
        });
    }
    std::thread::sleep(Duration::from_millis(200));
    clear(work);
    std::thread::sleep(Duration::from_secs_f64(seconds));
    Ok(())
}

/// What was seen before all had begun does not count.
fn clear(work: &Work) {
    for caller in &work.callers {
        let mut caller = caller.lock().unwrap();
        *caller = Caller { since: caller.since.map(|_| Instant::now()), ..Caller::default() };
    }
}

/// A lock whose callers are tasks.
enum Awaited {
    Ours(dlock::aio::Lock),
    Rslock(LockManager, String),
}

impl Awaited {
    async fn pair<T>(&self, inside: impl FnOnce() -> T) -> Result<T, Box<dyn Error>> {
        match self {
            Self::Ours(lock) => {
                let guard = lock.acquire().await?;
                let result = inside();
                guard.release().await?;
                Ok(result)
            }
            Self::Rslock(all, name) => {
                let guard = all.acquire(name.as_bytes(), LEASE).await?;
                let result = inside();
                guard.release().await;
                Ok(result)
            }
        }
    }
}

async fn tasks(work: &Arc<Work>, way: &str, url: &str, seconds: f64) -> Result<(), Box<dyn Error>> {
    let client = dlock::aio::Client::open(url)?;
    let all = LockManager::new(vec![url]);
    let mut locks = Vec::new();
    for name in (0..work.callers.len()).map(|index| work.name(index)) {
        locks.push(if way == "dlock-tasks" { Awaited::Ours(client.mutex(name)?) } else { Awaited::Rslock(all.clone(), name) });
    }
    for lock in locks.iter().take(8).cycle().take(50 * locks.len().min(8)) {
        lock.pair(|| ()).await?;
    }
    for (index, lock) in locks.into_iter().enumerate() {
        let work = Arc::clone(work);
        tokio::task::spawn_local(async move {
            loop {
                let start = work.begin(index);
                match lock.pair(|| work.won(index, start)).await {
                    Ok(won) => work.done(index, start, won),
                    Err(error) => fail(&error.to_string()),
                }
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    clear(work);
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    Ok(())
}

fn pairs(work: &Work, url: &str, seconds: f64) -> Result<(), Box<dyn Error>> {
    let client = dlock::Client::open(url)?;
    let lock = client.mutex(work.name(0))?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut waits = Vec::new();
    while waits.last().map_or(true, |_| Instant::now() < end) {
        let start = Instant::now();
        lock.acquire()?.release()?;
        waits.push(start.elapsed());
    }
    let mut only = work.callers[0].lock().unwrap();
    only.pairs = waits.len() as u64;
    only.waits = waits;
    Ok(())
}

fn fail(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(1)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let (way, url, kind) = (words[1].as_str(), words[2].as_str(), words[5].as_str());
    let (callers, seconds): (usize, f64) = (words[3].parse()?, words[4].parse()?);
    let work = Work::new(callers, kind == "one");
    if kind == "pair" {
        pairs(&work, url, seconds)?;
    } else if way == "dlock" || way == "redlock" {
        threads(&work, way, url, seconds)?;
    } else {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        tokio::task::LocalSet::new().block_on(&runtime, tasks(&work, way, url, seconds))?;
    }
    work.report(seconds);
    std::process::exit(0) // callers that still wait do not matter
}
