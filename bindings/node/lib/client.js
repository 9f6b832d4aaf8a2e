// A client: what it asks, the events that answer, and its end.
"use strict";

const { EventEmitter } = require("node:events");
const { inspect } = require("node:util");
const { addon, check, DlockError, failure, made, out, told } = require("./addon.js");
const { optionSet, optionsOf } = require("./arguments.js");
const { FIRST, Holds, makeLock, makeMulti } = require("./lock.js");
const { EVENT, FIELD, KIND, SEVERITY, STAT, STATUS } = require("./numbers.js");
const { Transaction } = require("./transaction.js");
const { all, happened, milliseconds, named, nothing, plain, whole } = require("./values.js");

const [USES, HELD] = [0, 1]; // of client._alive, see watch.h
const SOME = 500; // most events in one go, so that the loop has time for others
const TOLD = { [EVENT.AT_RISK]: "atRisk", [EVENT.LOST]: "lost", [EVENT.LOG]: "log" };

// "lease_left" of the library is "leaseLeft" here.
function camel(name) {
  return name.toLowerCase().replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
}

const STATS = Object.entries(STAT).filter(([name]) => name !== "COUNT");
const STAT_NAMES = STATS.map(([name]) => camel(name));

// The timeout of a call, for the library.
function waiting(options, otherwise) {
  const timeout = options === undefined ? undefined : optionsOf(options, ["timeout"]).timeout;
  return timeout === undefined ? otherwise : milliseconds(timeout);
}

// Calls the listeners of a client. Returns what they throw; late() gets what a promise of theirs is rejected with.
function called(client, name, value, late) {
  const thrown = [];
  for (const listener of client.rawListeners(name)) {
    try {
      const result = Reflect.apply(listener, client, [value]);
      if (typeof result?.then === "function") Promise.resolve(result).catch(late);
    } catch (error) {
      thrown.push(error);
    }
  }
  return thrown;
}

function warn(error) {
  const detail = inspect(error, { customInspect: false });
  process.emitWarning("A listener of a dlock client threw.", { type: "DlockWarning", code: "DLOCK_LISTENER", detail });
}

class Client extends EventEmitter {
  constructor(handle) {
    super();
    this._handle = handle;
    this._number = FIRST;
    this._calls = new Map(); // who is answered, by tag
    this._holds = new Holds(this);
    this._alive = new Int32Array(2); // calls that wait and locks that are held; whether they keep the process alive already
    this._late = undefined; // what a close could not confirm
    this._over = new Promise((resolve) => (this._end = resolve));
    check(addon.client_fd(handle));
    this._watch = addon.watch(out[0], () => this._drain(), this._alive);
  }

  lock(name, options) {
    return makeLock(this, KIND.MUTEX, name, options);
  }

  fairLock(name, options) {
    return makeLock(this, KIND.FAIR, name, options);
  }

  readLock(name, options) {
    return makeLock(this, KIND.READ, name, options);
  }

  writeLock(name, options) {
    return makeLock(this, KIND.WRITE, name, options);
  }

  semaphore(name, options) {
    return makeLock(this, KIND.SEMAPHORE, name, options);
  }

  permitSemaphore(name, options) {
    return makeLock(this, KIND.PERMIT_SEMAPHORE, name, options);
  }

  latch(name, options) {
    return makeLock(this, KIND.LATCH, name, options);
  }

  multiLock(...members) {
    return makeMulti(this, members);
  }

  transaction() {
    return new Transaction(this, made(addon.txn_new(this._handle)));
  }

  async ping(options) {
    const wait = waiting(options, -1);
    return this._ask((tag) => addon.client_submit_ping(this._handle, wait, tag), nothing);
  }

  async provision(options) {
    const wait = waiting(options, -1);
    return this._ask((tag) => addon.client_submit_provision(this._handle, wait, tag), nothing);
  }

  async check(options) {
    const wait = waiting(options, -1);
    return this._ask((tag) => addon.client_submit_check(this._handle, wait, tag), () => this._findings());
  }

  // The names of locks that the server knows, some at a time.
  async *names() {
    let cursor = 0;
    do {
      const submit = (tag) => addon.client_submit_list(this._handle, cursor, -1, tag);
      const found = await this._ask(submit, () => ({ cursor: out[FIELD.VALUE], names: all().toString().split("\0") }));
      yield* found.names.slice(0, -1);
      cursor = found.cursor;
    } while (cursor);
  }

  stats() {
    check(addon.client_stats(this._handle));
    return Object.fromEntries(STATS.map(([, place], index) => [STAT_NAMES[index], out[place]]));
  }

