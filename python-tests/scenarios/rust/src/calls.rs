//! The form that blocks. A wait that a scenario begins has a thread of its own.
use crate::{
    cause, found, inspected, kind, latin, metric, number, ok, options, said, state, time, unless, value_of, valued,
    Answer, ABSENT,
};
use dlock::{Client, EventKind, Kind, Lock, Owner, Transaction};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

struct Handle {
    lock: Lock,
    latch: bool,
}

#[derive(Default)]
pub struct World {
    clients: HashMap<String, Client>,
    locks: HashMap<String, Handle>,
    waits: HashMap<String, (Owner, Option<JoinHandle<String>>)>,
    grants: HashMap<String, Vec<u8>>,
    txns: HashMap<String, Transaction>,
}

fn acquired(owner: &Owner, latch: bool, ms: i64) -> Answer {
    let guard = owner.acquire(ms)?;
    let token = guard.token();
    let _ = guard.into_owner(); // released by another line
    if latch {
        Ok("OK".into())
    } else {
        valued("token", token)
    }
}

impl World {
    pub fn answer(&mut self, words: &[&str]) -> String {
        match words {
            ["client", name, url, more @ ..] => {
                let more: Vec<_> = more.iter().map(ToString::to_string).collect();
                said(
                    options(&more)
                        .and_then(|set| Client::open_with(url, &set))
                        .map(|c| self.clients.insert((*name).into(), c))
                        .map(ok),
                )
            }
            ["reset"] => self.reset(),
            [verb @ ("close" | "ping" | "provision" | "check" | "stats" | "lost"), name] => {
                said(client(verb, &self.clients[*name]))
            }
            ["metric", name, sample] => said(self.clients[*name].metrics().map(|text| metric(&text, sample))),
            ["fault", name, what, lock, ms] => said(self.clients[*name].fault(what, latin(lock), number(ms)).map(ok)),
            ["txn", client, name] => {
                said(self.clients[*client].transaction().map(|t| self.txns.insert((*name).into(), t)).map(ok))
            }
            [verb @ ("watch" | "get" | "put" | "incr" | "delete" | "commit" | "rollback"), name, rest @ ..] => {
                transact(self.txns.get_mut(*name).expect("a transaction"), verb, rest)
            }
            ["lock", client, name, of, called, more @ ..] => self.lock(client, name, of, called, more),
            ["multi", client, name, members @ ..] => {
                let members: Vec<_> = members.iter().map(|one| &self.locks[*one].lock).collect();
                let made = self.clients[*client].multi(&members);
                said(made.map(|lock| self.locks.insert((*name).into(), Handle { lock, latch: false })).map(ok))
            }
            ["begin", name, lock, owner, ms] => self.begin(name, lock, number(owner), number(ms)),
            ["end", name] => self
                .waits
                .get_mut(*name)
                .and_then(|one| one.1.take())
                .map_or(ABSENT.into(), |one| one.join().expect("ends")),
            ["cancel", name] => said(self.waits[*name].0.cancel().map(|done| unless(done, "NOT_HELD"))),
            ["export", lock, owner, grant] => {
                let exported = self.locks[*lock].lock.owner(number(owner)).export();
                said(exported.map(|bytes| self.grants.insert((*grant).into(), bytes)).map(ok))
            }
            ["adopt", lock, owner, grant] => {
                let adopted = self.locks[*lock].lock.owner(number(owner)).adopt(&self.grants[*grant]);
                said(adopted.and_then(|guard| {
                    let token = guard.token();
                    let _ = guard.into_owner();
                    valued("token", token)
                }))
            }
            [verb, lock, rest @ ..] if self.locks.contains_key(*lock) => on_lock(&self.locks[*lock], verb, rest),
            _ => ABSENT.into(),
        }
    }

    fn lock(&mut self, client: &str, name: &str, of: &str, called: &str, more: &[&str]) -> String {
        let of = match kind(of) {
            Some(of) => of,
            None => return ABSENT.into(),
        };
        let more: Vec<_> = more.iter().map(ToString::to_string).collect();
        let made = options(&more).and_then(|set| self.clients[client].lock(of, latin(called), Some(&set)));
        said(made.map(|lock| self.locks.insert(name.into(), Handle { lock, latch: of == Kind::Latch })).map(ok))
    }

    fn begin(&mut self, name: &str, lock: &str, owner: i64, ms: i64) -> String {
        let (owner, latch) = (self.locks[lock].lock.owner(owner), self.locks[lock].latch);
        let waiter = owner.clone();
        let thread = std::thread::spawn(move || said(acquired(&waiter, latch, ms)));
        while !thread.is_finished() && !matches!(owner.state(), Ok(dlock::State::Waiting)) {
            std::thread::yield_now(); // until the wait has begun
        }
        self.waits.insert(name.into(), (owner, Some(thread)));
        "OK".into()
    }

    fn reset(&mut self) -> String {
        self.txns.clear();
        self.clients.values().for_each(|one| drop(one.close(PATIENCE)));
        for (_, thread) in self.waits.values_mut() {
            thread.take().map(JoinHandle::join);
        }
        *self = Self::default();
        "OK".into()
    }
}

