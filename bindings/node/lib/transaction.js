// Optimistic transactions over keys of the server.
"use strict";

const { addon, check } = require("./addon.js");
const { optionsOf } = require("./arguments.js");
const { STATUS } = require("./numbers.js");
const { bytes, data, milliseconds, nothing, wide } = require("./values.js");

class Transaction {
  constructor(client, handle) {
    this.client = client;
    this._handle = handle;
    this._over = true; // nothing is watched
  }

  async watch(...keys) {
    for (const key of keys.map((one) => bytes(one))) {
      await this.client._ask((tag) => addon.txn_submit_watch(this._handle, key, tag), nothing);
      this._over = false;
    }
  }

  async get(key) {
    const named = bytes(key);
    const ask = () => this.client._ask((tag) => addon.txn_submit_get(this._handle, named, tag), data);
    return this.client._unless(ask, [STATUS.NOT_FOUND]);
  }

  set(key, value, options = {}) {
    const { ttl = Infinity } = optionsOf(options, ["ttl"]);
    check(addon.txn_set(this._handle, bytes(key), bytes(value), milliseconds(ttl)));
  }

  incr(key, by = 1) {
    check(addon.txn_incr(this._handle, bytes(key), wide(by)));
  }

  delete(key) {
    check(addon.txn_delete(this._handle, bytes(key)));
  }

  async commit() {
    this._over = true;
    return this.client._ask((tag) => addon.txn_submit_commit(this._handle, tag), nothing, STATUS.CONFLICT);
  }

  async rollback() {
    this._over = true;
    return this.client._ask((tag) => addon.txn_submit_rollback(this._handle, tag), nothing);
  }

  async [Symbol.asyncDispose]() {
    if (!this._over) await this.rollback();
  }
}

module.exports = { Transaction };
