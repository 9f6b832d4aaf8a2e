// The binding of libdlock for Node.js. index.d.ts says what everything does.
"use strict";

const { addon, DlockError } = require("./addon.js");
const { Client, open } = require("./client.js");
const { Held, Latch, Lock, Owner, Semaphore } = require("./lock.js");
const { STATUS } = require("./numbers.js");
const { Transaction } = require("./transaction.js");

const version = addon.version_string();

module.exports = { Client, DlockError, Held, Latch, Lock, open, Owner, Semaphore, STATUS, Transaction, version };
module.exports.default = module.exports;
