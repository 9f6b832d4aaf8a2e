// What index.d.ts must allow, checked by tsc --strict and run. Lines below @ts-expect-error must be refused.
import dlock, { DlockError, open, type Held, type Inspection } from "dlock";

await using client = await open("memory:", { lease_ms: 10_000, renew: true });
{
  await using lock = await client.lock("invoice:17").acquire({ timeout: 1000, signal: AbortSignal.timeout(2000) });
  const token: number = lock.token;
  lock.lost.throwIfAborted();
  console.log(Number.isSafeInteger(token), lock.state());
}
console.log(client.stats().held);

const maybe: Held | null = await client.semaphore("permits").tryAcquire();
const left: number = await client.latch("latch").countDown();
const open_: boolean = await client.latch("latch").wait({ timeout: 10 });
const seen: Inspection = await client.lock(new Uint8Array([120])).inspect();
console.log(maybe, left, open_, seen.holder === "");

const state: string = await client.lock("invoice:17").with(async (held) => {
  await held.extend(5000);
  return held.state();
});
console.log(state, dlock.STATUS.OK, typeof dlock.version);

client.on("lost", (event) => console.log(event.cause === "EXPIRED", event.token));
for await (const name of client.names()) console.log(name);
try {
  client.fault("explode");
} catch (error) {
  if (error instanceof DlockError && error.code === "INVALID_ARGUMENT") console.log(error.retryable);
}

// @ts-expect-error: a time is a number
const wrong = () => client.lock("x").acquire({ timeout: "1" });
// @ts-expect-error: a mutex has no permits
const none = () => client.lock("x").setPermits(1);
// @ts-expect-error: locks are made by a client
const made = () => new dlock.Lock();
void [wrong, none, made];
