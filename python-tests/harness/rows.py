"""The rows of the fault matrix and the tests that run them. Writes docs/faults.md from both.

    python3 python-tests/harness/rows.py > docs/faults.md

A test belongs to the rows in its name, test_c06_..., and in the names of its parameters, "C-01 both ways". How often it runs is read
from its parametrize: times(small, full, soak=...) or always(small, full=...) of faults.py, or pytest.param(..., marks=pytest.mark.full).
"""
from __future__ import annotations

import ast
import dataclasses
import pathlib
import re
from typing import Iterator

TESTS = pathlib.Path(__file__).resolve().parents[1]
NAME = re.compile(r"test_((?:[a-mz]\d\d_)+)")
PARAMETER = re.compile(r"\b([A-MZ]-\d\d)\b")

# Row, how often it must run in full (./dev soak), the fault.
TABLE = """
A-01 500 holder killed (SIGKILL) while holding
A-02 200 holder stopped < F, resumed
A-03 2000 holder stopped > W inside critical section, other granted, resumed
A-04 1000 stopped between send and reply of the grant
A-05 1 only the watchdog thread starves
A-06 1 application callback blocks 10 W
A-07 1 VM pause / snapshot restore (no clock advances, then wall clock jumps)
A-08 1 suspend/resume (BOOTTIME advances, MONOTONIC not)
A-09 1 unlock races with renewal in flight
A-10 10000 acquire cancelled/timed out while server grants
A-11 1 re-entrant use, unbalanced unlock, unlock by other thread
B-01 1 server clock +31 s with W = 30 s
B-02 1 server clock −600 s
B-03 500 server clock runs +8 %
B-04 1 client REALTIME jumps ±1 h
B-05 1 client clock slow 1 % / 5 %
B-06 300 replica clock +20 s, promoted
B-07 1 leap second / 1 s step back
B-08 10000000 timer wheel overflow, W at limits, W·ρ rounding, negative elapsed
C-01 500 server unreachable, packets dropped both ways
C-02 500 one-way drop server→client (renewal executed, answer lost)
C-03 500 one-way drop client→server
C-04 1 half-open TCP (server rebooted, no RST)
C-05 1 request delayed 90 s in the network then delivered
C-06 100000 duplicate/reordered delivery across two connections (old renewal arrives after re-grant)
C-07 3600 10 % loss, 20–50 ms, reorder
C-08 1 latency 0.5 W per direction
C-09 1 bandwidth 10 kbit/s with 1,000 waiters
C-10 1 byte-drip replies, 1 byte/150 ms
C-11 1 RST during send, during reply, during handshake
C-12 1 connection refused / host down / many addresses, first dead
C-13 600 DNS: NXDOMAIN, SERVFAIL, 30 s hang, flip to wrong host
C-14 500 partial partition: client A sees the master, B sees only a replica/sentinel
C-15 1 flapping link 100 ms up / 400 ms down
C-16 1 MTU black hole for large names
D-01 100000 script cache flushed
D-02 1 -LOADING
D-03 1 -BUSY script, killable
D-04 1 -UNKILLABLE script
D-05 1 slow server
D-06 1 -OOM at maxmemory, noeviction
D-07 1 eviction of locks (volatile-*, allkeys-*)
D-08 1 fence counter evicted or deleted
D-09 1 FLUSHALL / DEL by operator
D-10 500 crash + restart, no persistence
D-11 1 restart into wrong config: empty dir, read-only, other db
D-12 1 restart with AOF everysec after process kill
D-13 1 -MISCONF (snapshot failed), disk full
D-14 1 CLIENT KILL of normal and pub/sub connections
D-15 1 maxclients reached
D-16 1 CLIENT PAUSE WRITE / ALL
D-17 1 idle timeout on server, TCP keepalive off
D-18 1 RENAME/disabled commands, proxy that lacks EVAL or SUBSCRIBE
D-19 1 wrong type at our key
D-20 1000 SIGSTOP server for 3 W with queued requests, then CONT
E-01 1 master dies before replicating, replica promoted, L1
E-02 1000 same at L2
E-03 1 WAIT short: release, no watchdog, no residue
E-04 1000 WAIT acknowledged by one replica, other promoted
E-05 1 replica added/removed at run time
E-06 1 -READONLY after demotion
E-07 1 -NOREPLICAS
E-08 500 split brain: old master alive on minority side with a client
E-09 1 all replicas full-resync at once, master overloaded
E-10 1 Sentinel gives stale, empty, looping or lying answers
E-11 1 all Sentinels down
E-12 20 20 failovers in 10 min
E-13 1 failback: old master returns with old keys
F-01 1 -MOVED
F-02 1 -ASK during migration
F-03 1 -TRYAGAIN (keys half migrated)
F-04 1 -CLUSTERDOWN
F-05 500 master in minority keeps accepting writes up to node-timeout
F-06 1 redirect loop, redirect to self, to empty host, to foreign host
F-07 1 slot without owner, unknown slots, 16,384 single-slot entries
F-08 1 sharded vs plain pub/sub during slot move
G-01 1 ⌊(N−1)/2⌋ nodes down
G-02 1 Q−1 nodes left
G-03 500 one node amnesic: Q = 3 of 5 no quarantine (control) / with quarantine / Q = 4 of 5
G-04 500 one node clock +W
G-05 1 20 clients race, split votes
G-06 1 slow node (1.5 a)
G-07 1 replies from Q arrive after F
G-08 1 renewal reaches only Q−1
G-09 10000 token rule
G-10 1 two config views (N = 3 and N = 5 clients)
H-01 100000 release between try and subscribe
H-02 1 pub/sub connection dropped while waiting
H-03 1 output-buffer limit disconnect
H-04 1 forged or garbage messages on our channel
H-05 1 4,096 waiters, one lock
H-06 1 fair queue: head waiter dies / is stopped / times out
H-07 1 all waiters cancel at once
H-08 1 expiry event late
H-09 1 starvation by a re-locking holder (unfair)
I-01 10000 fork() while holding, threads running
I-02 10000 fork during allocation or inside our mutex
I-03 1 vfork/posix_spawn/exec
I-04 1 signals every 1 ms, SA_RESTART and not
I-05 1 SIGPIPE default action
I-06 1 signal mask: our threads receive no application signals
I-07 10000 pthread_cancel of a caller in lock()/wait
I-08 1 exit() with held locks, atexit order, static destructors, quick_exit, _exit
I-09 1 dlclose while threads run
I-10 1 two copies of the library in one process (static + shared)
I-11 1 callback calls back into the API (unlock, close own handle)
I-12 1 10,000 locks, 1 process
I-13 1 Go: many Ms, GOMAXPROCS, SIGURG/SIGPROF; Python: GIL, fork start method, interpreter shutdown with waiters; Lua: state closed while waiting, coroutine yields
I-14 1 stack limits: 64 KiB threads
I-15 1 setlocale, umask, chdir, setuid after open
I-16 100000 destroy handle while another thread waits
J-01 1 every allocation fails once / from k on
J-02 1 EMFILE/ENFILE, ENOBUFS, EADDRNOTAVAIL
J-03 1 pthread_create EAGAIN, mmap fails, eventfd/timerfd fail
J-04 1 short reads/writes, EINTR, EAGAIN at every call index
J-05 1 getrandom fails / blocks
J-06 1 clock_gettime fails or goes back
J-07 1 CPU 4× oversubscribed
J-08 1 memory pressure, swapped-out holder
J-09 1 log sink blocks or fails
K-01 1 -WRONGPASS / -NOAUTH at open and after rotation
K-02 1 -NOPERM per command and per key pattern and channel
K-03 1 TLS: expired, wrong host, unknown CA, self-signed, revoked file, TLS 1.0/1.1 only, plaintext server, handshake stall, close without notify, renegotiation attempt
K-04 1 STARTTLS-like injection: plaintext bytes before handshake
K-05 1 random bytes / mutated RESP / RESP3 pushes / huge lengths / 10^6 nesting
K-06 1 lying server: grants to everyone, token going back, PTTL = 2^63−1, negative, NaN, string for integer
K-07 1 error text with control characters, 100 kB long, containing our password
K-08 1 man in the middle replays an old grant reply
K-09 10000000 hostile names
L-01 120 etcd: the nth request, or the nth answer, is lost
L-02 50 etcd: a member stops with a request in its socket, which was given up
L-03 1 etcd: the holder is stopped for longer than its lease
L-04 1 etcd: an operator deletes the holder's key
L-05 1 etcd: an operator revokes the lease of many locks
L-06 1 etcd: a waiter's key vanishes, or its lease
L-07 100 etcd: compaction under a watch
L-08 2000 etcd: renewals of many locks write nothing
L-09 1 etcd: a client is closed with locks held
L-10 1 etcd: the holder dies, and its forked child has the descriptors
L-11 20 etcd: the leader of three is killed, or stopped
L-12 1 etcd: each member in turn stops
L-13 1 etcd: no member answers
L-14 10 etcd: the leader is cut off from the followers
L-15 20 etcd: a client is cut off from the leader
L-16 30 etcd: most members have slow disks
L-17 1 etcd: the leader's disk is full
L-18 10 etcd: a member's clock is a day ahead
L-19 1 etcd: the nth request, or the nth answer, of a transaction is lost
L-20 1 etcd: a commit arrives after its caller was told that nothing was written
L-21 1 etcd: no member answers a commit, nor the question whether it was done
L-22 8 etcd: the leader is killed, or stopped, while processes count by transactions
L-23 1 etcd: it has no space, and refuses what it has done
M-01 200 mixed library versions N−1 / N on one lock, both roles
M-02 1 clients with different W, ρ, W_max
M-03 1 wrong backend order in quorum config, duplicate node
M-04 1 system clock of the test machine stepped for real
M-05 1 random soak: all faults of C, D, E, I mixed, 24 h
Z-01 120 ZooKeeper: the nth request, or the nth answer, is lost
Z-02 50 ZooKeeper: a member stops with a request in its socket, which was given up
Z-03 1 ZooKeeper: the holder is stopped for longer than its session
Z-04 1 ZooKeeper: an operator deletes the holder's node
Z-05 1 ZooKeeper: an operator ends the session of many locks
Z-06 1 ZooKeeper: a waiter's node vanishes, or its session
Z-07 100 ZooKeeper: the connection is cut under a watch
Z-08 2000 ZooKeeper: renewals of many locks send nothing
Z-09 1 ZooKeeper: a client is closed with locks held
Z-10 1 ZooKeeper: the holder dies, and its forked child has the descriptors
Z-11 20 ZooKeeper: the leader of three is killed, or stopped
Z-12 1 ZooKeeper: each member in turn stops
Z-13 1 ZooKeeper: no member answers
Z-14 50 ZooKeeper: the answer to a try is lost
Z-15 10 ZooKeeper: the leader is cut off from the followers
Z-16 20 ZooKeeper: a client is cut off from its member
Z-17 30 ZooKeeper: most members have slow disks
Z-18 1 ZooKeeper: the leader's disk is full
Z-19 8 ZooKeeper: a member's clock is a day ahead
Z-20 10 ZooKeeper: the leader is cut off from the followers, with the default ratios
"""
ROWS = {line[:4]: (int(line[5:].split(" ", 1)[0]), line[5:].split(" ", 1)[1]) for line in TABLE.split("\n") if line}
GROUPS = {
    "A": "the holder", "B": "time", "C": "the network", "D": "one server", "E": "replicas and sentinels", "F": "cluster", "G": "quorum", "H": "waiting",
    "I": "the host process", "J": "resources", "K": "credentials, TLS, hostile peers", "L": "etcd", "M": "operation", "Z": "ZooKeeper",
}  # fmt: skip


