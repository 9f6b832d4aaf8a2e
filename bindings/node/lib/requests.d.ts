// Types of requests.js and numbers.js. Written by abi/gen.py from abi/dlock.json: do not edit.
import type { Inspection } from "./index.js";

/** Methods of all kinds of locks. */
export interface Requests {
  /**
   * Take the lock from its holder, in any process. false when it was free.
   */
  forceRelease(): Promise<boolean>;
  /**
   * End all waits for the lock, in all processes, with GateClosed, and refuse new ones for ttl
   * milliseconds.
   */
  closeGate(ttl: number): Promise<void>;
  /**
   * Open the gate that closeGate closed. false when it was open.
   */
  openGate(): Promise<boolean>;
  /**
   * Ask the server who holds the lock.
   */
  inspect(): Promise<Inspection>;
}

/** Methods of semaphores. */
export interface Permits {
  /**
   * Create the semaphore with so many permits. false, and nothing changes, when it exists.
   */
  setPermits(permits: number): Promise<boolean>;
  /**
   * Add permits, or remove them when negative. Returns how many are free now.
   */
  addPermits(permits: number): Promise<number>;
  /**
   * Remove all free permits for good. Returns how many. Unsupported for a permit semaphore.
   */
  drainPermits(): Promise<number>;
  /**
   * Free permits whose holder has not renewed for its lease_ms and silent milliseconds more. Returns how
   * many.
   */
  reclaimPermits(silent: number): Promise<number>;
  /**
   * How many permits are free.
   */
  availablePermits(): Promise<number>;
}

/** Methods of latches. */
export interface Counts {
  /**
   * Set the count of an open latch. false, and nothing changes, when it has a count.
   */
  setCount(count: number): Promise<boolean>;
  /**
   * Count down, but not below zero. Returns the new count.
   */
  countDown(count?: number): Promise<number>;
  /**
   * The count; 0 means that the latch is open.
   */
  count(): Promise<number>;
}

/** Methods of owners. */
export interface Owned {
  /**
   * Set the lease: the server keeps the lock for so long from now and from each renewal. NotHeld, Lost.
   */
  extend(lease: number): Promise<void>;
}

/** The names of statuses: `code` of a DlockError. A newer library may have more. */
export type Code =
  | "BUSY"
  | "TIMED_OUT"
  | "CANCELLED"
  | "INTERRUPTED"
  | "WOULD_BLOCK"
  | "NO_EVENT"
  | "GATE_CLOSED"
  | "CONFLICT"
  | "NOT_FOUND"
  | "UNCHANGED"
  | "INVALID_ARGUMENT"
  | "INVALID_NAME"
  | "UNKNOWN_OPTION"
  | "INVALID_OPTION"
  | "INVALID_URL"
  | "UNSUPPORTED"
  | "OUT_OF_MEMORY"
  | "CLOSED"
  | "FORKED"
  | "BUFFER_TOO_SMALL"
  | "SYSTEM_ERROR"
  | "DUPLICATE_NAME"
  | "INVALID_QUORUM"
  | "NOT_HELD"
  | "LOST"
  | "WRONG_KIND"
  | "UNKNOWN_OUTCOME"
  | "INVALID_GRANT"
  | "UPGRADE_REFUSED"
  | "NO_TRANSACTION"
  | "UNREACHABLE"
  | "DENIED"
  | "SERVER_LOADING"
  | "SERVER_BUSY"
  | "SERVER_OUT_OF_MEMORY"
  | "SERVER_READ_ONLY"
  | "PROTOCOL_ERROR"
  | "SERVER_ERROR"
  | "TLS_FAILED"
  | "WRONG_SETUP"
  | "QUARANTINED"
  | "LEASE_REFUSED"
  | "NOT_REPLICATED"
  | "SERVER_FORGOT"
  | "UNFIT"
  | (string & {});

export type State = "NONE" | "WAITING" | "HELD" | "AT_RISK" | "LOST";

export type Cause = "NONE" | "EXPIRED" | "TAKEN" | "MAX_HOLD" | "CLOSED";

/** The counters of a client. */
export interface Stats {
  acquired: number;
  wireGrants: number;
  pushedGrants: number;
  handovers: number;
  released: number;
  lost: number;
  renewed: number;
  renewalsLate: number;
  renewalScripts: number;
  undone: number;
  commands: number;
  connects: number;
  connectFailures: number;
  scriptReloads: number;
  eventsDropped: number;
  held: number;
  waiting: number;
  locks: number;
}
