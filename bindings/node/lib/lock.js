// Locks, owners, and what an owner holds.
"use strict";

const { addon, check, failure, made, out, refuse, told } = require("./addon.js");
const { optionSet, optionsOf, reasonOf, signalOf } = require("./arguments.js");
const { KIND, STATE, STATUS } = require("./numbers.js");
const { Counts, Owned, Permits, Requests } = require("./requests.js");
const { all, bytes, milliseconds, named, nameOf, nothing, whole } = require("./values.js");

const FIRST = 2 ** 30; // numbers of owners and tags begin here; smaller ones are the user's. V8 has fast integers up to 2^31
const NO = [STATUS.BUSY, STATUS.TIMED_OUT];
const WAITING = ["timeout", "signal"]; // options of calls that wait
const NONE = {};
const [FOREVER, AT_ONCE] = [-1, 0];
const OWNERS = Symbol("owners"); // who may call the constructors

function only(key) {
  if (key !== OWNERS) throw refuse("Locks are made by a client.");
}

// Base of locks and owners.
class Asking {
  _ask(submit, read, no) {
    return this.client._ask(submit, read, no);
  }
}

// A lock with a name, shared by all hosts.
class Lock extends Requests(Asking) {
  constructor(key, client, handle, members) {
    only(key);
    super();
    this.client = client;
    this._handle = handle;
    this._ids = members ? members.flatMap((member) => member._ids) : [addon.lock_id(handle)];
  }

  async acquire(options) {
    return this._win(undefined, options, FOREVER);
  }

  async tryAcquire(options) {
    return this.client._unless(() => this._win(undefined, options, AT_ONCE), NO);
  }

  async with(body, options) {
    if (typeof body !== "function") throw refuse("The body of with() is a function.");
    const held = await this.acquire(options);
    let result;
    try {
      result = await body(held);
    } catch (error) {
      await held[Symbol.asyncDispose]().catch(nothing); // the error of the body has priority
      throw error;
    }
    await held[Symbol.asyncDispose]();
    return result;
  }

  async adopt(grant) {
    return this._adopt(undefined, grant);
  }

  owner(number) {
    if (!Number.isSafeInteger(number) || number < 0 || number >= FIRST) throw refuse("An owner is a whole number from 0 to 2^30 - 1.");
    return new Owner(OWNERS, this, number);
  }

  _win(owner, options, otherwise) {
    const given = options === undefined ? NONE : optionsOf(options, WAITING);
    const wait = given.timeout === undefined ? otherwise : milliseconds(given.timeout);
    const signal = signalOf(given.signal);
    if (signal?.aborted) throw reasonOf(signal);
    const tag = this.client._next();
    const number = owner ?? tag;
    const status = addon.lock_begin_acquire(this._handle, number, wait, tag);
    if (status === STATUS.OK) return new Held(OWNERS, this, number, out[0]);
    if (status !== STATUS.WOULD_BLOCK) throw failure(status);
    return this._granted(tag, number, signal);
  }

  _adopt(owner, grant) {
    const data = bytes(grant, "A grant", STATUS.INVALID_GRANT);
    const tag = this.client._next();
    const number = owner ?? tag;
    check(addon.lock_submit_adopt_grant(this._handle, number, data, tag));
    return this._granted(tag, number);
  }

  // What comes for an acquire with this tag. After an abort a grant is given back.
  _granted(tag, number, signal) {
    return new Promise((resolve, reject) => {
      let gone = false;
      const abandon = (why) => {
        gone = true;
        addon.lock_cancel(this._handle, number); // the answer comes in any case
        reject(why);
      };
      const stop = () => abandon(reasonOf(signal));
      this.client._expect(tag, (status, token) => {
        if (gone && status === STATUS.OK) this._giveBack(number);
        else if (status === STATUS.OK) resolve(new Held(OWNERS, this, number, token));
        else if (!gone) reject(told(status));
        signal?.removeEventListener("abort", stop);
      });
      try {
        signal?.addEventListener("abort", stop, { once: true });
      } catch (error) {
        abandon(error); // it is no signal of Node.js
      }
    });
  }

  // The grant may be lost by now, or the client closed; then nothing is left to give back.
  async _giveBack(number) {
    try {
      await this._ask((tag) => addon.lock_submit_release(this._handle, number, tag), nothing);
    } catch {
      // said above
    }
  }
}

class Semaphore extends Permits(Lock) {}

class Latch extends Counts(Lock) {
  async wait(options) {
    return (await this.client._unless(() => this._win(undefined, options, FOREVER), NO)) !== null;
  }
}

// One owner of a lock: what it has, and what it does by hand.
class Owner extends Owned(Asking) {
  constructor(key, lock, number) {
    only(key);
    super();
    this.lock = lock;
    this.number = number;
  }

