// The runner of the Node.js binding. README.md in this folder lists the lines that it answers. `runner.mjs crowd URL WAITERS` is the crowd
// of test_node.py.
import fs from "node:fs";
import net from "node:net";
import readline from "node:readline";
import timers from "node:timers/promises";
import dlock from "dlock";

const PATIENCE = 20000;
const things = new Map();
const ABSENT = "ABSENT";

const of = (name) => things.get(name);
const time = (word) => (word === "-1" ? Infinity : Number(word));
const finite = (word) => Number(word);

function said(status = "OK", values = {}) {
  return [status, ...Object.entries(values).map(([name, value]) => `${name}=${value}`)].join(" ");
}

function unless(done, otherwise) {
  return said(done ? "OK" : otherwise);
}

function options(words) {
  return Object.fromEntries(words.map((word) => word.split(/=(.*)/s).slice(0, 2)));
}

// %XX is any byte, % alone the empty word.
function decode(word) {
  if (word === "%") return Buffer.alloc(0);
  return Buffer.from(word.replace(/%(..)/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))), "latin1");
}

async function acquired(lock, number, wait, signal) {
  const owner = lock.owner(Number(number));
  if (lock instanceof dlock.Latch) {
    const open = await lock.wait({ timeout: time(wait), signal });
    return unless(open, wait === "0" ? "BUSY" : "TIMED_OUT");
  }
  const held = await owner.acquire({ timeout: time(wait), signal });
  return said("OK", { token: held.token });
}

// Redis by plain commands: a number, a word, or the value.
function redis(path) {
  const socket = net.connect(path);
  const lines = readline.createInterface({ input: socket })[Symbol.asyncIterator]();
  const line = async () => (await lines.next()).value;
  const command = async (words) => {
    socket.write(`${words}\r\n`);
    const answer = await line();
    if (answer.startsWith("-")) throw new Error(answer);
    return answer.startsWith("$") && answer !== "$-1" ? line() : "0";
  };
  return { command, end: () => socket.end() };
}

