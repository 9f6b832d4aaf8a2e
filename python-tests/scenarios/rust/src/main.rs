//! The Rust runner of the scenario table: scenarios calls|tasks|crowd. README.md in the folder above lists the lines that it
//! answers.
//!
//! "calls" blocks, and waits in a thread where a scenario begins a wait; "tasks" is dlock::aio on one thread of tokio.
mod calls;
mod crowd;
mod tasks;

use dlock::{Cause, Error, Kind, Options, State};
use std::io::{BufRead, Write};

/// An answer: "OK" and what was asked for, or the name of a status.
type Answer = Result<String, Error>;

const ABSENT: &str = "ABSENT";

fn valued(name: &str, value: impl ToString) -> Answer {
    Ok(format!("OK {name}={}", value.to_string()))
}

fn ok<T>(_: T) -> String {
    "OK".into()
}

/// OK, or the status for false.
fn unless(done: bool, otherwise: &str) -> String {
    if done { "OK" } else { otherwise }.into()
}

fn said(answer: Answer) -> String {
    answer.unwrap_or_else(|error| error.name().into())
}

/// The value of a sample in the text of a client.
fn metric(text: &str, sample: &str) -> String {
    let mut rows = text.lines().filter_map(|line| line.rsplit_once(' '));
    rows.find(|row| row.0 == sample).map_or("NOT_FOUND".into(), |row| format!("OK value={}", row.1))
}

/// A time; the type of Rust has no negative ones.
fn time(ms: &str) -> Result<std::time::Duration, String> {
    ms.parse().map(std::time::Duration::from_millis).map_err(|_| "INVALID_ARGUMENT".into())
}

fn number(word: &str) -> i64 {
    word.parse().expect("a number")
}

fn kind(word: &str) -> Option<Kind> {
    Some(match word {
        "mutex" => Kind::Mutex,
        "fair" => Kind::Fair,
        "read" => Kind::Read,
        "write" => Kind::Write,
        "semaphore" => Kind::Semaphore,
        "permit_semaphore" => Kind::PermitSemaphore,
        "latch" => Kind::Latch,
        _ => return None,
    })
}

fn state(state: State) -> &'static str {
    match state {
        State::None => "NONE",
        State::Waiting => "WAITING",
        State::Held => "HELD",
        State::AtRisk => "AT_RISK",
        State::Lost => "LOST",
        _ => "?",
    }
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Expired => "EXPIRED",
        Cause::Taken => "TAKEN",
        Cause::MaxHold => "MAX_HOLD",
        Cause::Closed => "CLOSED",
        _ => "NONE",
    }
}

fn found(findings: &[dlock::Finding]) -> Answer {
    let names: Vec<_> = findings.iter().map(|one| one.name).collect();
    valued("found", if names.is_empty() { "none".into() } else { names.join(",") })
}

fn inspected(seen: &dlock::Inspection) -> String {
    format!(
        "OK free={} waiters={} foreign={}",
        i32::from(seen.holder.is_empty()),
        seen.waiters,
        i32::from(seen.foreign)
    )
}

fn value_of(value: Option<Vec<u8>>) -> String {
    value.map_or("NOT_FOUND".into(), |value| format!("OK value={}", String::from_utf8_lossy(&value)))
}

fn options(words: &[String]) -> Result<Options, Error> {
    let pairs = words.iter().map(|word| word.split_once('=').unwrap_or((word, "")));
    pairs.fold(Options::new(), |set, (name, value)| set?.set(name, value))
}

/// %XX is any byte, % alone the empty word. Bytes that are no text stay what they are: see latin.
fn decode(word: &str) -> String {
    if word == "%" {
        return String::new();
    }
    bytes(word).into_iter().map(char::from).collect()
}

/// A word as bytes: each of its characters is one.
fn bytes(word: &str) -> Vec<u8> {
    let mut rest = word.bytes();
    let mut out = Vec::new();
    while let Some(byte) = rest.next() {
        let hex: Vec<u8> = if byte == b'%' { rest.clone().take(2).collect() } else { vec![] };
        match std::str::from_utf8(&hex).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                out.push(value);
                rest.nth(1);
            }
            None => out.push(byte),
        }
    }
    out
}

/// The characters of a decoded word as bytes again.
fn latin(word: &str) -> Vec<u8> {
    word.chars().map(|one| u8::try_from(u32::from(one)).unwrap_or(b'?')).collect()
}

fn main() {
    let form = std::env::args().nth(1).unwrap_or_default();
    if form == "crowd" {
        return crowd::main();
    }
    let mut calls = calls::World::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut tasks = tasks::World::default();
    for line in std::io::stdin().lock().lines() {
        let words: Vec<_> = line.expect("a line").split_whitespace().map(decode).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let answer = if form == "tasks" { runtime.block_on(tasks.answer(&words)) } else { calls.answer(&words) };
        println!("{answer}");
        std::io::stdout().flush().expect("written");
    }
}
