// What a caller may give beside names and numbers: options of clients and locks, options of a call, a signal. All of it is checked before
// anything is sent.
"use strict";

const { addon, check, made, refuse } = require("./addon.js");
const { STATUS } = require("./numbers.js");
const { plain } = require("./values.js");

// Words of other libraries, without case and underscores: what says the same here.
const WORDS = {
  timeout: "timeout wait waittime waittimeout waitms timeoutms acquiretimeout blockingtimeout maxwait retries retrycount retrydelay",
  signal: "signal abortsignal abort controller abortcontroller canceltoken cancellationtoken",
  lease_ms: "ttl lease leasetime duration expire expires expiry ex px locktimeout lockttl leasems",
};
const SAME = new Map(Object.entries(WORDS).flatMap(([ours, theirs]) => theirs.split(" ").map((one) => [one, ours])));

const said = (name) => SAME.get(name.toLowerCase().replace(/[_-]/g, ""));

function isPlain(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const parent = Object.getPrototypeOf(value);
  return parent === null || Object.getPrototypeOf(parent) === null; // also those of another realm
}

// What is set in an object of options. A Map has nothing that is seen here, so it would be ignored.
function entries(options) {
  if (!isPlain(options)) throw refuse("Options are a plain object, such as { timeout: 1000 }, or left out.");
  return Object.entries(options).filter(([, value]) => value !== undefined);
}

function advice(name, known) {
  const same = said(name);
  if (known.includes(same)) return ` It is called ${same} here.`;
  if (same === "lease_ms" && known.includes("signal")) return " The lease is the option lease_ms of the lock.";
  return ` It takes ${known.join(" and ")}.`;
}

// The options of a call, of which these are known.
function optionsOf(options, known) {
  for (const [name] of entries(options)) {
    if (!known.includes(name)) throw refuse(`This call takes no option ${JSON.stringify(name)}.${advice(name, known)}`);
  }
  return options;
}

function isSignal(value) {
  const methods = [value?.addEventListener, value?.removeEventListener];
  return typeof value?.aborted === "boolean" && methods.every((one) => typeof one === "function");
}

// The signal of a call, if there is one. One of another realm or of a library is as good.
function signalOf(value) {
  if (value === undefined || isSignal(value)) return value;
  const advice = isSignal(value?.signal) ? " Give the controller's signal." : "";
  throw refuse(`A signal is an AbortSignal.${advice}`);
}

// Why a signal has aborted. Old ones have no reason.
function reasonOf(signal) {
  return signal.reason === undefined ? refuse("The signal has aborted.", STATUS.CANCELLED) : signal.reason;
}

const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

// The name of the library's option that a caller may have meant.
function meant(name) {
  const names = Array.from({ length: addon.option_count() }, (_, index) => addon.option_name(index));
  const ours = [snake(name), `${snake(name)}_ms`].find((one) => names.includes(one));
  const same = said(name);
  if (ours || same === "lease_ms") return `: it is called ${ours ?? same}`;
  return same ? `: the calls that wait take it, as in acquire({ ${same} })` : "";
}

function textOf(name, value) {
  const right = typeof value === "number" ? Number.isSafeInteger(value) : ["string", "boolean", "bigint"].includes(typeof value);
  if (!right) throw refuse(`${name} is a string, a boolean, or a whole number below 2^53.`, STATUS.INVALID_OPTION);
  return plain(String(value), name, STATUS.INVALID_OPTION);
}

function setOne(set, name, value) {
  const status = addon.options_set(set, plain(name, "The name of an option"), textOf(`The option ${JSON.stringify(name)}`, value));
  if (status === STATUS.UNKNOWN_OPTION) throw refuse(addon.error_message() + meant(name), status);
  check(status);
}

// A set of options for the library; null when there are none.
function optionSet(options) {
  if (options === undefined) return null;
  const pairs = entries(options).filter(([, value]) => value !== null);
  if (!pairs.length) return null;
  const set = made(addon.options_new());
  for (const [name, value] of pairs) setOne(set, name, value);
  return set;
}

module.exports = { optionSet, optionsOf, reasonOf, signalOf };