def rows_of(test: str) -> set[str]:
    """The rows of a test, by its name with its parameters."""
    function, _, parameters = test.rpartition("::")[2].partition("[")
    found = NAME.match(function)
    own = {f"{part[0].upper()}-{part[1:]}" for part in found[1].rstrip("_").split("_")} if found else set()
    return own | set(PARAMETER.findall(parameters))


@dataclasses.dataclass
class Backing:
    file: str
    name: str
    rows: set[str]
    small: list[str]  # the values of every run, per parametrize that has a full form; empty: only in the full run
    full: list[str]
    soak: list[str]
    only_full: bool


def marked(node: ast.AST, mark: str) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == mark for part in ast.walk(node))


def text(nodes: list[ast.expr]) -> str:
    return ", ".join(re.sub(r"\b(\d+)_(\d)", r"\1\2", ast.unparse(node)) for node in nodes)


def counts(test: Backing, decorator: ast.Call) -> None:
    """The values of one parametrize."""
    for part in ast.walk(decorator.args[1]):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "times":
            test.small.append(text(part.args[:1]))
            test.full.append(text(part.args[1:2]))
            test.soak += [text([word.value]) for word in part.keywords if word.arg == "soak"]
            return
    values = decorator.args[1]
    if isinstance(values, ast.Call) and ast.unparse(values.func) == "always":
        test.small.append(text(values.args))
        test.full.append("more")
        return
    if not isinstance(values, ast.List) or not marked(values, "full"):
        return
    for item in values.elts:
        if isinstance(item, ast.Call) and marked(item, "full"):
            test.full.append(text(item.args))
        else:
            test.small.append(text(item.args if isinstance(item, ast.Call) else [item]))


