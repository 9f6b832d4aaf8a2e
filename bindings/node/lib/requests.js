// Requests to the server about a lock. Written by abi/gen.py from abi/dlock.json: do not edit.
"use strict";

const { addon } = require("./addon.js");
const { inspection, milliseconds, nothing, value, whole } = require("./values.js");
const { STATUS } = require("./numbers.js");

// Methods of all kinds of locks.
const Requests = (Base) =>
  class extends Base {
    async forceRelease() {
      return this._ask((tag) => addon.lock_submit_force_release(this._handle, tag), nothing, STATUS.NOT_HELD);
    }

    async closeGate(ttl) {
      const ttlNumber = milliseconds(ttl);
      return this._ask((tag) => addon.lock_submit_close_gate(this._handle, ttlNumber, tag), nothing);
    }

    async openGate() {
      return this._ask((tag) => addon.lock_submit_open_gate(this._handle, tag), nothing, STATUS.UNCHANGED);
    }

    async inspect() {
      return this._ask((tag) => addon.lock_submit_inspect(this._handle, tag), inspection);
    }
  };

// Methods of semaphores.
const Permits = (Base) =>
  class extends Base {
    async setPermits(permits) {
      const permitsNumber = whole(permits);
      return this._ask((tag) => addon.semaphore_submit_set(this._handle, permitsNumber, tag), nothing, STATUS.UNCHANGED);
    }

    async addPermits(permits) {
      const permitsNumber = whole(permits);
      return this._ask((tag) => addon.semaphore_submit_add(this._handle, permitsNumber, tag), value);
    }

    async drainPermits() {
      return this._ask((tag) => addon.semaphore_submit_drain(this._handle, tag), value);
    }

    async reclaimPermits(silent) {
      const silentNumber = milliseconds(silent);
      return this._ask((tag) => addon.semaphore_submit_reclaim(this._handle, silentNumber, tag), value);
    }

    async availablePermits() {
      return this._ask((tag) => addon.semaphore_submit_available(this._handle, tag), value);
    }
  };

// Methods of latches.
const Counts = (Base) =>
  class extends Base {
    async setCount(count) {
      const countNumber = whole(count);
      return this._ask((tag) => addon.latch_submit_set(this._handle, countNumber, tag), nothing, STATUS.UNCHANGED);
    }

    async countDown(count = 1) {
      const countNumber = whole(count);
      return this._ask((tag) => addon.latch_submit_count_down(this._handle, countNumber, tag), value);
    }

    async count() {
      return this._ask((tag) => addon.latch_submit_count(this._handle, tag), value);
    }
  };

// Methods of owners.
const Owned = (Base) =>
  class extends Base {
    async extend(lease) {
      const leaseNumber = milliseconds(lease);
      return this._ask((tag) => addon.lock_submit_extend(this.lock._handle, this.number, leaseNumber, tag), nothing);
    }
  };

module.exports = { Requests, Permits, Counts, Owned };
