// The addon: where it is, and errors from what it returns.
"use strict";

const path = require("node:path");
const { STATUS } = require("./numbers.js");

function load() {
  const place = `${process.platform}-${process.arch}`;
  const file = process.env.DLOCK_ADDON || path.join(__dirname, "../prebuilds", place, "dlock.node");
  try {
    return require(file);
  } catch (error) {
    const why = error.code === "MODULE_NOT_FOUND" ? `there is no addon for ${place}: see README.md of dlock` : error.message;
    throw new Error(`dlock cannot be loaded: ${why}`, { cause: error });
  }
}

const addon = load();

// What a call of the library answered instead of doing what was asked.
class DlockError extends Error {
  constructor(status, message) {
    if ((status | 0) !== status) throw refuse("A status is a number of dlock.STATUS.");
    super(message || addon.status_text(status));
    this.status = status;
    this.code = addon.status_name(status);
  }

  // Whether the same call may succeed later without a change by the caller.
  get retryable() {
    return addon.status_retryable(this.status) === 1;
  }
}
Object.defineProperty(DlockError.prototype, "name", { value: "DlockError", configurable: true, writable: true });

// The error of the call that just returned this status.
function failure(status) {
  return new DlockError(status, addon.error_message());
}

// The error of the event that was just read.
function told(status) {
  return new DlockError(status, addon.event_text());
}

function refuse(message, status = STATUS.INVALID_ARGUMENT) {
  return new DlockError(status, message);
}

// Throws unless the status is OK.
function check(status) {
  if (status !== STATUS.OK) throw failure(status);
}

// What the addon made, if it is not a status.
function made(result) {
  if (typeof result === "number") throw failure(result);
  return result;
}

module.exports = { addon, out: addon.out, check, DlockError, failure, made, refuse, told };
