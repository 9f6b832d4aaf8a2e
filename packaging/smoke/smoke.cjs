// What smoke.sh asks of the Node.js binding, as a CommonJS module.
"use strict";

const assert = require("node:assert/strict");
const { once } = require("node:events");
const dlock = require("dlock");

async function main() {
  const client = await dlock.open(process.env.DLOCK_URL, { lease_ms: 1500 });
  const lock = client.lock("smoke-node");
  const first = await lock.acquire();
  assert.equal(await lock.tryAcquire(), null);
  const heard = once(first.lost, "abort");
  assert.equal(await lock.forceRelease(), true);
  await heard;
  await assert.rejects(first.release(), { code: "LOST" });
  const second = await lock.acquire();
  assert.ok(second.token > first.token);
  console.log(`node: tokens ${first.token} and ${second.token}, require`);
  await second.release();
  await client.close();
}

main();