def backing() -> Iterator[Backing]:
    """All tests that have rows."""
    for path in sorted(TESTS.glob("*/test_*.py"), key=lambda path: path.name):
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            rows = rows_of(node.name)
            for decorator in node.decorator_list:
                rows |= set(PARAMETER.findall(ast.unparse(decorator)))
            if not rows:
                continue
            found = Backing(str(path.relative_to(TESTS)), node.name, rows, [], [], [], any(marked(decorator, "full") and not isinstance(decorator, ast.Call)
                                                                     for decorator in node.decorator_list))  # fmt: skip
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.parametrize":
                    counts(found, decorator)
            yield found


HEAD = """\
# Faults

A lock library is worth what it does when things break. This page lists the faults that the tests make happen, and these tests. Servers and processes are real unless a test's
name says fake or hostile. Each test counts that its fault happened.

The page is written by [a script](../python-tests/harness/rows.py) from the tests themselves, and [a test](../python-tests/faults/test_rows.py) checks that it is up to date.

## How to read the tables

*Every run* is `./dev test`, *full run* is `./dev test --full`. `./dev soak` repeats the largest form of each test until its row has the count of the last column, or for as long as
`--minutes` says. A number says how many rounds the test runs, as a rule with several locks each. A word or `1` means that the test has no count.

In the names of faults, W is the lease, F the deadline after which a grant no longer counts, *a* the time of one attempt. N is the number of servers of a quorum, Q the number that must
agree. L1 and L2 are [levels](levels.md).

```sh
./dev soak --list                           # which tests it runs
./dev soak --minutes 600                    # first every row once, then the rows that lack most
./dev soak --rows C,D-05                    # groups and rows
```

`./dev soak` ends with a table. It has for each row: wanted, done, faults, verdict. The exit code is 1 when a run failed or a fault never happened.

Run as root, the tests lose, delay and cut off packets in network namespaces; else in a proxy.

## What differs from the plan

Each row is a fault of the plan of tests. Some are tested otherwise than planned:

- C-07: with leases of 1 s over a line that loses a tenth of its packets, about a fifth of the locks is lost (and reported in time), not one in 1000. Leases of 6 s and 30 s hold.
- C-09: 100 leases of 10 s on a line of 96 kbit/s instead of 10: the renewals alone need 21 kbit/s.
- D-05: the client waits for one request per lock. Requests that it gave up stay under way until it leaves the connection: three at most by default.
- K-01: new credentials take a new client; there is no callback.
- K-08: without TLS, the grants of another name could be replayed. With TLS nothing can.
- L-18: the member's monotonic clock, by which etcd measures leases, is a day ahead. Its time of day is not changed: etcd is a Go program, which
  libfaketime does not reach.
- The other groups: only the rows below have tests of their own. Clocks that run at other rates are in the [simulator](../python-tests/models/test_simulator.py) as well.
"""


def page() -> str:
    found = list(backing())
    lines = [HEAD]
    for group, title in GROUPS.items():
        wanted = [row for row in ROWS if row[0] == group and any(row in test.rows for test in found)]
        if not wanted:
            continue
        lines += [f"## {group}: {title}", "", "| row | fault | test | every run | full run | soak |", "| --- | --- | --- | --- | --- | --- |"]
        for row in wanted:
            total, fault = ROWS[row]
            for test in [test for test in found if row in test.rows]:
                full = " / ".join(test.full) or "1"
                small = "" if test.only_full else " / ".join(test.small) or "1"
                soak = " / ".join(test.soak) or (f"{total}" if total > 1 and fault else "")
                lines.append(f"| {row} | {fault} | {pathlib.Path(test.file).stem[5:]}: {test.name} | {small} | {full} | {soak} |")
                row = fault = ""
        lines.append("")
    missing = [row for row in ROWS if not any(row in test.rows for test in found)]
    lines += ["## Without a test of their own", "", "These rows of the plan have no test of their own yet: " + ", ".join(missing) + ".", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
