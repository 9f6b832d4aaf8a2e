#!/usr/bin/env node
// Builds the addon with the C compiler: node build.js [FILE]. pkg-config finds libdlock; the headers of Node.js stand beside it, or where
// NODE_INCLUDE says. The addon uses N-API, so one file is for all versions of Node.js from 18 on.
"use strict";

const { execFileSync, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");

const sources = ["addon", "calls", "watch"].map((name) => path.join(__dirname, "src", `${name}.c`));
const file = process.argv[2] ?? path.join(__dirname, "prebuilds", `${process.platform}-${process.arch}`, "dlock.node");
const include = process.env.NODE_INCLUDE ?? path.join(path.dirname(process.execPath), "../include/node");
const flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-DNAPI_VERSION=8", `-I${include}`];
const [compiler, ...words] = (process.env.CC ?? "cc").split(" ");
// The library may also stand beside the addon.
const link = ["-shared", "-Wl,-rpath,$ORIGIN", "-Wl,-z,relro,-z,now,-z,noexecstack"];
// What makes attacks harder. A compiler may lack some of it, and a C library has level 3 or 2.
const hardening = [
  ["-fstack-protector-strong"],
  ["-fstack-clash-protection"],
  ["-fcf-protection=full"],
  ["-mbranch-protection=standard"],
  ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"],
  ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"],
];

function has(some) {
  const command = [...words, "-O2", "-Werror", ...some, "-x", "c", "-c", "-o", `${file}.new`, "-"];
  return spawnSync(compiler, command, { input: "#include <stdlib.h>\n", stdio: ["pipe", "ignore", "ignore"] }).status === 0;
}

function find(what) {
  const words = execFileSync("pkg-config", [what, "dlock"], { encoding: "utf8" });
  return words.split(/\s+/).filter(Boolean);
}

fs.mkdirSync(path.dirname(file), { recursive: true });
const command = [...flags, ...hardening.filter(has).flat(), ...find("--cflags"), ...sources, ...link, ...find("--libs"), "-o", `${file}.new`];
execFileSync(compiler, [...words, ...command], { stdio: "inherit" });
fs.renameSync(`${file}.new`, file);
