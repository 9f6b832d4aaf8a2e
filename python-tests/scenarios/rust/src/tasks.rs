//! The form of tasks: dlock::aio. A guard is kept by lock and owner; a guard that was released is gone, which Rust's types say.
use crate::{
    cause, found, inspected, kind, latin, metric, number, ok, options, said, state, time, unless, value_of, valued,
    Answer, ABSENT,
};
use dlock::aio::{Client, Guard, Lock, Transaction};
use dlock::{Error, Event, EventKind, Kind};
use std::collections::HashMap;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(20);

struct Handle {
    lock: Lock,
    latch: bool,
}

struct Wait {
    task: Option<JoinHandle<Result<Guard, String>>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    key: (String, String),
    latch: bool,
}

#[derive(Default)]
pub struct World {
    clients: HashMap<String, (Client, Receiver<Event>)>,
    locks: HashMap<String, Handle>,
    waits: HashMap<String, Wait>,
    guards: HashMap<(String, String), Guard>,
    grants: HashMap<String, Vec<u8>>,
    txns: HashMap<String, Transaction>,
}

/// The guard, or the name of a status.
async fn acquire(lock: &Lock, ms: i64) -> Result<Guard, String> {
    let name = |error: Error| error.name().to_string();
    match ms {
        -1 => lock.acquire().await.map_err(name),
        0 => lock.try_acquire().await.map_err(name)?.ok_or_else(|| "BUSY".into()),
        _ => {
            let wait = time(&ms.to_string())?;
            lock.acquire_within(wait).await.map_err(name)?.ok_or_else(|| "TIMED_OUT".into())
        }
    }
}

impl World {
    pub async fn answer(&mut self, words: &[&str]) -> String {
        match words {
            ["client", name, url, more @ ..] => {
                let more: Vec<_> = more.iter().map(ToString::to_string).collect();
                let made = options(&more).and_then(|set| Client::open_with(url, &set));
                said(made.map(|c| (c.events(), c)).map(|(e, c)| self.clients.insert((*name).into(), (c, e))).map(ok))
            }
            ["reset"] => {
                for (client, _) in self.clients.values() {
                    let _ = client.close(PATIENCE).await;
                }
                *self = Self::default();
                "OK".into()
            }
            [verb @ ("close" | "ping" | "provision" | "check" | "stats" | "lost"), name] => {
                said(client(verb, self.clients.get_mut(*name).expect("a client")).await)
            }
            ["metric", name, sample] => said(self.clients[*name].0.metrics().map(|text| metric(&text, sample))),
            ["fault", name, what, lock, ms] => said(self.clients[*name].0.fault(what, latin(lock), number(ms)).map(ok)),
            ["txn", client, name] => {
                said(self.clients[*client].0.transaction().map(|t| self.txns.insert((*name).into(), t)).map(ok))
            }
            [verb @ ("watch" | "get" | "put" | "incr" | "delete" | "commit" | "rollback"), name, rest @ ..] => {
                transact(self.txns.get_mut(*name).expect("a transaction"), verb, rest).await
            }
            ["lock", client, name, of, called, more @ ..] => {
                let of = match kind(of) {
                    Some(of) => of,
                    None => return ABSENT.into(),
                };
                let more: Vec<_> = more.iter().map(ToString::to_string).collect();
                let made = options(&more).and_then(|set| self.clients[*client].0.lock(of, latin(called), Some(&set)));
                said(
                    made.map(|lock| self.locks.insert((*name).into(), Handle { lock, latch: of == Kind::Latch }))
                        .map(ok),
                )
            }
            ["multi", client, name, members @ ..] => {
                let members: Vec<_> = members.iter().map(|one| &self.locks[*one].lock).collect();
                let made = self.clients[*client].0.multi(&members);
                said(made.map(|lock| self.locks.insert((*name).into(), Handle { lock, latch: false })).map(ok))
            }
            ["begin", name, lock, owner, ms] => self.begin(name, lock, owner, number(ms)).await,
            ["end", name] => self.end(name).await,
            ["cancel", name] => {
                let stop = self.waits.get_mut(*name).and_then(|wait| wait.stop.take());
                unless(matches!(stop.map(|stop| stop.send(())), Some(Ok(()))), "NOT_HELD")
            }
            ["export", lock, owner, grant] => match self.guards.get_mut(&key(lock, owner)) {
                Some(guard) => said(guard.export().map(|bytes| self.grants.insert((*grant).into(), bytes)).map(ok)),
                None => "NOT_HELD".into(),
            },
            ["adopt", lock, owner, grant] => {
                let adopted = self.locks[*lock].lock.adopt(&self.grants[*grant]).await;
                self.keep(lock, owner, adopted.map_err(|error| error.name().into()), false)
            }
            ["acquire", lock, owner, ms] => {
                let handle = &self.locks[*lock];
                let (won, latch) = (acquire(&handle.lock, number(ms)).await, handle.latch);
                self.keep(lock, owner, won, latch)
            }
            ["release", lock, owner] => match self.guards.remove(&key(lock, owner)) {
                Some(guard) => said(guard.release().await.map(ok)),
                None => "NOT_HELD".into(),
            },
            ["work", lock, _, times, path] => said(work(&self.locks[*lock].lock, number(times), path).await),
            [verb @ ("token" | "state" | "remaining" | "extend" | "permit"), lock, owner, rest @ ..] => {
                match self.guards.get(&key(lock, owner)) {
                    Some(guard) => said(on_guard(guard, verb, rest).await),
                    None if *verb == "state" => "OK state=NONE".into(),
                    None => "NOT_HELD".into(),
                }
            }
            [verb, lock, rest @ ..] if self.locks.contains_key(*lock) => {
                on_lock(&self.locks[*lock].lock, verb, rest).await
            }
            _ => ABSENT.into(),
        }
    }