  metrics() {
    for (let room = 32768; ; room = 2 * out[0]) {
      const buffer = Buffer.alloc(room);
      const status = addon.client_metrics(this._handle, buffer);
      if (status === STATUS.OK) return buffer.toString("utf8", 0, out[0]);
      if (status !== STATUS.BUFFER_TOO_SMALL) throw failure(status);
    }
  }

  fault(what, name = "", ms = 0) {
    check(addon.client_fault(this._handle, plain(what, "A fault"), named(name), ms === Infinity ? -1 : whole(ms)));
  }

  async close(options) {
    const wait = waiting(options, 5000);
    if (this._watch) {
      check(addon.client_submit_close(this._handle, wait));
      this._use();
    }
    await this._over;
    const late = this._late;
    this._late = undefined;
    if (late) throw late;
  }

  async [Symbol.asyncDispose]() {
    return this.close();
  }

  // ---- for the other files

  _next() {
    return this._number++;
  }

  // While something is in use, the process stays alive. The watch notices by itself when nothing is any more.
  _use() {
    this._alive[USES]++;
    if (!this._alive[HELD] && this._watch) addon.hold(this._watch);
  }

  _unuse() {
    this._alive[USES]--;
  }

  // Has answer(status, token) called with the event that has this tag.
  _expect(tag, answer) {
    this._use();
    this._calls.set(tag, answer);
  }

  // The answer to a submitted call: true or what read() returns, false for the status no.
  _ask(submit, read, no) {
    const tag = this._next();
    const status = submit(tag);
    if (status !== STATUS.OK) throw failure(status);
    return this._answer(tag, read, no);
  }

  _answer(tag, read, no) {
    return new Promise((resolve, reject) => {
      this._expect(tag, (status) => {
        try {
          if (status === STATUS.OK) resolve(no === undefined ? read() : true);
          else if (status === no) resolve(false);
          else reject(told(status));
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  // Null for some statuses.
  async _unless(ask, statuses) {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof DlockError && statuses.includes(error.status)) return null;
      throw error;
    }
  }

  // ---- events

  _drain() {
    for (let count = 0; count < SOME; count++) {
      const status = addon.next(this._handle);
      if (status === STATUS.OK) this._dispatch();
      else if (status === STATUS.NO_EVENT) return;
      else if (status !== STATUS.INTERRUPTED) return this._ended();
    }
  }

  _dispatch() {
    const call = this._calls.get(out[FIELD.TAG]);
    if (TOLD[out[FIELD.TYPE]]) return this._tell(happened());
    if (!call) return;
    this._calls.delete(out[FIELD.TAG]);
    try {
      call(out[FIELD.STATUS], out[FIELD.TOKEN]);
    } catch (error) {
      this._failed(error); // of a signal that is not of Node.js
    }
    this._unuse();
  }

  _tell(event) {
    if (event.type === "LOST") this._holds.lose(event.owner, event.lockId, new DlockError(STATUS.LOST, event.text));
    if (event.type === "LOG" && event.status === STATUS.TIMED_OUT) this._late = new DlockError(event.status, event.text);
    this._emit(TOLD[EVENT[event.type]], event);
  }

  // Calls all listeners, whatever one of them throws. That ends no process: the listeners for "error" get it, or it is a warning.
  _emit(name, event) {
    for (const error of called(this, name, event, (late) => this._failed(late))) this._failed(error);
  }

  _failed(error) {
    if (!this.listenerCount("error")) return warn(error);
    for (const other of called(this, "error", error, warn)) warn(other);
  }

  _findings() {
    const found = [];
    let status;
    while ((status = addon.client_finding(this._handle, found.length)) === STATUS.OK) {
      check(addon.event_unpack());
      const [number, severity] = [out[FIELD.VALUE], out[FIELD.CAUSE]];
      found.push({ name: addon.finding_name(number), danger: severity === SEVERITY.DANGER, text: addon.event_text() });
    }
    if (status !== STATUS.NO_EVENT) throw failure(status);
    return found;
  }

  // The client is closed, and its last event was read.
  _ended() {
    addon.unwatch(this._watch);
    this._watch = undefined;
    this._holds.loseAll(new DlockError(STATUS.LOST, "The client was closed."));
    this._end();
  }
}

async function open(url, options) {
  const [address, set] = [plain(url, "A URL", STATUS.INVALID_URL), optionSet(options)];
  try {
    return new Client(await addon.open(address, set));
  } catch (error) {
    throw error.status === undefined || error instanceof DlockError ? error : new DlockError(error.status, error.message);
  }
}

module.exports = { Client, open };