  get client() {
    return this.lock.client;
  }

  async acquire(options) {
    return this.lock._win(this.number, options, FOREVER);
  }

  async tryAcquire(options) {
    return this.client._unless(() => this.lock._win(this.number, options, AT_ONCE), NO);
  }

  async adopt(grant) {
    return this.lock._adopt(this.number, grant);
  }

  async release() {
    return this._release();
  }

  // This owner has one hold less.
  _leave() {
    this.client._holds.drop(this.number, this.lock);
  }

  // A promise, if the answer is not there at once.
  _release() {
    this._leave();
    const { client, _handle } = this.lock;
    const tag = client._next();
    const status = addon.lock_begin_release(_handle, this.number, tag);
    if (status === STATUS.WOULD_BLOCK) return client._answer(tag, nothing);
    if (status !== STATUS.OK) throw failure(status);
  }

  cancel() {
    const status = addon.lock_cancel(this.lock._handle, this.number);
    if (status !== STATUS.NOT_HELD) check(status);
    return status === STATUS.OK;
  }

  currentToken() {
    check(addon.lock_token(this.lock._handle, this.number));
    return out[0];
  }

  state() {
    check(addon.lock_state(this.lock._handle, this.number));
    return nameOf(STATE, out[0]);
  }

  holdCount() {
    check(addon.lock_hold_count(this.lock._handle, this.number));
    return out[0];
  }

  remaining() {
    check(addon.lock_remaining_ms(this.lock._handle, this.number));
    return out[0] < 0 ? Infinity : out[0];
  }

  permitId(index = 0) {
    const id = Buffer.alloc(33);
    check(addon.semaphore_permit(this.lock._handle, this.number, whole(index), id));
    return id.toString("latin1", 0, id.indexOf(0));
  }

  async exportGrant() {
    const grant = await this.lock._ask((tag) => addon.lock_submit_export_grant(this.lock._handle, this.number, tag), () => Buffer.from(all()));
    this._leave();
    return grant;
  }
}

// A held lock. `_beside` is another one of the same owner.
class Held extends Owner {
  constructor(key, lock, number, token) {
    super(key, lock, number);
    this.token = token;
    this._loss = this._controller = this._beside = undefined;
    this._over = false;
    lock.client._holds.add(this);
  }

  // Aborts when the lock is lost. Its reason is the error.
  get lost() {
    if (!this._controller) {
      this._controller = new AbortController();
      if (this._loss) this._controller.abort(this._loss);
    }
    return this._controller.signal;
  }

  async [Symbol.asyncDispose]() {
    if (!this._over) await this.release();
  }

  _leave() {
    if (!this._over && !this._loss) this.client._holds.remove(this);
    this._over = true;
  }

  _lose(error) {
    this._loss = error;
    this._controller?.abort(error);
  }
}

// What is held now, by owner.
class Holds {
  constructor(client) {
    this.client = client;
    this.first = new Map();
  }

  add(held) {
    this.client._use();
    held._beside = this.first.get(held.number);
    this.first.set(held.number, held);
  }

  // Once for each that was added.
  remove(held) {
    this.client._unuse();
    const first = this.first.get(held.number);
    if (first === held && !held._beside) this.first.delete(held.number);
    else if (first === held) this.first.set(held.number, held._beside);
    else for (let one = first; one; one = one._beside) if (one._beside === held) one._beside = held._beside;
  }

  drop(number, lock) {
    for (let one = this.first.get(number); one; one = one._beside) {
      if (one.lock._ids[0] === lock._ids[0]) return one._leave();
    }
  }

  // A negative number stands for owner 0.
  lose(number, lockId, error) {
    for (let one = this.first.get(Math.max(number, 0)); one; one = one._beside) {
      if (!one.lock._ids.includes(lockId)) continue;
      this.remove(one);
      one._lose(error);
    }
  }

  loseAll(error) {
    for (let one of this.first.values()) for (; one; one = one._beside) one._lose(error);
    this.first.clear();
  }
}

const FORMS = { [KIND.SEMAPHORE]: Semaphore, [KIND.PERMIT_SEMAPHORE]: Semaphore, [KIND.LATCH]: Latch };

function makeLock(client, kind, name, options) {
  const handle = made(addon.lock_new(client._handle, kind, named(name), optionSet(options)));
  return new (FORMS[kind] ?? Lock)(OWNERS, client, handle);
}

function makeMulti(client, members) {
  if (!members.every((one) => one instanceof Lock)) throw refuse("The members of a multi-lock are locks.");
  const handle = made(addon.lock_new_multi(client._handle, members.map((one) => one._handle)));
  return new Lock(OWNERS, client, handle, members);
}

module.exports = { FIRST, Held, Holds, Latch, Lock, makeLock, makeMulti, Owner, Semaphore };
