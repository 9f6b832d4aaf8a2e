// rivals.mjs WAY URL CALLERS SECONDS own|one|pair: run a lock client for Node.js. own: each caller has its own lock; one: all share one
// lock; pair: one caller with this binding, and only the time in the lock calls is measured. It prints "name value" lines, as the C
// programs do. A wait that has not ended at the end counts with its length until then.
const LEASE = 30000;

// Each way gives what makes locks; a lock is a function that waits and gives what releases.
const ways = {
  async dlock(url) {
    const { default: dlock } = await import("dlock");
    const client = await dlock.open(url);
    return (name) => {
      const lock = client.lock(name);
      return async () => {
        const held = await lock.acquire();
        return () => held.release();
      };
    };
  },

  // It asks again after 200 ms, and up to 100 ms more or less, as it comes; but it does not give up.
  async redlock(url) {
    const [{ Redis }, { default: Redlock }] = await Promise.all([import("ioredis"), import("redlock")]);
    const all = new Redlock([new Redis(url)], { retryCount: -1 });
    return (name) => async () => {
      const held = await all.lock(name, LEASE);
      return () => held.unlock();
    };
  },

  // It asks again every 10 ms, as it comes; but it does not give up.
  async "redis-semaphore"(url) {
    const [{ Redis }, { Mutex }] = await Promise.all([import("ioredis"), import("redis-semaphore")]);
    const client = new Redis(url);
    return (name) => {
      const lock = new Mutex(client, name, { lockTimeout: LEASE, acquireTimeout: Infinity });
      return async () => {
        await lock.acquire();
        return () => lock.release();
      };
    };
  },

  async "simple-redis-mutex"(url) {
    const [{ createClient }, { lock }] = await Promise.all([import("redis"), import("simple-redis-mutex")]);
    const client = await createClient({ url }).connect();
    return (name) => () => lock(client, name, { timeout: LEASE });
  },
};

class Work {
  constructor(callers, shared) {
    Object.assign(this, { callers, shared, waits: [], pairs: 0, handoffs: 0, last: -1, since: new Map() });
  }

  name(index) {
    return `node:${process.pid}` + (this.shared ? "" : `:${index}`);
  }

  async caller(index, acquire) {
    for (;;) {
      const start = performance.now();
      this.since.set(index, start);
      const release = await acquire();
      const won = performance.now();
      if (this.shared && this.last !== index) this.handoffs++;
      this.last = index;
      await release();
      this.waits.push((this.shared ? won : performance.now()) - start);
      this.pairs++;
      this.since.delete(index);
    }
  }

  async run(make, seconds) {
    const locks = Array.from({ length: this.callers }, (_, index) => make(this.name(index)));
    for (let pair = 0; pair < 200; pair++) await (await locks[pair % Math.min(8, this.callers)]())(); // connections, caches
    locks.forEach((acquire, index) => this.caller(index, acquire).catch(fail));
    await new Promise((resolve) => setTimeout(resolve, 200));
    Object.assign(this, { waits: [], pairs: 0, handoffs: 0 });
    for (const index of this.since.keys()) this.since.set(index, performance.now());
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    const now = performance.now();
    this.waits.push(...[...this.since.values()].map((since) => now - since));
  }

  // The pairs of one caller, without a promise or a function of this program among them.
  async pair(url, seconds) {
    const { default: dlock } = await import("dlock");
    const lock = (await dlock.open(url)).lock(this.name(0));
    const end = performance.now() + seconds * 1000;
    for (let now = performance.now(); now < end; ) {
      const start = now;
      await (await lock.acquire()).release();
      now = performance.now();
      this.waits.push(now - start);
    }
    this.pairs = this.waits.length;
  }

  report(seconds) {
    const waits = this.waits.sort((a, b) => a - b);
    const micro = (percent) => waits[Math.floor(((waits.length - 1) * percent) / 100)] * 1000;
    console.log(`per_s ${this.pairs / seconds}\nhandoffs_per_s ${this.handoffs / seconds}\np50 ${micro(50)}\np99 ${micro(99)}`);
  }
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

const [way, url, callers, seconds, kind] = process.argv.slice(2);
const work = new Work(Number(callers), kind === "one");
if (kind === "pair") await work.pair(url, Number(seconds));
else await work.run(await ways[way](url), Number(seconds));
work.report(Number(seconds));
process.exit(0); // callers that still wait do not matter
