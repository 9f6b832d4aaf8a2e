// What smoke.sh asks of the Node.js binding, as an ES module.
import assert from "node:assert/strict";
import { once } from "node:events";
import dlock from "dlock";

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
console.log(`node: tokens ${first.token} and ${second.token}, import`);
await second.release();
await client.close();