const verbs = {
  async client(name, url, ...more) {
    const client = await dlock.open(decode(url).toString(), options(more));
    const losses = [];
    client.on("lost", (event) => losses.push(event));
    things.set(name, Object.assign(client, { losses }));
    return said();
  },
  close: async (name) => said(await of(name).close({ timeout: PATIENCE })),
  ping: async (name) => said(await of(name).ping()),
  provision: async (name) => said(await of(name).provision()),
  async check(name) {
    const found = await of(name).check();
    return said("OK", { found: found.map((one) => one.name).join(",") || "none" });
  },
  fault: (name, what, lock, ms) => said(of(name).fault(decode(what).toString(), decode(lock), time(ms))),
  stats(name) {
    const { held, waiting } = of(name).stats();
    return said("OK", { held, waiting });
  },
  metric(name, sample) {
    const line = of(name).metrics().split("\n").find((one) => one.startsWith(`${sample} `));
    return line ? said("OK", { value: line.slice(sample.length + 1) }) : "NOT_FOUND";
  },
  async lost(name) {
    for (const end = Date.now() + PATIENCE; !of(name).losses.length && Date.now() < end; ) await timers.setTimeout(1);
    const event = of(name).losses.shift();
    return event ? said("OK", { token: event.token, cause: event.cause }) : said("NO_EVENT");
  },
  lock(client, name, kind, called, ...more) {
    const methods = { mutex: "lock", fair: "fairLock", read: "readLock", write: "writeLock", semaphore: "semaphore",
                      permit_semaphore: "permitSemaphore", latch: "latch" }; // prettier-ignore
    if (!methods[kind]) return ABSENT;
    things.set(name, of(client)[methods[kind]](decode(called), options(more)));
    return said();
  },
  multi: (client, name, ...members) => said(void things.set(name, of(client).multiLock(...members.map(of)))),
  acquire: (lock, owner, wait) => acquired(of(lock), owner, wait),
  release: async (lock, owner) => said(await of(lock).owner(Number(owner)).release()),
  begin(name, lock, owner, wait) {
    const cancel = new AbortController();
    const waiting = { cancel, over: false };
    waiting.answer = attempt(() => acquired(of(lock), owner, wait, cancel.signal)).finally(() => (waiting.over = true));
    things.set(name, waiting);
    return said();
  },
  end: (name) => of(name).answer,
  cancel(name) {
    if (of(name).over) return said("NOT_HELD");
    of(name).cancel.abort();
    return said();
  },
  token: (lock, owner) => said("OK", { token: of(lock).owner(Number(owner)).currentToken() }),
  holds: (lock, owner) => said("OK", { holds: of(lock).owner(Number(owner)).holdCount() }),
  state: (lock, owner) => said("OK", { state: of(lock).owner(Number(owner)).state() }),
  remaining(lock, owner) {
    const left = of(lock).owner(Number(owner)).remaining();
    return said("OK", { remaining: left === Infinity ? -1 : left });
  },
  extend: async (lock, owner, ms) => said(await of(lock).owner(Number(owner)).extend(finite(ms))),
  force: async (lock) => unless(await of(lock).forceRelease(), "NOT_HELD"),
  async inspect(lock) {
    const seen = await of(lock).inspect();
    return said("OK", { free: Number(seen.holder === ""), waiters: seen.waiters, foreign: Number(seen.foreign) });
  },
  close_gate: async (lock, ms) => said(await of(lock).closeGate(finite(ms))),
  open_gate: async (lock) => unless(await of(lock).openGate(), "UNCHANGED"),
  export: async (lock, owner, grant) => said(void things.set(grant, await of(lock).owner(Number(owner)).exportGrant())),
  adopt: async (lock, owner, grant) => said("OK", { token: (await of(lock).owner(Number(owner)).adopt(of(grant))).token }),
  set: async (lock, n) => unless(await of(lock).setPermits(Number(n)), "UNCHANGED"),
  add: async (lock, n) => said("OK", { value: await of(lock).addPermits(Number(n)) }),
  drain: async (lock) => said("OK", { value: await of(lock).drainPermits() }),
  reclaim: async (lock, ms) => said("OK", { value: await of(lock).reclaimPermits(finite(ms)) }),
  available: async (lock) => said("OK", { value: await of(lock).availablePermits() }),
  permit: (lock, owner, index) => said("OK", { digits: of(lock).owner(Number(owner)).permitId(Number(index)).length }),
  count: async (lock, n) => unless(await of(lock).setCount(Number(n)), "UNCHANGED"),
  down: async (lock, n) => said("OK", { value: await of(lock).countDown(Number(n)) }),
  left: async (lock) => said("OK", { value: await of(lock).count() }),
  txn: (client, name) => said(void things.set(name, of(client).transaction())),
  watch: async (txn, key) => said(await of(txn).watch(decode(key))),
  async get(txn, key) {
    const value = await of(txn).get(decode(key));
    return value === null ? said("NOT_FOUND") : said("OK", { value: value.toString() });
  },
  put: (txn, key, value, ms) => said(of(txn).set(decode(key), decode(value), ms === undefined ? {} : { ttl: finite(ms) })),
  incr: (txn, key, by) => said(of(txn).incr(decode(key), BigInt(by))),
  delete: (txn, key) => said(of(txn).delete(decode(key))),
  commit: async (txn) => unless(await of(txn).commit(), "CONFLICT"),
  rollback: async (txn) => said(await of(txn).rollback()),
  async work(lock, owner, times, path) {
    const { command, end } = redis(path);
    for (let i = 0; i < Number(times); i++) {
      const held = await of(lock).owner(Number(owner)).tryAcquire({ timeout: PATIENCE });
      if (!held) return said("TIMED_OUT");
      await command(`SET witness:counter ${Number(await command("GET witness:counter")) + 1}`);
      await command(`RPUSH witness:tokens ${held.token}`);
      await held.release();
    }
    end();
    return said("OK", { done: times });
  },
  async reset() {
    for (const thing of things.values()) if (thing instanceof dlock.Client) await thing.close({ timeout: PATIENCE }).catch(() => {});
    things.clear();
    return said();
  },
};

async function attempt(body) {
  try {
    return await body();
  } catch (error) {
    if (error instanceof dlock.DlockError) return said(error.code);
    if (error.name === "AbortError") return said("CANCELLED");
    if (error instanceof TypeError && /is not a function$/.test(error.message)) return ABSENT; // this kind has no such method
    throw error;
  }
}

// That many wait for one lock while it is held, then each has it once.
async function crowd(url, waiters) {
  const threads = () => fs.readdirSync("/proc/self/task").length;
  const client = await dlock.open(url);
  const lock = client.lock("crowd");
  const held = await lock.acquire();
  const tokens = [held.token];
  const before = threads();
  const all = Array.from({ length: waiters }, () => lock.with(({ token }) => tokens.push(token)));
  while (client.stats().waiting < waiters) await timers.setTimeout(1);
  const during = threads();
  await held.release();
  await Promise.all(all);
  const grew = tokens.every((token, i) => i === 0 || token > tokens[i - 1]);
  console.log(`served=${tokens.length - 1} grew=${grew} before=${before} during=${during}`);
  await client.close({ timeout: PATIENCE });
}

if (process.argv[2] === "crowd") {
  await crowd(process.argv[3], Number(process.argv[4]));
} else {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, ...words] = line.split(" ").filter(Boolean);
    fs.writeSync(1, `${verbs[verb] ? await attempt(() => verbs[verb](...words)) : ABSENT}\n`);
  }
  await verbs.reset();
}