    /// Keeps a guard as the owner's.
    fn keep(&mut self, lock: &str, owner: &str, won: Result<Guard, String>, latch: bool) -> String {
        match won {
            Ok(_) if latch => "OK".into(),
            Ok(guard) => {
                let token = guard.token();
                self.guards.insert(key(lock, owner), guard);
                format!("OK token={token}")
            }
            Err(status) => status,
        }
    }

    async fn begin(&mut self, name: &str, lock: &str, owner: &str, ms: i64) -> String {
        let (handle, (stop, stopped)) = (&self.locks[lock], tokio::sync::oneshot::channel());
        let (waits, latch) = (handle.lock.clone(), handle.latch);
        let task = tokio::spawn(async move {
            tokio::select! {
                won = acquire(&waits, ms) => won,
                Ok(()) = stopped => Err("CANCELLED".into()),
            }
        });
        tokio::task::yield_now().await; // the task asks for the lock
        self.waits.insert(name.into(), Wait { task: Some(task), stop: Some(stop), key: key(lock, owner), latch });
        "OK".into()
    }

    async fn end(&mut self, name: &str) -> String {
        let wait = self.waits.get_mut(name).expect("a wait");
        let (task, key, latch) = (wait.task.take().expect("one end"), wait.key.clone(), wait.latch);
        let won = task.await.expect("ends");
        self.keep(&key.0, &key.1, won, latch)
    }
}

fn key(lock: &str, owner: &str) -> (String, String) {
    (lock.into(), owner.into())
}

async fn client(verb: &str, (client, events): &mut (Client, Receiver<Event>)) -> Answer {
    match verb {
        "close" => client.close(PATIENCE).await.map(ok),
        "ping" => client.ping().await.map(ok),
        "provision" => client.provision().await.map(ok),
        "check" => found(&client.check().await?),
        "stats" => client.stats().map(|stats| format!("OK held={} waiting={}", stats.held, stats.waiting)),
        _ => loop {
            match tokio::time::timeout(PATIENCE, events.recv()).await {
                Ok(Ok(event)) if event.kind == EventKind::Lost => {
                    return Ok(format!("OK token={} cause={}", event.token, cause(event.cause)))
                }
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return Ok("CLOSED".into()),
                Err(_) => return Ok("NO_EVENT".into()),
            }
        },
    }
}

