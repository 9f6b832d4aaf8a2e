// Tests of what the table of scenarios does not show. DLOCK_TEST_URL is a server of this test alone.
"use strict";

const assert = require("node:assert/strict");
const { execFile, spawn } = require("node:child_process");
const { once } = require("node:events");
const test = require("node:test");
const { promisify } = require("node:util");
const { Worker } = require("node:worker_threads");
const dlock = require("dlock");

const URL = process.env.DLOCK_TEST_URL;
let names = 0;

function refused(code) {
  return (error) => error instanceof dlock.DlockError && error.code === code;
}

async function opened(t, url = URL, options = {}) {
  const client = await dlock.open(url, options);
  t.after(() => client.close().catch(() => {}));
  return client;
}

const name = () => `test:${process.pid}:${names++}`;

async function until(condition) {
  while (!(await condition())) await new Promise(setImmediate);
}

// The output of a program, which must end by itself.
async function program(text) {
  const { stdout } = await promisify(execFile)(process.execPath, ["-e", text], { timeout: 30000 });
  return stdout;
}

test("a grant has a token, and the next one a higher token", async (t) => {
  const lock = (await opened(t)).lock(name());
  const first = await lock.acquire();
  assert.equal(first.state(), "HELD");
  assert.equal(await lock.tryAcquire(), null);
  await first.release();
  await assert.rejects(first.release(), refused("NOT_HELD"));
  const second = await lock.acquire();
  assert.ok(Number.isSafeInteger(second.token) && second.token > first.token);
});

test("a wait ends in time, and says so", async (t) => {
  const lock = (await opened(t)).lock(name());
  await lock.acquire();
  await assert.rejects(lock.acquire({ timeout: 0.1 }), refused("TIMED_OUT"));
  assert.equal(await lock.tryAcquire({ timeout: 5 }), null);
  for (const timeout of [-1, NaN, "1", null]) await assert.rejects(lock.acquire({ timeout }), refused("INVALID_ARGUMENT"));
});

test("an aborted wait is rejected with the reason, and holds nothing", async (t) => {
  const client = await opened(t);
  const lock = client.lock(name());
  const held = await lock.acquire();
  const cancel = new AbortController();
  const waiting = lock.acquire({ signal: cancel.signal });
  await until(() => client.stats().waiting === 1);
  cancel.abort(new Error("enough"));
  await assert.rejects(waiting, { message: "enough" });
  await held.release();
  await (await lock.acquire()).release();
  await assert.rejects(lock.acquire({ signal: cancel.signal }), { message: "enough" });
  await until(() => client.stats().held + client.stats().waiting === 0);
});

test("a grant that comes after the abort is given back", async (t) => {
  const [client, other] = [await opened(t), await opened(t)];
  const called = name();
  for (let i = 0; i < 50; i++) {
    const cancel = new AbortController();
    const waiting = client.lock(called).acquire({ signal: cancel.signal }); // the answer of the server is on its way
    cancel.abort();
    await waiting.then((held) => held.release(), (error) => assert.equal(error.name, "AbortError"));
    await (await other.lock(called).acquire()).release();
  }
});

test("a loss aborts the signal, and the release says it", async (t) => {
  const client = await opened(t);
  const lock = client.lock(name());
  const [told, held] = [once(client, "lost"), await lock.acquire()];
  const signal = held.lost;
  const aborted = once(signal, "abort");
  assert.equal(await lock.forceRelease(), true);
  await aborted;
  assert.ok(refused("LOST")(signal.reason));
  assert.throws(() => signal.throwIfAborted(), refused("LOST"));
  const [event] = await told;
  assert.deepEqual([event.type, event.token, event.cause], ["LOST", held.token, "TAKEN"]);
  await assert.rejects(held[Symbol.asyncDispose](), refused("LOST"));
  await held[Symbol.asyncDispose](); // twice is fine
});