fn client(verb: &str, client: &Client) -> Answer {
    match verb {
        "close" => client.close(PATIENCE).map(ok),
        "ping" => client.ping().map(ok),
        "provision" => client.provision().map(ok),
        "check" => found(&client.check()?),
        "stats" => client.stats().map(|stats| format!("OK held={} waiting={}", stats.held, stats.waiting)),
        _ => {
            let end = Instant::now() + PATIENCE;
            while Instant::now() < end {
                if let Some(event) =
                    client.next_event(Duration::from_secs(1))?.filter(|event| event.kind == EventKind::Lost)
                {
                    return Ok(format!("OK token={} cause={}", event.token, cause(event.cause)));
                }
            }
            Ok("NO_EVENT".into())
        }
    }
}

fn on_lock(handle: &Handle, verb: &str, words: &[&str]) -> String {
    let lock = &handle.lock;
    let owner = lock.owner(words.first().and_then(|word| word.parse().ok()).unwrap_or(0));
    let last = words.last().copied().unwrap_or_default();
    let n = || number(last);
    let within = || time(last);
    said(match verb {
        "acquire" => acquired(&owner, handle.latch, n()),
        "release" => owner.release().map(ok),
        "token" => owner.current_token().and_then(|token| valued("token", token)),
        "holds" => owner.hold_count().and_then(|count| valued("holds", count)),
        "state" => owner.state().and_then(|one| valued("state", state(one))),
        "remaining" => {
            owner.remaining().and_then(|left| valued("remaining", left.map_or(-1, |left| left.as_millis() as i64)))
        }
        "extend" => match within() {
            Ok(lease) => owner.extend(lease).map(ok),
            Err(refused) => Ok(refused),
        },
        "close_gate" => match within() {
            Ok(ttl) => lock.close_gate(ttl).map(ok),
            Err(refused) => Ok(refused),
        },
        "reclaim" => match within() {
            Ok(silent) => lock.reclaim_permits(silent).and_then(|count| valued("value", count)),
            Err(refused) => Ok(refused),
        },
        "force" => lock.force_release().map(|done| unless(done, "NOT_HELD")),
        "open_gate" => lock.open_gate().map(|done| unless(done, "UNCHANGED")),
        "inspect" => lock.inspect().map(|seen| inspected(&seen)),
        "set" => lock.set_permits(n()).map(|done| unless(done, "UNCHANGED")),
        "add" => lock.add_permits(n()).and_then(|count| valued("value", count)),
        "drain" => lock.drain_permits().and_then(|count| valued("value", count)),
        "available" => lock.available_permits().and_then(|count| valued("value", count)),
        "permit" => owner.permit_id(n()).and_then(|id| valued("digits", id.len())),
        "count" => lock.set_count(n()).map(|done| unless(done, "UNCHANGED")),
        "down" => lock.count_down(n()).and_then(|count| valued("value", count)),
        "left" => lock.count().and_then(|count| valued("value", count)),
        "work" => work(&owner, number(words[1]), last),
        _ => Ok(ABSENT.into()),
    })
}

fn transact(txn: &mut Transaction, verb: &str, words: &[&str]) -> String {
    let key = words.first().map(|word| latin(word)).unwrap_or_default();
    said(match (verb, words) {
        ("watch", _) => txn.watch(key).map(ok),
        ("get", _) => txn.get(key).map(value_of),
        ("put", [_, value]) => txn.set(key, &latin(value), None).map(ok),
        ("put", [_, value, ms]) => match time(ms) {
            Ok(ttl) => txn.set(key, &latin(value), Some(ttl)).map(ok),
            Err(refused) => Ok(refused),
        },
        ("incr", [_, by]) => txn.incr(key, number(by)).map(ok),
        ("delete", _) => txn.delete(key).map(ok),
        ("commit", _) => txn.commit().map(|done| unless(done, "CONFLICT")),
        _ => txn.rollback().map(ok),
    })
}

/// So many times alone, add one to the counter in Redis and note the token.
fn work(owner: &Owner, times: i64, path: &str) -> Answer {
    let mut redis = BufReader::new(UnixStream::connect(path).expect("connected"));
    for _ in 0..times {
        let guard = owner.acquire(20_000)?;
        let count = command(&mut redis, "GET witness:counter").parse().unwrap_or(0i64);
        command(&mut redis, &format!("SET witness:counter {}", count + 1));
        command(&mut redis, &format!("RPUSH witness:tokens {}", guard.token()));
        guard.release()?;
    }
    valued("done", times)
}

/// The answer of Redis to a plain command: a number, a word, or the value.
pub fn command(redis: &mut BufReader<UnixStream>, words: &str) -> String {
    redis.get_mut().write_all(format!("{words}\r\n").as_bytes()).expect("sent");
    let mut line = String::new();
    redis.read_line(&mut line).expect("answered");
    if line.starts_with('$') && !line.starts_with("$-1") {
        line.clear();
        redis.read_line(&mut line).expect("answered");
    }
    line.trim().into()
}
