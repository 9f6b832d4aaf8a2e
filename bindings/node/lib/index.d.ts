// Types of the binding of libdlock for Node.js.
/// <reference lib="esnext.disposable" />
/// <reference types="node" />
import { EventEmitter } from "node:events";
import type { Cause, Code, Counts, Owned, Permits, Requests, State, Stats } from "./requests.js";

export type { Cause, Code, State, Stats };

/** Options of a client or a lock by their names in the library's manual, for example { lease_ms: 10_000 }: a plain object. */
export type Options = Record<string, string | number | bigint | boolean | null | undefined>;

/** Names, keys and values: text, sent in UTF-8 and so without lone surrogates, or bytes. */
export type Bytes = string | Uint8Array;

export interface Waiting {
  /** Milliseconds, rounded up; Infinity is without end. */
  timeout?: number;
  /** Ends the wait: the promise is rejected with the reason of the signal, and nothing is held. */
  signal?: AbortSignal;
}

export interface Timeout {
  /** Milliseconds. Without it the timeouts of the client are valid. */
  timeout?: number;
}

/** The statuses of the library, by their names. */
export const STATUS: Readonly<Record<string, number>>;

/** The version of the library. */
export const version: string;

/** What the library answered instead of doing what was asked. */
export class DlockError extends Error {
  constructor(status: number, message?: string);
  /** The number of the status, as in dlock.h. */
  readonly status: number;
  /** The name of the status, for example "TIMED_OUT". */
  readonly code: Code;
  /** Whether the same call may succeed later without a change by the caller. */
  readonly retryable: boolean;
}

/**
 * Make a client for the servers of a URL. It connects on first use; with the option checks, now. Options win over those of the
 * URL. INVALID_URL, UNKNOWN_OPTION, INVALID_OPTION, UNSUPPORTED.
 */
export function open(url: string, options?: Options): Promise<Client>;

/** Something that happened to a client. Fields that do not apply are -1. */
export interface Event {
  type: "AT_RISK" | "LOST" | "LOG";
  status: number;
  lockId: number;
  owner: number;
  token: number;
  /** For how long the lock is still held: milliseconds. */
  remaining: number;
  cause: Cause;
  text: string;
}

/** The state of a lock at the server. Times are milliseconds. */
export interface Inspection {
  /** The id of the holder on the wire; "" when the lock is free. */
  holder: string;
  /** At least the token of the holder; -1 when unknown. */
  token: number;
  /** What is left of the lease; Infinity when there is no end. */
  remaining: number;
  /** For how long the lock is held; -1 when unknown. */
  heldFor: number;
  /** Processes in line. */
  waiters: number;
  /** The holder is not libdlock. */
  foreign: boolean;
}

/** One result of Client.check. */
export interface Finding {
  /** For example "EVICTION". */
  name: string;
  /** Locks fail or may be lost; else less is guaranteed than could be. */
  danger: boolean;
  /** A sentence with advice. */
  text: string;
}

interface ClientEvents {
  /** The lease of a held lock may end before it is renewed. */
  atRisk: [event: Event];
  /** A held lock was lost. */
  lost: [event: Event];
  /** What an operator wants to know. */
  log: [event: Event];
  /** What a listener threw, or what its promise was rejected with. Without a listener for it, it is a warning of the process. */
  error: [error: unknown];
}

/**
 * The connections to the servers of a URL, and a watchdog that renews what is held. It belongs to one thread: a worker opens its
 * own. It keeps the process alive while a call waits for its answer or a lock is held.
 */
export class Client extends EventEmitter implements AsyncDisposable {
  private constructor();
  /** A mutex. Nothing is sent here, and by the next methods. INVALID_NAME, UNKNOWN_OPTION, INVALID_OPTION. */
  lock(name: Bytes, options?: Options): Lock;
  /** A mutex that is granted strictly in the order of the requests. */
  fairLock(name: Bytes, options?: Options): Lock;
  /** The read side of a read-write lock: many owners may hold it together. */
  readLock(name: Bytes, options?: Options): Lock;
  /** The write side of a read-write lock, held alone. */
  writeLock(name: Bytes, options?: Options): Lock;
  /** A semaphore whose permits stay taken until they are released. */
  semaphore(name: Bytes, options?: Options): Semaphore;
  /** A semaphore whose permits are leases. */
  permitSemaphore(name: Bytes, options?: Options): Semaphore;
  /** A count-down latch. */
  latch(name: Bytes, options?: Options): Latch;
  /** 1 to 16 locks of this client as one: all are acquired, or none. DUPLICATE_NAME. */
  multiLock(...members: Lock[]): Lock;
  /** An optimistic transaction over keys of the server. UNSUPPORTED on a quorum and on ZooKeeper. */
  transaction(): Transaction;
  /** Ask the server whether it answers. UNREACHABLE, DENIED, SERVER_... */
  ping(options?: Timeout): Promise<void>;
  /** Tell the server that it remembers every lock, which ends a quarantine. UNSUPPORTED without the option quarantine_ms. */
  provision(options?: Timeout): Promise<void>;
  /** Check whether the server is fit to keep locks. */
  check(options?: Timeout): Promise<Finding[]>;
  /** The names of locks that the server knows. A name may come twice; it may be free. */
  names(): AsyncGenerator<string, void, undefined>;
  /** The counters of the client. */
  stats(): Stats;
  /** The counters and histograms of the client as OpenMetrics text. */
  metrics(): string;
  /** Make something go wrong, for a test: see dlock_client_fault. Only a client of memory: does it. */
  fault(what: string, name?: Bytes, ms?: number): void;
  /** End all waits with CLOSED, release what is held, and stop. TIMED_OUT: the server did not confirm every release in time. */
  close(options?: { timeout?: number }): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;