async fn on_guard(guard: &Guard, verb: &str, words: &[&str]) -> Answer {
    match verb {
        "token" => guard.remaining().and_then(|_| valued("token", guard.token())),
        "state" => guard.state().and_then(|one| valued("state", state(one))),
        "remaining" => {
            guard.remaining().and_then(|left| valued("remaining", left.map_or(-1, |left| left.as_millis() as i64)))
        }
        "permit" => guard.permit_id(number(words[0])).and_then(|id| valued("digits", id.len())),
        _ => match time(words[0]) {
            Ok(lease) => guard.extend(lease).await.map(ok),
            Err(refused) => Ok(refused),
        },
    }
}

async fn on_lock(lock: &Lock, verb: &str, words: &[&str]) -> String {
    let last = words.last().copied().unwrap_or_default();
    let n = || number(last);
    said(match verb {
        "close_gate" | "reclaim" => match time(last) {
            Ok(ttl) if verb == "close_gate" => lock.close_gate(ttl).await.map(ok),
            Ok(silent) => lock.reclaim_permits(silent).await.and_then(|count| valued("value", count)),
            Err(refused) => Ok(refused),
        },
        "force" => lock.force_release().await.map(|done| unless(done, "NOT_HELD")),
        "open_gate" => lock.open_gate().await.map(|done| unless(done, "UNCHANGED")),
        "inspect" => lock.inspect().await.map(|seen| inspected(&seen)),
        "set" => lock.set_permits(n()).await.map(|done| unless(done, "UNCHANGED")),
        "add" => lock.add_permits(n()).await.and_then(|count| valued("value", count)),
        "drain" => lock.drain_permits().await.and_then(|count| valued("value", count)),
        "available" => lock.available_permits().await.and_then(|count| valued("value", count)),
        "count" => lock.set_count(n()).await.map(|done| unless(done, "UNCHANGED")),
        "down" => lock.count_down(n()).await.and_then(|count| valued("value", count)),
        "left" => lock.count().await.and_then(|count| valued("value", count)),
        _ => Ok(ABSENT.into()),
    })
}

async fn transact(txn: &mut Transaction, verb: &str, words: &[&str]) -> String {
    let key = words.first().map(|word| latin(word)).unwrap_or_default();
    said(match (verb, words) {
        ("watch", _) => txn.watch(key).await.map(ok),
        ("get", _) => txn.get(key).await.map(value_of),
        ("put", [_, value]) => txn.set(key, &latin(value), None).map(ok),
        ("put", [_, value, ms]) => match time(ms) {
            Ok(ttl) => txn.set(key, &latin(value), Some(ttl)).map(ok),
            Err(refused) => Ok(refused),
        },
        ("incr", [_, by]) => txn.incr(key, number(by)).map(ok),
        ("delete", _) => txn.delete(key).map(ok),
        ("commit", _) => txn.commit().await.map(|done| unless(done, "CONFLICT")),
        _ => txn.rollback().await.map(ok),
    })
}

async fn work(lock: &Lock, times: i64, path: &str) -> Answer {
    let mut redis = BufReader::new(UnixStream::connect(path).expect("connected"));
    for _ in 0..times {
        let guard = match lock.acquire_within(PATIENCE).await? {
            Some(guard) => guard,
            None => return Ok("TIMED_OUT".into()),
        };
        let count = crate::calls::command(&mut redis, "GET witness:counter").parse().unwrap_or(0i64);
        crate::calls::command(&mut redis, &format!("SET witness:counter {}", count + 1));
        crate::calls::command(&mut redis, &format!("RPUSH witness:tokens {}", guard.token()));
        guard.release().await?;
    }
    valued("done", times)
}