test("a loss is told to the owner of each kind", async (t) => {
  const client = await opened(t);
  const [one, two] = [client.lock(name()), client.lock(name())];
  const multi = await client.multiLock(one, two).acquire();
  const mine = await one.client.lock(name()).owner(0).acquire();
  const called = name();
  client.lock(called);
  const again = await client.lock(called).acquire(); // by another handle of the lock
  const all = [multi, mine, again].map((held) => once(held.lost, "abort"));
  await two.forceRelease();
  await mine.lock.forceRelease();
  await client.lock(called).forceRelease();
  await Promise.all(all);
});

test("an owner may acquire again, and releases as often", async (t) => {
  const client = await opened(t);
  const owner = client.lock(name()).owner(7);
  const [first, second] = [await owner.acquire(), await owner.acquire()];
  assert.deepEqual([first.token === second.token, owner.holdCount(), client._alive[0]], [true, 2, 2]);
  await owner.release();
  await first.release();
  assert.deepEqual([owner.state(), owner.holdCount(), client._alive[0]], ["NONE", 0, 0]);
  await second[Symbol.asyncDispose]();
  const waiting = (await owner.acquire(), owner.lock.owner(8));
  const cancelled = assert.rejects(waiting.acquire(), refused("CANCELLED"));
  await until(() => waiting.cancel());
  await cancelled;
  assert.equal(waiting.cancel(), false);
});

test("a grant goes from one client to another", async (t) => {
  const [client, other] = [await opened(t), await opened(t)];
  const called = name();
  const held = await client.lock(called).acquire();
  const grant = await held.exportGrant();
  await held[Symbol.asyncDispose](); // holds nothing any more
  const adopted = await other.lock(called).adopt(grant);
  assert.equal(adopted.token, held.token);
  await adopted.release();
  await assert.rejects(other.lock(called).adopt(Buffer.from("none")), refused("INVALID_GRANT"));
});

test("with() releases, and the error of the body has priority", async (t) => {
  const client = await opened(t);
  const lock = client.lock(name());
  assert.equal(await lock.with(async (held) => (await held.extend(9000), 17)), 17);
  await assert.rejects(lock.with(() => Promise.reject(new Error("mine"))), { message: "mine" });
  assert.equal(client.stats().held, 0);
  const lost = lock.with(async (held) => {
    const aborted = once(held.lost, "abort");
    await lock.forceRelease();
    await aborted;
  });
  await assert.rejects(lost, refused("LOST"));
});

test("names and values may be bytes", async (t) => {
  const client = await opened(t);
  const bytes = Buffer.from([0x74, names++, 0xfe, 0xff]);
  const held = await client.lock(bytes).acquire();
  assert.equal(await client.lock(new Uint8Array(bytes)).tryAcquire(), null);
  await held.release();
  for (const wrong of ["", 17, null, undefined]) assert.throws(() => client.lock(wrong), dlock.DlockError);
  await using(client.transaction(), async (txn) => {
    await txn.watch("key");
    txn.set("key", bytes, { ttl: 60000 });
    assert.equal(await txn.commit(), true);
    await txn.watch("key");
    assert.deepEqual(await txn.get("key"), bytes);
    assert.equal(await txn.get("no such key"), null);
  });
});

// What `await using` does, for versions of Node.js without it.
async function using(thing, body) {
  try {
    return await body(thing);
  } finally {
    await thing[Symbol.asyncDispose]();
  }
}

test("what a client tells", async (t) => {
  const client = await opened(t);
  const called = name();
  await client.ping({ timeout: 5000 });
  const held = await client.lock(called).acquire();
  const seen = await client.lock(called).inspect();
  assert.deepEqual([seen.waiters, seen.foreign, seen.token >= held.token, seen.remaining > 0], [0, false, true, true]);
  assert.ok((await client.check()).every(({ name, danger, text }) => name && text && typeof danger === "boolean"));
  assert.match(client.metrics(), /^dlock_/m);
  const found = [];
  for await (const one of client.names()) found.push(one);
  assert.ok(found.includes(called));
  assert.equal(client.stats().held, 1);
  assert.throws(() => client.fault("lose", called), refused("UNSUPPORTED"));
});