  on<E extends keyof ClientEvents>(name: E, listener: (...args: ClientEvents[E]) => void): this;
  once<E extends keyof ClientEvents>(name: E, listener: (...args: ClientEvents[E]) => void): this;
  off<E extends keyof ClientEvents>(name: E, listener: (...args: ClientEvents[E]) => void): this;
}

/** A lock with a name, shared by all hosts. */
export class Lock {
  protected constructor();
  readonly client: Client;
  /**
   * Wait until the lock is granted. Each grant is an owner of its own: whoever holds it waits for itself.
   * TIMED_OUT, BUSY, CLOSED, GATE_CLOSED, UNREACHABLE, DENIED, WRONG_KIND and what else keeps the server from answering.
   */
  acquire(options?: Waiting): Promise<Held>;
  /** As acquire, but null when the lock was not granted in time. Without a timeout it does not wait. */
  tryAcquire(options?: Waiting): Promise<Held | null>;
  /** Acquire, run body, release. An error of body has priority; else LOST when the lock was lost meanwhile. */
  with<T>(body: (held: Held) => T | PromiseLike<T>, options?: Waiting): Promise<T>;
  /** Take over a grant that another process has exported. INVALID_GRANT, BUSY; LOST: too late. */
  adopt(grant: Uint8Array): Promise<Held>;
  /** An owner with a number below 2^30 of the caller's choice; 0 is this thread. It may acquire again what it holds. */
  owner(number: number): Owner;
}
export interface Lock extends Requests {}

/** A semaphore. The option permits says how many permits one acquisition takes. */
export class Semaphore extends Lock {}
export interface Semaphore extends Permits {}

/** A count-down latch. Nothing of it is ever held. */
export class Latch extends Lock {
  /** Wait until the count is zero; false when that took too long. */
  wait(options?: Waiting): Promise<boolean>;
}
export interface Latch extends Counts {}

/** One owner of a lock: what it has, and what it does by hand. Questions are answered by this process, without the server. */
export class Owner {
  protected constructor();
  readonly client: Client;
  readonly lock: Lock;
  /** Its number in events. */
  readonly number: number;
  /** As Lock.acquire. INVALID_ARGUMENT when the owner waits already. */
  acquire(options?: Waiting): Promise<Held>;
  tryAcquire(options?: Waiting): Promise<Held | null>;
  adopt(grant: Uint8Array): Promise<Held>;
  /** Release one hold. NOT_HELD, LOST; UNKNOWN_OUTCOME when the server did not answer in time. */
  release(): Promise<void>;
  /** End the wait of this owner with CANCELLED. false when it does not wait. */
  cancel(): boolean;
  /** The fencing token of the grant. NOT_HELD, LOST. */
  currentToken(): number;
  /** What the owner has, by the clock at this instant. */
  state(): State;
  /** How often the owner holds the lock. */
  holdCount(): number;
  /** For how many milliseconds the grant is valid without another renewal; Infinity is without end. NOT_HELD, LOST. */
  remaining(): number;
  /** The id of one permit of a permit semaphore. NOT_HELD, LOST, UNSUPPORTED. */
  permitId(index?: number): string;
  /**
   * Give the grant away as bytes, a secret that works once. Another process may adopt them until the lease ends. It takes one
   * round trip. After an error it is held as before. NOT_HELD, LOST; BUSY when nested.
   */
  exportGrant(): Promise<Uint8Array>;
}
export interface Owner extends Owned {}

/** A held lock. It is renewed until it is released; the garbage collector releases nothing. */
export class Held extends Owner implements AsyncDisposable {
  /** The fencing token: it grows with every grant, and is below 2^53. */
  readonly token: number;
  /** Aborts when the lock is lost. Its reason is a DlockError with the code LOST. */
  readonly lost: AbortSignal;
  /** Release, unless that was done. LOST when the lock was lost. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** An optimistic transaction: watch and read keys, queue writes, commit. One call at a time. */
export class Transaction implements AsyncDisposable {
  private constructor();
  readonly client: Client;
  /** Watch keys; do this before you read them. The first one begins a transaction. */
  watch(...keys: Bytes[]): Promise<void>;
  /** The value of a key, or null. WRONG_KIND when it is not a string. */
  get(key: Bytes): Promise<Buffer | null>;
  /** Queue a write. */
  set(key: Bytes, value: Bytes, options?: { ttl?: number }): void;
  incr(key: Bytes, by?: number | bigint): void;
  delete(key: Bytes): void;
  /** Do all writes at once. false when a watched key was changed; then nothing is written. */
  commit(): Promise<boolean>;
  /** Drop all queued writes and watches. */
  rollback(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
