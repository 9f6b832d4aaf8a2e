// What is refused before anything is sent, and what the listeners of a client may throw.
"use strict";

const assert = require("node:assert/strict");
const { once } = require("node:events");
const test = require("node:test");
const { promisify } = require("node:util");
const { execFile } = require("node:child_process");
const dlock = require("dlock");

const URL = process.env.DLOCK_TEST_URL;
const NOBODY = "redis://localhost:1"; // what is sent there ends with UNREACHABLE
const LONE = ["\ud800", "a\udc00b", "\udc00\ud800"];
let names = 0;

const name = () => `arguments:${process.pid}:${names++}`;

function refused(code, says = /./) {
  return (error) => error instanceof dlock.DlockError && error.code === code && says.test(error.message);
}

async function opened(t, url) {
  const client = await dlock.open(url);
  t.after(() => client.close().catch(() => {}));
  return client;
}

// A call that may throw at once or be rejected.
async function refuses(call, code, says) {
  await assert.rejects(async () => call(), refused(code, says), String(call));
}

// All calls that wait.
function waits(client) {
  const [lock, latch] = [client.lock("x"), client.latch("x")];
  const calls = [lock, latch, lock.owner(1)].flatMap((one) => [(o) => one.acquire(o), (o) => one.tryAcquire(o)]);
  return [...calls, (o) => lock.with(() => {}, o), (o) => latch.wait(o)];
}

test("options of a call are a plain object", async (t) => {
  const client = await opened(t, NOBODY);
  const others = [(o) => client.ping(o), (o) => client.provision(o), (o) => client.check(o), (o) => client.close(o)];
  const calls = [...waits(client), ...others, (o) => dlock.open(NOBODY, o), (o) => client.lock("x", o), (o) => client.latch("x", o)];
  const wrong = [null, 5, "5", true, [1], new Map([["timeout", 1]]), new Set(), new Date(), () => {}, Object.create({ timeout: 1 })];
  for (const call of calls) for (const options of wrong) await refuses(() => call(options), "INVALID_ARGUMENT", /plain object/);
  for (const options of [undefined, {}, Object.create(null), { unknown: undefined }])
    await refuses(() => client.lock("x", options).tryAcquire(options), "UNREACHABLE");
  await (await opened(t, "memory:")).ping({ timeout: 1000 });
});

test("an unknown option is refused, and the right one is named", async (t) => {
  const client = await opened(t, NOBODY);
  const calls = { wait: /timeout/, timeoutMs: /timeout/, ttl: /lease_ms/, abortSignal: /signal/, controller: /signal/, more: /timeout and signal/ };
  for (const call of waits(client))
    for (const [option, says] of Object.entries(calls)) await refuses(() => call({ [option]: 1 }), "INVALID_ARGUMENT", says);
  for (const call of [(o) => client.ping(o), (o) => client.check(o)]) await refuses(() => call({ wait: 1 }), "INVALID_ARGUMENT", /timeout/);
  const locks = { ttl: /lease_ms/, leaseMs: /lease_ms/, minHoldMs: /min_hold_ms/, minHold: /min_hold_ms/, timeout: /acquire/, retryCount: /acquire/ };
  for (const [option, says] of Object.entries(locks)) await refuses(() => client.lock("x", { [option]: 1 }), "UNKNOWN_OPTION", says);
  const transaction = (await opened(t, URL)).transaction();
  await refuses(() => transaction.set("x", "y", { ex: 5 }), "INVALID_ARGUMENT", /ttl/);
  await refuses(() => transaction.set("x", "y", 5), "INVALID_ARGUMENT", /plain object/);
});

test("a value of an option keeps every digit, or is refused", async (t) => {
  const client = await opened(t, "memory:");
  for (const value of [{}, [], [5000], Symbol("x"), () => {}, NaN, Infinity, 0.5, 2 ** 53, 1e300]) {
    await refuses(() => client.lock("x", { lease_ms: value }), "INVALID_OPTION", /lease_ms/);
    await refuses(() => dlock.open("memory:", { username: value }), "INVALID_OPTION", /username/);
  }
  for (const value of [5000, 5000n, "5000", null, undefined]) await (await client.lock("x", { lease_ms: value }).acquire()).release();
});

