// Arguments on their way to the addon, and answers on their way back. An answer is read from the event that was just taken.
"use strict";

const { addon, check, made, out, refuse } = require("./addon.js");
const { CAUSE, EVENT, FIELD } = require("./numbers.js");

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

// Names, keys and values: text in UTF-8, or bytes as they are.
function bytes(value) {
  if (typeof value === "string") return Buffer.from(value);
  if (value instanceof Uint8Array) return value;
  throw refuse("A string or a Uint8Array is expected.");
}

// Text with a terminator.
function plain(value) {
  if (typeof value === "string" && !value.includes("\0")) return Buffer.from(`${value}\0`);
  throw refuse("A string without a NUL is expected.");
}

// A set of options for the library; null when there are none.
function optionSet(options) {
  const pairs = Object.entries(options ?? {}).filter(([, value]) => value !== undefined && value !== null);
  if (!pairs.length) return null;
  const set = made(addon.options_new());
  for (const [name, value] of pairs) check(addon.options_set(set, plain(name), plain(String(value))));
  return set;
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

module.exports = { all, bytes, data, happened, inspection, milliseconds, nameOf, nothing, optionSet, plain, time, value, whole };
