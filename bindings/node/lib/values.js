// Arguments on their way to the addon, and answers on their way back. An answer is read from the event that was just taken.
"use strict";

const { types } = require("node:util");
const { addon, check, out, refuse } = require("./addon.js");
const { CAUSE, EVENT, FIELD, STATUS } = require("./numbers.js");

const [LEAST, MOST] = [-(2n ** 63n), 2n ** 63n - 1n]; // the numbers of the library
const LONE = /\p{Surrogate}/u;

// A time for the library: whole milliseconds, rounded up; -1 is without end.
function milliseconds(value) {
  if (value === Infinity) return -1;
  if (typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER) return Math.ceil(value);
  throw refuse("A time is a number of milliseconds from 0, or Infinity.");
}

function whole(value) {
  if (Number.isSafeInteger(value)) return value;
  throw refuse("A whole number between -2^53 and 2^53 is expected.");
}

// A whole number that may be a bigint.
function wide(value) {
  if (typeof value !== "bigint") return whole(value);
  if (value >= LEAST && value <= MOST) return value;
  throw refuse("A bigint is from -2^63 to 2^63 - 1.");
}

// UTF-8 has no form for half a surrogate pair. All of them would become the same three bytes, and two names one lock.
function utf8(text, what, status) {
  if (LONE.test(text)) throw refuse(`${what} has a lone surrogate, so it is no text.`, status);
  return Buffer.from(text);
}

// Keys and values: text in UTF-8, or bytes as they are.
function bytes(value, what = "A key or value", status = STATUS.INVALID_ARGUMENT) {
  if (typeof value === "string") return utf8(value, what, status);
  if (types.isUint8Array(value)) return value;
  throw refuse("A string or a Uint8Array is expected.");
}

// The name of a lock, likewise.
function named(value) {
  return bytes(value, "The name of a lock", STATUS.INVALID_NAME);
}

// Text with a terminator.
function plain(value, what, status) {
  if (typeof value === "string" && !value.includes("\0")) return utf8(`${value}\0`, what, status);
  throw refuse(`${what} is a string without a NUL.`);
}

function nameOf(group, number) {
  return Object.keys(group).find((name) => group[name] === number) ?? String(number);
}

function nothing() {}

function value() {
  return out[FIELD.VALUE];
}

function time(field) {
  return out[field] < 0 ? Infinity : out[field];
}

function inspection() {
  return {
    holder: addon.event_text(),
    token: out[FIELD.TOKEN],
    remaining: time(FIELD.REMAINING_MS),
    heldFor: out[FIELD.HELD_FOR_MS],
    waiters: out[FIELD.WAITERS],
    foreign: out[FIELD.FOREIGN] === 1,
  };
}

// The bytes of an event; value says how many.
function data() {
  const buffer = Buffer.alloc(Math.max(0, out[FIELD.VALUE]));
  check(addon.event_data(buffer));
  return buffer;
}

// Bytes of an event whose value says something else. They have at most 2 MiB.
function all() {
  const buffer = Buffer.alloc(65536);
  if (addon.event_data(buffer) === 0) return buffer.subarray(0, out[0]);
  const more = Buffer.alloc(1 << 21);
  check(addon.event_data(more));
  return more.subarray(0, out[0]);
}

function happened() {
  return {
    type: nameOf(EVENT, out[FIELD.TYPE]),
    status: out[FIELD.STATUS],
    lockId: out[FIELD.LOCK_ID],
    owner: out[FIELD.OWNER],
    token: out[FIELD.TOKEN],
    remaining: time(FIELD.REMAINING_MS),
    cause: nameOf(CAUSE, out[FIELD.CAUSE]),
    text: addon.event_text(),
  };
}

module.exports = { all, bytes, data, happened, inspection, milliseconds, named, nameOf, nothing, plain, time, value, whole, wide };