test("a signal is an AbortSignal", async (t) => {
  const [client, free] = [await opened(t, NOBODY), await opened(t, "memory:")];
  const methods = { addEventListener() {}, removeEventListener() {} };
  const wrong = [new AbortController(), null, 5, "signal", true, {}, { aborted: false }, methods, { ...methods, aborted: "no" }, new EventTarget()];
  for (const call of [...waits(client), ...waits(free)]) for (const signal of wrong) await refuses(() => call({ signal }), "INVALID_ARGUMENT", /AbortSignal/);
  assert.deepEqual([free.stats().acquired, free.stats().held, free.stats().waiting], [0, 0, 0]);
  await refuses(() => client.lock("x").acquire({ signal: new AbortController() }), "INVALID_ARGUMENT", /controller's signal/);
  for (const call of waits(free)) await assert.rejects(async () => call({ signal: AbortSignal.abort(new Error("before")) }), { message: "before" });
});

test("what looks like a signal and throws leaves nothing behind", async (t) => {
  const client = await opened(t, "memory:");
  const lock = client.lock(name());
  const held = await lock.acquire();
  const throws = (message) => () => { throw new Error(message); }; // prettier-ignore
  const deaf = { aborted: false, addEventListener: throws("deaf"), removeEventListener() {} };
  await assert.rejects(lock.acquire({ signal: deaf }), { message: "deaf" });
  const clings = { aborted: false, addEventListener() {}, removeEventListener: throws("clings") };
  const told = once(client, "error");
  const waiting = lock.acquire({ signal: clings });
  await held.release();
  await (await waiting).release();
  assert.equal((await told.catch((error) => [error]))[0].message, "clings");
  assert.deepEqual([client._alive[0], client._calls.size, client.stats().held], [0, 0, 0]);
});

test("no number is narrowed", async (t) => {
  const client = await opened(t, NOBODY);
  const [lock, semaphore, latch, txn] = [client.lock("x"), client.semaphore("x"), client.latch("x"), client.transaction()];
  const wrong = [NaN, 0.5, Infinity, -Infinity, 2 ** 53, -(2 ** 53), 1e300, "5", null, true, {}, [5]];
  const wholes = [(v) => semaphore.setPermits(v), (v) => semaphore.addPermits(v), (v) => latch.setCount(v), (v) => latch.countDown(v)];
  const owned = [(v) => lock.owner(v), (v) => lock.owner(1).permitId(v)];
  for (const call of [...wholes, ...owned, (v) => txn.incr("x", v)]) for (const value of wrong) await refuses(() => call(value), "INVALID_ARGUMENT");
  for (const value of wrong.filter((one) => one !== Infinity)) await refuses(() => client.fault("lose", "x", value), "INVALID_ARGUMENT", /whole/);
  for (const call of [...wholes, ...owned]) await refuses(() => call(5n), "INVALID_ARGUMENT");
  const times = [(v) => lock.closeGate(v), (v) => semaphore.reclaimPermits(v), (v) => lock.owner(1).extend(v), (v) => txn.set("x", "y", { ttl: v })];
  const timeouts = [...waits(client), (o) => client.ping(o), (o) => client.check(o), (o) => client.close(o)].map((call) => (v) => call({ timeout: v }));
  for (const call of [...times, ...timeouts])
    for (const value of [NaN, -1, -0.5, -Infinity, 2 ** 53, 1e300, "5", null, true, {}, 5n]) await refuses(() => call(value), "INVALID_ARGUMENT", /time/);
  for (const value of [2 ** 32, 0.5, "1", undefined]) await refuses(() => new dlock.DlockError(value), "INVALID_ARGUMENT");
});

test("incr takes the numbers of the server, and no others", async (t) => {
  const client = await opened(t, URL);
  const [key, txn] = [name(), client.transaction()];
  for (const by of [2n ** 63n, 2n ** 64n, 2n ** 64n + 5n, -(2n ** 63n) - 1n, 10n ** 30n]) {
    await txn.watch(key);
    assert.throws(() => txn.incr(key, by), refused("INVALID_ARGUMENT", /2\^63/));
    await txn.rollback();
  }
  for (const by of [2n ** 63n - 1n, -(2n ** 63n) + 1n]) {
    await txn.watch(key);
    txn.set(key, "0");
    txn.incr(key, by);
    assert.equal(await txn.commit(), true);
    await txn.watch(key);
    assert.equal(String(await txn.get(key)), String(by));
    await txn.rollback();
  }
});

test("text with a lone surrogate is no name", async (t) => {
  const [client, txn] = [await opened(t, "memory:"), (await opened(t, URL)).transaction()];
  const makers = ["lock", "fairLock", "readLock", "writeLock", "semaphore", "permitSemaphore", "latch"];
  for (const lone of LONE) {
    for (const maker of makers) await refuses(() => client[maker](lone), "INVALID_NAME", /surrogate/);
    await refuses(() => client.fault("lose", lone), "INVALID_NAME", /surrogate/);
    await refuses(() => client.fault(lone), "INVALID_ARGUMENT", /surrogate/);
    for (const option of ["namespace", "username", "password"]) {
      await refuses(() => dlock.open("memory:", { [option]: lone }), "INVALID_OPTION", new RegExp(`${option}.*surrogate`));
      await refuses(() => client.lock("x", { [option]: lone }), "INVALID_OPTION", /surrogate/);
    }
    await refuses(() => client.lock("x", { [lone]: 1 }), "INVALID_ARGUMENT", /surrogate/);
    await refuses(() => dlock.open(`redis://${lone}@localhost`), "INVALID_URL", /surrogate/);
    await refuses(() => client.lock("x").adopt(lone), "INVALID_GRANT", /surrogate/);
    for (const call of [() => txn.watch("x", lone), () => txn.get(lone), () => txn.set(lone, ""), () => txn.set("x", lone), () => txn.incr(lone), () => txn.delete(lone)])
      await refuses(call, "INVALID_ARGUMENT", /surrogate/);
  }
  await (await client.lock("\u{1f512}é").acquire()).release();
});

test("the body of with() is a function", async (t) => {
  const client = await opened(t, NOBODY);
  for (const body of [undefined, null, {}, "x"]) await refuses(() => client.lock("x").with(body), "INVALID_ARGUMENT", /function/);
});

// The loop does not turn while the library gives the lock to a waiter, and does something to it.
async function abortsAfter(t, world, change) {
  const [holder, client] = [await opened(t, world), await opened(t, world)];
  const [called, cancel] = [name(), new AbortController()];
  const held = await holder.lock(called).acquire();
  const waiting = client.lock(called).acquire({ signal: cancel.signal });
  while (!client.stats().waiting) await new Promise(setImmediate);
  const released = held.release();
  while (!client.stats().acquired);
  const abort = () => cancel.abort(new Error("enough"));
  const changed = change(client, called, abort);
  abort();
  await assert.rejects(waiting, { message: "enough" });
  await Promise.all([released, changed]);
  await (await holder.lock(called).acquire()).release();
  return client;
}

test("an abort after the loss of what was granted is an abort", async (t) => {
  const client = await abortsAfter(t, `memory://${name()}`, (client, called) => {
    client.fault("lose", called);
    while (client.stats().held);
  });
  while (client._calls.size) await new Promise(setImmediate);
  assert.equal(client._alive[0], 0);
  await client.ping();
});

test("an abort beside a close is an abort", async (t) => {
  for (const abortsFirst of [true, false]) {
    await abortsAfter(t, URL, (client, called, cancel) => {
      if (abortsFirst) cancel();
      return client.close();
    });
  }
});

// A program whose listeners throw, and what it prints.
async function listening(before) {
  const text = `
    const dlock = require("dlock");
    process.on("uncaughtException", (error) => console.log("uncaught", error.message));
    process.on("unhandledRejection", (error) => console.log("unhandled", error.message));
    process.on("warning", (one) => console.log(one.name, one.code, /mine/.test(one.detail)));
    dlock.open("memory:").then(async (client) => {
      client.on("lost", () => { throw new Error("mine"); });
      client.on("lost", async () => { throw new Error("mine"); });
      client.on("lost", () => console.log("told"));
      ${before}
      const held = await client.lock("listener").acquire();
      const lost = new Promise((resolve) => held.lost.addEventListener("abort", resolve));
      client.fault("lose", "listener");
      await lost;
      await client.ping();
      await client.close();
      console.log("closed");
    });`;
  const { stdout } = await promisify(execFile)(process.execPath, ["-e", text], { timeout: 30000 });
  return stdout.trim().split("\n").sort();
}

test("what a listener throws ends no process, and keeps no other listener from its event", async () => {
  const warning = "DlockWarning DLOCK_LISTENER true";
  assert.deepEqual(await listening(""), [warning, warning, "closed", "told"]);
  assert.deepEqual(await listening('client.on("error", (error) => console.log("error", error.message));'), ["closed", "error mine", "error mine", "told"]);
  const worse = 'client.on("error", () => { throw new Error("mine"); }); client.once("error", async () => { throw new Error("mine"); });';
  assert.deepEqual(await listening(worse), [warning, warning, warning, "closed", "told"]);
  assert.deepEqual(await listening('client.on("lost", () => { throw null; });'), [warning, warning, "DlockWarning DLOCK_LISTENER false", "closed", "told"].sort());
});