test("errors", async (t) => {
  await assert.rejects(dlock.open("http://nowhere"), refused("INVALID_URL"));
  await assert.rejects(dlock.open("memory:", { no_such: 1 }), refused("UNKNOWN_OPTION"));
  await assert.rejects(dlock.open("memory:", { lease_ms: "soon" }), refused("INVALID_OPTION"));
  await assert.rejects(dlock.open("redis://localhost:1", { checks: "on", connect_timeout_ms: 500 }), dlock.DlockError);
  const client = await opened(t, "redis://localhost:1");
  const error = await client.lock("x").tryAcquire().catch((error) => error);
  assert.ok(refused("UNREACHABLE")(error));
  assert.deepEqual([error.status, error.retryable, error.name], [dlock.STATUS.UNREACHABLE, true, "DlockError"]);
  assert.throws(() => new dlock.Lock(), dlock.DlockError);
});

test("a close ends all waits, releases, and may come twice", async (t) => {
  const [client, other] = [await opened(t), await opened(t)];
  const called = name();
  const held = await client.lock(called).acquire();
  const waiting = client.lock(called).acquire();
  const ends = assert.rejects(waiting, refused("CLOSED"));
  await Promise.all([client.close(), client.close()]);
  await ends;
  assert.ok(held.lost.aborted);
  await client.close();
  await assert.rejects(client.ping(), refused("CLOSED"));
  await (await other.lock(called).acquire()).release();
});

test("a process ends when nothing waits, and not before", async () => {
  const text = `
    const dlock = require("dlock");
    dlock.open(${JSON.stringify(URL)}).then(async (client) => {
      const held = await client.lock("idle").acquire();
      const waiting = client.lock("idle").acquire({ timeout: 50 });
      await waiting.catch((error) => console.log(error.code));
      setTimeout(() => held.release(), 50).unref(); // the held lock keeps the process alive until then
    });`;
  assert.equal(await program(text), "TIMED_OUT\n");
});

const WORK = `
  const { parentPort, workerData } = require("node:worker_threads");
  const dlock = require("dlock");
  dlock.open(workerData.url).then(async (client) => {
    for (let i = 0; i < workerData.times; i++)
      await client.lock("shared").with(async () => {
        const before = Atomics.load(workerData.counter, 0);
        await new Promise(setImmediate);
        Atomics.store(workerData.counter, 0, before + 1);
      });
    await client.close();
    parentPort.postMessage("done");
  });`;

test("worker threads have clients of their own", async () => {
  for (const url of [URL, "memory://workers"]) {
    const counter = new Int32Array(new SharedArrayBuffer(4));
    const keeper = await dlock.open(url); // a world in memory lives as long as a client of it
    const workers = Array.from({ length: 4 }, () => new Worker(WORK, { eval: true, workerData: { url, times: 50, counter } }));
    await Promise.all(workers.map((worker) => once(worker, "exit")));
    assert.equal(counter[0], 200);
    await keeper.close();
  }
});

test("a worker may end at any time", async (t) => {
  const client = await opened(t);
  const lock = client.lock("ended");
  const held = await lock.acquire();
  const text = `
    const { parentPort, workerData } = require("node:worker_threads");
    const dlock = require("dlock");
    dlock.open(workerData).then((client) => { client.lock("ended").acquire(); client.lock("free").acquire(); parentPort.postMessage("waits"); });
    setInterval(() => dlock.open("memory:"), 1);`;
  for (let i = 0; i < 10; i++) {
    const worker = new Worker(text, { eval: true, workerData: URL });
    await once(worker, "message");
    await worker.terminate();
  }
  await held.release();
  await (await lock.acquire()).release();
});

test("a client that nobody closes is no error", async () => {
  const child = spawn(process.execPath, ["-e", `require("dlock").open(${JSON.stringify(URL)}).then((client) => client.lock("left").with(() => 0))`]);
  assert.deepEqual(await once(child, "exit"), [0, null]);
});

test("import and require give the same", async () => {
  const module = await import("dlock");
  assert.equal(module.default, dlock);
  for (const one of Object.keys(dlock).filter((key) => key !== "default")) assert.equal(module[one], dlock[one], one);
});
