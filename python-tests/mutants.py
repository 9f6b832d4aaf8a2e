"""Defects seeded on purpose: the simulator must find each of them, or its silence proves nothing.

A mutant changes the text of the engine or of a script in a copy of src (edits: file, old text, new text; the old text must be
there exactly once), or switches the simulator's driver, which plays the watchdog (driver: see sim_driver.c). Numbers below
100 are those of the reliability plan's positive controls; the others are defects that the simulator found in real code.
"""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from typing import Any, Container, Sequence

import pytest

Edit = tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class Mutant:
    number: int
    what: str
    edits: tuple[Edit, ...] = ()
    driver: int = 0
    caught: bool = True
    first: int = 1
    seeds: int = 2000
    world: str = "mutex"
    semaphores: bool = False  # of dlock_worlds: its world has those
    latches: bool = False  # the same
    forgets: bool = False  # on servers that lose their memory


# Defects that two mutants have: each is found in another way.
OUTSIDE = (
    ("zookeeper/permit.c", "if (!dli_zk_stands(job) || entry->outside) {", "if (!dli_zk_stands(job)) {"),
)
FIRST_ONLY = (
    ("zookeeper/renew.c", "if (row->permits > 1 && entry->sure < row->permits) {", "if (row->permits > 1 && entry->sure < 1) {"),
    ("zookeeper/renew.c", "failed = dli_zk_watches(entry, (int)row->permits);", "failed = dli_zk_watches(entry, 1);"),
)
IN_THE_CHILD = (
    ("client/client.c", "__atomic_load_n(&client->generation, __ATOMIC_RELAXED) != dli_fork_generation())", "__atomic_load_n(&client->generation, __ATOMIC_RELAXED) == 0)"),
)  # fmt: skip

ALONE = ("redis/scripts/rw/write_acquire.lua", "local left = others(holds, own, millis())", "local left = 0")

MUTANTS = (
    Mutant(1, "stamp after the reply", first=41, edits=(
        ("engine/exchange.c", "m->active->sent.wish.lease, m->active->sent.stamp,\n                       answer->since, now);",
         "m->active->sent.wish.lease, now,\n                       answer->since, now);"),
    )),
    Mutant(3, "no guard", first=741, seeds=4000, edits=(
        ("engine/lease.c", "- 2 * DLI_MS - guard(lease);", "- 2 * DLI_MS + 0 * guard(lease);"),
    )),
    Mutant(5, "release without comparing the owner", (
        ("redis/scripts/mutex/giveup.lua", "redis.call('HDEL', lock, owner) == 0 then",
         "redis.call('DEL', lock) == 0 then"),
    )),
    Mutant(6, "renewal without comparing the owner", (
        ("redis/scripts/mutex/renew.lua", "if (pcall('HEXISTS', key, owner) == 1 or held(key, owner)) and owner ~= 'mode' then", "if redis.call('EXISTS', KEYS[i]) == 1 then"),
    )),
    Mutant(10, "a renewal queued before the release is still sent", driver=10, first=1301, seeds=4000),
    Mutant(11, "loss noticed by replies only", (
        ("engine/renewal.c", "if (dli_mutex_owned(m) && now >= m->grant.limit)", "if (dli_mutex_owned(m) && now >= DLI_NEVER)"),
        ("engine/renewal.c", "at = dli_earlier(m->grant.limit, max_hold_at(m));", "at = max_hold_at(m);"),
    )),
    Mutant(13, "subscribed after the try, no second try", driver=13),
    Mutant(15, "token counted up on re-entry", (
        ("engine/mutex.c", "    m->holder->count++;\n    return m->holder;",
         "    m->holder->count++;\n    m->holder->token++;\n    return m->holder;"),
    )),
    Mutant(19, "EVAL after NOSCRIPT keeps the old stamp: harmless", driver=19, seeds=100, caught=False),
    Mutant(20, "no answer taken for no grant", (
        ("engine/exchange.c", "dli_mutex_owned(m) && (!answer->sent || answer->refused))\n        restore_want(m);",
         "dli_mutex_owned(m))\n        m->want.state = m->active->sent.before;"),
    )),
    Mutant(101, "a pushed grant counts from its arrival", (
        ("engine/exchange.c", "int64_t stamp = m->active->line_at, lease = m->active->line_lease;",
         "int64_t stamp = now, lease = m->active->line_lease;"),
        ("engine/exchange.c", "        stamp = m->active->sent.stamp;\n        lease = m->active->sent.wish.lease;",
         "        stamp = now;\n        lease = m->active->sent.wish.lease;"),
    )),
    Mutant(102, "a probe's grant lasts as long as an older probe requested", seeds=10000, edits=(
        ("redis/scripts/shared/common.lua", "return grant(own, args[2], tonumber(args[3]), args[7])",
         "return grant(own, told.lease, told.block, told.keep)"),
    )),
    Mutant(103, "a message that comes while an exchange is in flight is forgotten", first=12051, seeds=400, edits=(
        ("engine/mutex.c", "    m->active->again = at;\n    if (m->waiters", "    if (m->waiters"),
    )),
    Mutant(104, "the undo ends with the shorter lease of the claim", first=801, edits=(
        ("engine/drop.c", "dli_mutex_owned(m) ? m->want.longest_lease : dli_mutex_place(m)",
         "dli_mutex_owned(m) ? m->grant.lease : dli_mutex_beat(m) + m->grant.lease"),
    )),
    Mutant(105, "the undo of a place in line ends before the place does", first=121, edits=(
        ("engine/drop.c", "dli_mutex_owned(m) ? m->want.longest_lease : dli_mutex_place(m)", "m->want.longest_lease"),
        ("engine/exchange.c", "        dli_mutex_give_back(m, number, now);", "        (void)number;"),
    )),
    Mutant(106, "a claim with a shorter lease is not confirmed at once", (
        ("engine/mutex.c", "        m->renewing.confirm = 1;\n        m->renewing.at = now;", "        m->renewing.confirm = 1;"),
    )),
    Mutant(107, "a patient waiter behind a mere try does not join the line", first=421, edits=(
        ("engine/exchange.c", "if ((!m->active->sent.wish.patient && m->waiters > 0) ||\n        m->active->drop.number)", "if (m->active->drop.number)"),
    )),
    Mutant(108, "the release wakes nobody", (
        ("redis/scripts/shared/common.lua", "  if not gate_closed() then\n    given, left", "  if not lock then\n    given, left"),
        ("redis/scripts/shared/let_go.lua", "if present == 1 then", "if present == 9 then"),
    )),
    Mutant(998, "a grant tells of more tokens than there are", edits=(
        ("redis/scripts/mutex/give.lua", "text(few or told.block)", "text(told.block)"),
    )),
    Mutant(130, "the dead in line are removed one in a call: harmless", seeds=150, caught=False, edits=(
        ("redis/scripts/shared/common.lua", "local DEAD, DEAF, MORE = 12, 8, -1", "local DEAD, DEAF, MORE = 1, 1, -1"),
    )),
    Mutant(109, "the next in line is not told to watch foreign clients", first=20_461, seeds=1000, edits=(
        ("redis/scripts/mutex/giveup.lua", "    leave(owner)\n    tell_next()\n", "    leave(owner)\n"),
    )),
    Mutant(110, "a waiter sleeps until it is told", (
        ("engine/exchange.c", "m->active->probe_at = now + pause < m->active->again ? now + pause : m->active->again;", "m->active->probe_at = m->active->again;"),
    )),
    Mutant(111, "an adopter leaves the grant to others, too", (
        ("redis/scripts/shared/adopt.lua", "  redis.call('HDEL', lock, from)\n", ""),
    )),
    Mutant(112, "a lock that lingered is never given back", (
        ("engine/handover.c", "    if (dli_mutex_start_drop(m, m->overdue ? m->handover.since : 0, now) == 0)\n", "    m->handover.linger_until = 0;\n    if (now < 0)\n"),
    )),
    Mutant(118, "a new counter gives a whole block", (
        ("redis/scripts/shared/tokens.lua", "redis.call, micros, 1, tonumber(keep), nil, nil", "redis.call, micros, tonumber(block), tonumber(keep), nil, nil"),
    )),
    Mutant(119, "a whole block is reserved whatever the clock says", first=41, edits=(
        ("redis/scripts/shared/tokens.lua", "    got = math.min(block, last - before)\n", "    last = math.max(last, before + block)\n    got = block\n"),
    )),
    Mutant(120, "tokens are counted from the last one on", (
        ("redis/scripts/shared/tokens.lua", "return last - got + 1, got", "return last, got"),
    )),
    Mutant(121, "the reply hides that there are fewer tokens", (
        ("redis/scripts/shared/tokens.lua", ", got < block and got or nil", ""),
    )),
    Mutant(122, "a repeated request gets a whole block", (
        ("redis/scripts/mutex/try.lua", "last_token(args[7]), 1 }", "last_token(args[7]) }"),
    )),
    Mutant(123, "a lost counter does not start again for the holder", (
        ("redis/scripts/shared/common.lua", "or (tokens(fence, now(), 1, keep))", "or now() + 64"),
    )),
    Mutant(113, "a lingering lock is taken up with the token of its last hold", (
        ("engine/handover.c", "    next->handed = 1;\n    m->turns++;\n",
         "    next->handed = 1;\n    m->turns++;\n    m->tokens.next -= m->handover.linger_until != 0;\n"),
    )),
    Mutant(114, "a lock lingers longer than its grant may be used for turns", (
        ("engine/handover.c", "dli_earlier(now + dli_claim_linger(claim), turns_end(m));", "now + m->grant.lease;"),
    )),
    Mutant(124, "an id that was given up may still be granted", (
        ("redis/scripts/mutex/try.lua", "if buried(about, own) then", "if buried(about, own) and false then"),
    )),
    Mutant(125, "a holder is not told that the server forgot it", forgets=True, edits=(
        ("engine/renewal.c", "        dli_mutex_lose(m, DLOCK_CAUSE_TAKEN, now);", "        m->grant.limit = limit;"),
    )),
    Mutant(126, "tokens of a new counter begin a second late", forgets=True, edits=(
        ("redis/scripts/shared/tokens.lua", "  count = count or call('GET', fence)\n",
         "  count = count or call('GET', fence)\n  last = last - (count and 0 or 1000000)\n"),
    )),
    Mutant(115, "the answer to an extend goes to a later holder", first=181, edits=(
        ("engine/renewal.c", "m->holder && m->holder->token == token;", "m->holder && token;"),
    )),
)  # fmt: skip


# Of busy polling: the rules of test_busy.py find these.
BUSY = (
    Mutant(525, "polling in vain is no reason to pause", (("net/busy.c", "busy->came * 2 < ROUND", "busy->came < 0"),)),
    Mutant(526, "one answer in time is enough", (("net/busy.c", "busy->came * 2 < ROUND", "busy->came < 1"),)),
    Mutant(527, "the pause has no end", (("net/busy.c", "pause < PAUSE_MOST ? pause : PAUSE_MOST", "pause"),)),
    Mutant(504, "the pause does not grow", (("net/busy.c", "busy->pause * 4;", "busy->pause;"),)),
    Mutant(505, "one answer too late is a reason to pause", (("net/busy.c", "if (busy->calls < ROUND)", "if (came && busy->calls < ROUND)"),)),
    Mutant(506, "a pause is remembered for ever", (("net/busy.c", "busy->pause /= 2;", ";"),)),
    Mutant(507, "a lost time slice counts as a late answer", (("net/busy.c", "away >= SLICE", "away < 0"),)),
    Mutant(508, "a lost core counts as an answer", (("net/busy.c", "came && away < DLI_BUSY_SHARED &&", "came &&"),)),
    Mutant(509, "the server's own work counts as another program's", (("net/busy.h", "DLI_BUSY_SHARED = 100", "DLI_BUSY_SHARED = 8"),)),
    Mutant(510, "a server that gets no core counts as one that does", (
        ("net/busy.c", " && !put_aside", " + 0 * put_aside"),
    )),
)


# Of direct calls: test_direct.py finds these.
DIRECT = (
    Mutant(511, "a direct call leaves nothing to the client's thread", (
        ("redis/pipe/pipe.c", "done = settled(pipe);", "done = 1;"),
    )),
    Mutant(512, "calls of many go one by one", (
        ("client/events.c", "events->many_until = now + MANY_FOR;", "events->many_until = now;"),
    )),
    Mutant(513, "the client's thread drives beside a caller", (
        ("redis/pipe/pipe.c", "    pthread_mutex_lock(&pipe->mutex);\n", "    (void)pipe;\n"),
        ("redis/pipe/pipe.c", "void dli_pipe_leave(struct dli_pipe *pipe)\n{\n    pthread_mutex_unlock(&pipe->mutex);\n",
         "void dli_pipe_leave(struct dli_pipe *pipe)\n{\n    (void)pipe;\n"),
    )),
    Mutant(518, "a caller that took the answer to renewals leaves the others to the clock", (
        ("watchdog/renew.c", "    if (batch->queue->count > 0)", "    if (batch->queue->count > 9999)"),
    )),
)

# Of callers that listen: test_listener.py finds these.
LISTENERS = (
    Mutant(528, "nobody listens", (
        ("client/acquire.c", "waiter->claim.state == DLI_CLAIM_WAITING && !m->holder", "waiter->claim.state == DLI_CLAIM_WAITING && m->holder"),
    )),
    Mutant(529, "the client's thread stays deaf behind a listener", (
        ("redis/pubsub/listener.c", "whole && turn(listener, 1) == 0", "whole && turn(listener, 0) == 0"),
    )),
    Mutant(530, "nobody rings for a listener", (
        ("client/waiter.c", "        store->ops->ring(store);\n", "        (void)store;\n"),
    )),
    Mutant(531, "a listener does not notice what it received itself", (
        ("sys/seat.c", "    __atomic_store_n(&seat->rung, 1, __ATOMIC_RELEASE);\n    if (!", "    if (!"),
    )),
)

# Of begun calls: test_begin.py finds these.
BEGUN = (
    Mutant(514, "an event loop never has its turn", (
        ("client/submit.c", "% ROUND == 0 &&", "% ROUND == ROUND &&"),
    )),
    Mutant(515, "a pausing caller leaves everything to the client's thread", (
        ("redis/pipe/pipe.c", "    if (!dli_busy_may(nap, now))\n        return;\n", "    if (now)\n        return;\n"),
    )),
    Mutant(516, "an event stays promised that never comes", (
        ("client/submit.c", "    if (status != DLOCK_WOULD_BLOCK)\n        dli_events_keep(&entry->client->events, NULL);",
         "    if (status != DLOCK_WOULD_BLOCK && status != DLOCK_OK)\n        dli_events_keep(&entry->client->events, NULL);"),
    )),
    Mutant(517, "an answer comes by event and by return", (
        ("client/submit.c", "    if (!by_event && dli_acquire_over(waiter, releasing))", "    if (dli_acquire_over(waiter, releasing))"),
    )),
)


# Of the votes of a quorum: native/sim/votes.c finds these.
VOTES = (
    Mutant(401, "a renewal that one server too few confirmed counts", (
        ("engine/votes.c", "if (tally->yes >= tally->needed)", "if (tally->yes >= tally->needed - 1)"),
    )),
    Mutant(402, "tokens in one round: nothing is written back", (
        ("engine/votes.c", "return e->token && voter->token <= e->token && voter->last >= e->last;",
         "return e->token && voter->token <= e->token;"),
    )),
    Mutant(403, "one floor too few", (
        ("engine/votes.c", "if (e->token && count_of(e, DLI_VOTE_FLOORED) >= e->needed)",
         "if (e->token && count_of(e, DLI_VOTE_FLOORED) >= e->needed - 1)"),
    )),
    Mutant(404, "no answer is a vote", (
        ("engine/votes.c", "    e->voter[i].vote = DLI_VOTE_FAILED;\n", "    e->voter[i].vote = DLI_VOTE_FLOORED;\n"),
    )),
    Mutant(405, "the lowest token is chosen", (
        ("engine/votes.c", "voter->token > e->token ? voter->token : e->token",
         "!e->token || voter->token < e->token ? voter->token : e->token"),
    )),
    Mutant(407, "the reservation ends with the lowest block", (
        ("engine/votes.c", "voter->last > e->last ? voter->last : e->last;",
         "!e->last || voter->last < e->last ? voter->last : e->last;"),
    )),
    Mutant(406, "an id that was granted by some is used again", (
        ("engine/votes.c", "            return 1;\n    return 0;\n}\n\nint dli_election_split",
         "            return 0;\n    return 0;\n}\n\nint dli_election_split"),
    )),
)  # fmt: skip


KINDS = (
    Mutant(261, "a machine whose request may be granted gets its neighbour's grant", world="semaphore", edits=(
        ("engine/handover.c", ": m->want.state <= DLI_WANT_FRESH;", ": m->want.state <= DLI_WANT_KNOWN;"),
        ("engine/handover.c", "has_place(m) && !m->active->sent.in_flight &&", "has_place(m) &&"),
    )),
    Mutant(262, "a grant serves more turns than it has tokens", world="permit", edits=(
        ("redis/scripts/semaphore/sem_token.lua", "  return token, few or tonumber(block) or 1\n", "  return token, tonumber(block) or 1\n"),
    )),
    Mutant(263, "the lease of a grant does not go with it", world="rw", edits=(
        ("engine/handover.c", "    to->grant = from->grant;\n", ""),
    )),
    Mutant(264, "a writer's number goes on after its loss", world="rw", edits=(
        ("engine/handover.c", "    dli_mutex_forget_want(from);\n", ""),
    )),
    Mutant(265, "the lock passes to a waiter that is not the next in line", world="turns", driver=20),
    Mutant(266, "a release does not name those that had their turns", world="turns", driver=21),
    Mutant(267, "waiters of another process are left out of what is next", world="turns", edits=(
        ("redis/scripts/fair/fair_give.lua", "~= client(first) then\n      break\n    end\n    numbers[i] = next_ones[i]:sub(38)\n",
         "== client(first) then\n      numbers[#numbers + 1] = next_ones[i]:sub(38)\n    end\n"),
    )),
    Mutant(268, "a turn takes a token that was not reserved for it", world="turns", edits=(
        ("redis/scripts/fair/fair_give.lua", "reserve(told.keep, #numbers + 1)", "reserve(told.keep, 1)"),
        ("redis/scripts/fair/fair_give.lua", "return token, tokens, table.concat(numbers, ',', 1, tokens - 1)", "return token, #numbers + 1, table.concat(numbers, ',')"),
    )),
    Mutant(270, "a waiter of the same process is buried with one that came later", world="turns", edits=(
        ("redis/scripts/fair/fair_release.lua", "bury(owner, owner)", "bury(owner)"),
        ("redis/scripts/fair/fair_acquire.lua", "buried(tombs, own, own)", "buried(tombs, own)"),
    )),
    Mutant(251, "a read that was given up may still be granted", world="rw", edits=(
        ("redis/scripts/rw/read_acquire.lua", "call('GET', hold) == BURIED then", "call('GET', hold) == 0 then"),
    )),
    Mutant(252, "a write that was given up may still be granted", first=221, world="rw", edits=(
        ("redis/scripts/rw/write_acquire.lua", "call('GET', KEYS[4]) == BURIED then", "call('GET', KEYS[4]) == 0 then"),
    )),
    Mutant(253, "a fair acquire that was given up may still be granted", world="fair", edits=(
        ("redis/scripts/fair/fair_acquire.lua", "if buried(tombs, own, own) then", "if buried(tombs, own, own) and false then"),
    )),
    Mutant(992, "a fair waiter that was given up joins the line", world="fair", edits=(
        ("redis/scripts/fair/fair_join.lua", "return present == 4 and behind_ours and", "return behind_ours and"),
        ("redis/scripts/fair/fair_join.lua", "not wrong and present == 2 and 0 or nil", "not wrong and 0 or nil"),
    )),
    Mutant(993, "the holder of a fair lock that asks again joins the line", world="fair", edits=(
        ("redis/scripts/fair/fair_join.lua", "or holders[1] == own or known[1]", "or known[1]"),
    )),
    Mutant(254, "permits that were given up may still be granted", world="permit", edits=(
        ("redis/scripts/permit/permit_acquire.lua", "if told and told[1] == 0 then", "if told and told[1] == 2 then"),
    )),
    Mutant(201, "a writer enters beside readers", world="rw", edits=(
        ("redis/scripts/rw/write_acquire.lua", "  if last > 0 or more then", "  if last < 0 or more then"),
        ALONE,
    )),
    Mutant(202, "the first reader that leaves opens the lock", world="rw", edits=(
        ("redis/scripts/rw/read_release.lua", "  local last, more = last_hold()\n", "  local last, more = 0, false\n"),
    )),
    Mutant(203, "a renewal forgets the key of the hold", world="rw", edits=(
        ("redis/scripts/rw/read_renew.lua", "    extend(hold, lease)\n", ""),
    )),
    Mutant(204, "a read acquire makes the lock's life shorter", world="rw", edits=(
        ("redis/scripts/rw/read_acquire.lua", "call('SET', hold, text(token), 'PX', lease)\nextend(lock, lease)",
         "call('SET', hold, text(token), 'PX', lease)\ncall('PEXPIRE', lock, math.floor(lease / 4))"),
    )),
    Mutant(205, "living readers are removed with the dead", world="rw", edits=(
        ("redis/scripts/rw/rw.lua", "if holds and left == 0 and not", "if holds and not"),
    )),
    Mutant(1450, "a writer does not ask for readers whose hash is gone", world="rw", edits=(ALONE,)),
    Mutant(1451, "a reader does not ask for a writer whose hash is gone", world="rw", edits=(
        ("redis/scripts/rw/read_acquire.lua", "mode ~= 'write' and others(holds, own, millis(), under) or 0", "0"),
    )),
    Mutant(1452, "a renewal does not note how long it holds", world="rw", edits=(
        ("redis/scripts/rw/read_renew.lua", "    note(KEYS[3 * i], owner, at, lease)\n", ""),
    )),
    Mutant(1453, "a reader stays noted when a writer is granted: harmless", world="rw", seeds=150, caught=False, edits=(
        ("redis/scripts/rw/write_acquire.lua", "call('DEL', lock, KEYS[5], holds)", "call('DEL', lock, KEYS[5])"),
    )),
    Mutant(1454, "a renewal that finds the hash gone forgets who holds", world="rw", edits=(
        ("redis/scripts/rw/read_renew.lua", "    kept[i] = 1\n  end", "    kept[i] = 1\n  else\n    redis.call('ZREM', KEYS[3 * i], owner)\n  end"),
    )),
    Mutant(206, "two fields count as many readers: harmless", world="rw", seeds=150, caught=False, edits=(
        ("redis/scripts/rw/rw.lua", "FEW, SOME, MOST = 16, 8, 32", "FEW, SOME, MOST = 2, 1, 3"),
    )),
    Mutant(207, "dead readers among many count for all", world="rw", edits=(
        ("redis/scripts/rw/rw.lua", "FEW, SOME, MOST = 16, 8, 32", "FEW, SOME, MOST = 2, 1, 1"),
        ("redis/scripts/rw/rw.lua", "  return 0, true\n", "  return 0, false\n"),
    )),
    Mutant(208, "one reader of many counts for all", world="rw", first=13541, edits=(
        ("redis/scripts/rw/rw.lua", "FEW, SOME, MOST = 16, 8, 32", "FEW, SOME, MOST = 2, 1, 3"),
        ("redis/scripts/rw/rw.lua", "  if more then\n    extend(lock, last)", "  if false then\n    extend(lock, last)"),
    )),
    Mutant(211, "a repeated acquire takes again", world="semaphore", edits=(
        ("redis/scripts/semaphore/semaphore_acquire.lua", "if token then\n", "if token and not lock then\n"),
        ("redis/scripts/semaphore/semaphore_acquire.lua", "if not lives(KEYS[5], owner, ARGV[3], ARGV[2]) then", "if not lives(KEYS[5], owner, ARGV[3], ARGV[2]) and false then"),
    )),
    Mutant(212, "a release counts again when it is repeated", world="semaphore", edits=(
        ("redis/scripts/semaphore/semaphore_release.lua", "if gone == 1 then\n  left =", "if gone < 2 then\n  left ="),
    )),
    Mutant(213, "an acquire that comes after its undo is served", world="semaphore", edits=(
        ("redis/scripts/semaphore/semaphore_acquire.lua", "if call('HEXISTS', once, owner) == 1 then", "if false then"),
    )),
    Mutant(214, "a number in doubt is forgotten", world="semaphore", edits=(
        ("engine/exchange.c", "        m->want.doubt = m->want.doubt || doubt;\n", "        m->want.doubt |= 0;\n"),
    )),
    Mutant(215, "permits of the living are given back", world="semaphore", edits=(
        ("redis/scripts/semaphore/semaphore_change.lua", "text(millis() - number)", "text(millis() - number + 86400000)"),
    )),
    Mutant(216, "the dead are forgotten, and their permits are not counted", world="semaphore", edits=(
        ("redis/scripts/semaphore/semaphore_change.lua", "    back = back + bury(dead[i])\n", "    bury(dead[i])\n"),
    )),
    Mutant(217, "a renewal does not say that the holder lives", world="semaphore", edits=(
        ("redis/scripts/semaphore/semaphore_renew.lua", "    lives(holders, owner, permits, lease)\n", ""),
    )),
    Mutant(218, "a released hold is given back again", world="semaphore", edits=(
        ("redis/scripts/semaphore/semaphore_release.lua", "gone = math.min(gone + call('ZREM', holders, mine), 1)", "gone = math.min(gone, 1)"),
    )),
    Mutant(220, "a hold without a lease is never renewed", world="semaphore", edits=(
        ("engine/renewal.c", "    return m->renewing.on || m->renewing.confirm || m->rules->lives;", "    return m->renewing.on || m->renewing.confirm;"),
    )),
    Mutant(219, "a waiter keeps an id that gets nothing any more", world="semaphore", edits=(
        ("redis/scripts/semaphore/semaphore_acquire.lua", "return { 0, 0, 2 }", "return { 0, -1, 1 }"),
    )),
    Mutant(255, "a holder of permits is not told that the server forgot it", world="semaphore", forgets=True, edits=(
        ("engine/renewal.c", "        dli_mutex_lose(m, DLOCK_CAUSE_TAKEN, now);", "        m->renewing.confirm = 0;"),
    )),
    Mutant(221, "permits that expired do not come back", world="permit", edits=(
        ("redis/scripts/permit/permit_pool.lua", "call('INCRBY', lock, back)", "call('INCRBY', lock, 0)"),
    )),
    Mutant(222, "a permit is taken without being counted", world="permit", edits=(
        ("redis/scripts/permit/permit_acquire.lua", "call('DECRBY', lock, #ids)\n", "0\n"),
    )),
    Mutant(223, "a renewal makes leases that have ended live again", world="permit", seeds=4000, edits=(
        ("redis/scripts/permit/permit_renew.lua", "  if #found == #ids and lowest > millis() then", "  if true then"),
    )),
    Mutant(231, "the second in line is served", world="fair", edits=(
        ("redis/scripts/fair/fair_line.lua", "    local first = two[1]\n", "    local first = two[2] or two[1]\n"),
        ("redis/scripts/fair/fair_release.lua", "local first, after = two[1], two[2]\n", "local first, after = two[2] or two[1]\n"),
    )),
    Mutant(232, "a try without a wait passes the line", world="fair", edits=(
        ("redis/scripts/fair/fair_acquire.lua", "  local who, token, tokens, next_ones = hand_on(own, want)\n", "  local who, token, tokens, next_ones = own, give(own, want, nil, true)\n"),
    )),
    Mutant(233, "a release wakes nobody", world="fair", edits=(
        ("redis/scripts/fair/fair_release.lua", "if held then\n  try(hand_on)\n", "if held then\n"),
        ("redis/scripts/fair/fair_release.lua", "if held and try(pass) then\n", "if held and false then\n"),
    )),
    Mutant(234, "the dead in a fair line are removed one in a call: harmless", world="fair", seeds=150, caught=False, edits=(
        ("redis/scripts/fair/fair_line.lua", "local SOME, FOREIGN, MORE = 8, 8, -1", "local SOME, FOREIGN, MORE = 1, 0, -1"),
    )),
)

# Found by test_faults_cluster.py, on servers that send the client around.
CLUSTER = (
    Mutant(301, "redirects without end", world="cluster", edits=(
        ("redis/cluster/route.c", "if (++route->redirects > TURNS_MOST ||", "if (++route->redirects > 1000000 ||"),
    )),
    Mutant(302, "ASK moves the slot", world="cluster", edits=(
        ("redis/cluster/refresh.c", "    if (redirect->kind == DLI_REDIRECT_MOVED) {", "    if (redirect->kind != DLI_REDIRECT_NONE) {"),
    )),
    Mutant(303, "no ASKING where ASK leads", world="cluster", edits=(
        ("redis/cluster/route.c", "call.asking = route->ask_node != NULL;\n    route->firm", "call.asking = 0;\n    route->firm"),
        ("redis/cluster/route.c", "call.asking = route->ask_node != NULL;\n    if (encode", "call.asking = 0;\n    if (encode"),
    )),
    Mutant(304, "a redirect without a host leads nowhere", world="cluster", edits=(
        ("redis/cluster/refresh.c", "redirect->host[0] ? redirect->host : from->config.target.host;",
         "from ? redirect->host : NULL;"),
    )),
    Mutant(305, "TRYAGAIN is an error", world="cluster", edits=(
        ("redis/codec/cluster_map.c", '"TRYAGAIN ", ', ""),
    )),
    Mutant(306, "redirects to a server that has left the map are followed", world="cluster", edits=(
        ("redis/cluster/node.c", "return node && __atomic_load_n(&node->listed, __ATOMIC_ACQUIRE) ? node : NULL;", "return node;"),
    )),
)  # fmt: skip

# Found by test_faults_cluster.py, of requests that rest for a moment.
STACK = Mutant(307, "the last delayed request goes on first", edits=(
    ("redis/cluster/route.c", "        lane->parked_end = &(*lane->parked_end = route)->next;",
     "        route->next = lane->parked, lane->parked = route;"),
))  # fmt: skip

# Found by test_faults_server.py, of a server that has lost its scripts.
OVERTAKEN = Mutant(606, "batched calls are sent by their hash once more", edits=(
    ("redis/pipe/pipe_io.c", "            if (!again_in_full(pipe, call, reply))\n                again(pipe, call);", "            again(pipe, call);"),
))  # fmt: skip

# Found by test_replicas.py, on a primary whose replicas do not answer.
REPLICAS = (
    Mutant(501, "too few replicas are enough", world="replicas", edits=(
        ("redis/replicas/replicas.c", "    if (count >= needed(replicas))", "    if (count >= 0 * needed(replicas))"),
    )),
    Mutant(502, "WAIT goes over another connection", world="replicas", edits=(
        ("redis/replicas/replicas.c", "    return matters(&job->request) ? say_wait(replicas, carrier, now) : complete(carrier);",
         "    if (!matters(&job->request))\n        return complete(carrier);\n"
         "    static struct dli_conn *other;\n"
         "    struct dli_conn *idle = other ? other : dli_conn_new(replicas->config);\n"
         "    other = carrier->conn;\n    carrier->conn = idle;\n    carrier->said = now > 0 ? 2 : 1;\n    return 2;"),
        ("redis/replicas/replicas.c", "    if (!carrier->said)\n        return say(carrier, 0);\n",
         "    if (!carrier->said)\n        return say(carrier, 0);\n"
         "    if (carrier->said == 2) {\n        carrier->said = 1;\n        return say_wait(replicas, carrier, now);\n    }\n"),
    )),
    Mutant(503, "renewals need no replicas", world="replicas", edits=(
        ("redis/replicas/replicas.c", "    return request->verb == DLI_VERB_RENEW ||", "    return"),
    )),
)  # fmt: skip

# Found by test_replicas.py with replicas=all: numbers that were true once.
ALL_REPLICAS = (
    Mutant(560, "the primary's own number does not count", world="joins", edits=(
        ("redis/replicas/replicas.c", "    if (replicas->linked > known && !has_passed(replicas))\n        known = replicas->linked;\n", ""),
    )),
    Mutant(561, "one sentinel speaks for all", world="knows_most", edits=(
        ("redis/replicas/census.c", "most = member->count > most ? member->count : most;", "most = i == 0 ? member->count : most;"),
    )),
    Mutant(562, "the number of replicas never falls", world="remedy", edits=(
        ("redis/replicas/census.c", "    int most = 0, heard = 0,", "    int most = census->listed.count, heard = 0,"),
    )),
)  # fmt: skip

# Found by test_e03_a_wait_goes_on_until_its_own_time_is_over of test_replicas.py.
IMPATIENT = Mutant(564, "a wait ends at the first grant that is not confirmed", edits=(
    ("engine/exchange.c", "    if (answer->refused)\n        restore_want(m);\n    dli_mutex_end_waiting(m, answer->status, 1);",
     "    if (answer->refused)\n        restore_want(m);\n    dli_mutex_end_waiting(m, answer->status, 0);"),
))  # fmt: skip

# Found by test_faults_quorum.py.
OWN_TIME = Mutant(563, "each server's tokens count from its own time", edits=(
    ("redis/quorum/election.c", "exchange->clock = clock > 0 ? clock : 1;", "exchange->clock = 0 * clock;"),
))  # fmt: skip

# The same defects on a cluster, and two of the way there. test_replicas_cluster.py must find them.
CLUSTER_REPLICAS = (
    *REPLICAS,
    Mutant(519, "callers use their usual connection", world="replicas", edits=(
        ("redis/cluster/route.c", "    if (!route->move && dli_replicas_want(&at->replicas, &route->job.request)) {",
         "    if (!route->lane && dli_replicas_want(&at->replicas, &route->job.request)) {"),
    )),
    Mutant(520, "all of zero replicas are enough", world="replicas", edits=(
        ("redis/cluster/node.c", "&node->budget, lane->wake_fd, cluster->confirm,", "&node->budget, lane->wake_fd, 0 * cluster->confirm,"),
    )),
)  # fmt: skip

# Found by test_cluster_pubsub.py, beside clients that subscribe plainly.
PUBSUB = (
    Mutant(1015, "the name of a message is what follows its fourth word", edits=(
        ("redis/cluster/subscriptions.c", "dli_slot_of(message.name, message.size)", "dli_slot_of(message.name - (message.what == DLI_MESSAGE_GRANT ? 2 : 0), message.size + (message.what == DLI_MESSAGE_GRANT ? 2 : 0))"),
    )),
    Mutant(521, "plain Pub/Sub is sharded where the servers have it", world="cluster", edits=(
        ("redis/cluster/cluster.c", "cluster->probed = cluster->pubsub == DLI_PUBSUB_PLAIN;", "cluster->probed = 0;"),
    )),
    Mutant(522, "a subscriber of both kinds leaves out the plain channel", world="cluster", edits=(
        ("redis/cluster/subscriptions.c", "    if (form != DLI_FORM_SHARDED)\n", "    if (form == DLI_FORM_PLAIN)\n"),
    )),
    Mutant(523, "a subscriber of both kinds counts once", world="cluster", edits=(
        ("redis/codec/commands.c", "INT64_C(2) * wish->listening", "INT64_C(1) * wish->listening"),
    )),
    Mutant(524, "the plain subscription stays where the slot was", world="cluster", edits=(
        ("redis/cluster/subscriptions.c", "    if (dli_cluster_form(node->cluster, channel->plain) == DLI_FORM_BOTH)\n",
         "    if (dli_cluster_form(node->cluster, channel->plain) > DLI_FORM_BOTH)\n"),
    )),
)  # fmt: skip

# Found by test_faults_waiting.py, of a waiter that was granted the lock and runs only when the lease is over.
LATE = Mutant(601, "a woken waiter does not check the time", edits=(
    ("client/acquire.c", "== DLI_SETTLED_GRANTED && dli_now() < waiter->sure_until;", "== DLI_SETTLED_GRANTED;"),
))  # fmt: skip

# Found by test_faults_clock.py, of a server whose clock is set back.
CLOCK = Mutant(607, "a waiter remembers nothing of its last probe", edits=(
    ("engine/exchange.c", "    m->active->seen = answer->seen;\n", ""),
))  # fmt: skip

# Found by test_multi.py, of a grant that comes after the lease.
TOO_LATE = Mutant(603, "a member of a multi-lock is requested again when nobody waits for it", edits=(
    ("client/multi_once.c", "    dli_mutex_give_up(&part->entry->m, &part->waiter->claim, DLOCK_UNREACHABLE, now);\n", ""),
))  # fmt: skip

# Found by test_multi.py, of a cancel between two members.
BETWEEN = Mutant(1021, "a member is waited for although the call was cancelled", edits=(
    ("client/multi.c", "&member->terms, call->owner, wait, &call->cancelled, token", "&member->terms, call->owner, wait, NULL, token"),
))  # fmt: skip

# Found by test_bad_one.py, of a server that refuses one lock.
BAD_ONE = (
    Mutant(611, "locks refused together are not requested again in parts", world="renewals", edits=(
        ("watchdog/renew.c", "    else if (batch->count > 1 && dli_request_blamed(request))\n        split_blamed(batch, request, now);\n", ""),
        ("watchdog/renew.c", "static void split_blamed(struct", "__attribute__((unused)) static void split_blamed(struct"),
    )),
    Mutant(612, "a refused lock is forgotten", world="renewals", edits=(
        ("client/renewal.c", "    entry->apart = refused != 0;\n", ""),
    )),
    Mutant(613, "a lock refused once stays alone", world="renewals", edits=(
        ("client/renewal.c", "    entry->apart = refused != 0;\n", "    entry->apart |= refused != 0;\n"),
    )),
    Mutant(614, "a refused caller joins a batch again", world="callers", edits=(
        ("redis/pipe/request.c", "    if (__atomic_load_n(noted, __ATOMIC_RELAXED) != apart)",
         "    if (apart && !noted)"),
    )),
    Mutant(615, "a refused caller stays alone", world="callers", edits=(
        ("redis/pipe/request.c", "    if (__atomic_load_n(noted, __ATOMIC_RELAXED) != apart)", "    if (apart)"),
    )),
)  # fmt: skip
UNNAMED = Mutant(616, "the first member is to blame", edits=(
    ("client/multi_once.c", "    return refused_unnamed(attempt, first) ? DLOCK_WOULD_BLOCK : first;",
     "    return refused_unnamed(attempt, first) ? first : first;"),
))  # fmt: skip

# Found by test_stray.py, of requests that come after the undo.
STRAY = Mutant(604, "the undo does not say that a request may still be in flight", edits=(
    ("engine/exchange.c", "wish->doubt = m->active->drop.number && m->active->drop.doubt;", "wish->doubt = 0;"),
))  # fmt: skip

# Found by test_cold.py, of what a held lock needs before it is due.
COLD = (
    Mutant(1011, "renewals need a new connection", edits=(
        ("redis/pipe/pipe_io.c", "    conn = dli_private_yield(pipe->spare, pipe->barren ? 0 : pipe->lost_at);", "    conn = NULL;"),
    )),
    Mutant(1012, "a caller does not use the shared connection when it cannot make one", edits=(
        ("redis/pipe/private.c", "(!may_connect(pool) || (shared && try_connect(pool, conn, call->deadline))))) {", "(!may_connect(pool) || (0 && shared && try_connect(pool, conn, call->deadline))))) {"),
    )),
)  # fmt: skip

# Found by test_wrong_server.py, of servers that are not the primary any more.
WRONG_SERVER = (
    Mutant(1013, "a caller takes a read-only server's answer", edits=(
        ("redis/pipe/private.c", "    if (status == DLOCK_OK && dli_conn_demoted(conn, reply))", "    if (0 && dli_conn_demoted(conn, reply))"),
    )),
    Mutant(1014, "the shared connection stays at a read-only server", edits=(
        ("redis/pipe/pipe_io.c", "        if (dli_conn_demoted(pipe->conn, reply))", "        if (0 && dli_conn_demoted(pipe->conn, reply))"),
    )),
)  # fmt: skip

# Found by test_wrong_server.py, too, of transactions.
LEFT_BY_TRANSACTIONS = (
    Mutant(1543, "connections of transactions to a server that was left are used again", edits=(
        ("redis/txn/handle.c", "    while (left && (conn = take_spare(txns)))\n", "    while (left > 1 && (conn = take_spare(txns)))\n"),
    )),
    Mutant(1544, "a transaction does not tell that a server is the wrong one", edits=(
        ("redis/txn/handle.c", "&& !handle->txn.guide && !was_left(handle))", "&& handle->txn.guide)"),
    )),
)  # fmt: skip

# Found by test_transfer.py, of a copy of a request that comes late.
EXPORT = Mutant(609, "an export forgets the number: a request for it may be under way", edits=(
    ("redis/scripts/shared/export.lua", "bury(owner)\n", ""),
))  # fmt: skip

# Found by test_unasked.py, of replies that nobody asked for.
UNASKED = (
    Mutant(1606, "a private connection is not looked at before a call", edits=(
        ("redis/link/call.c", "    if (!dli_conn_quiet(conn))\n        return conn->reason.code;\n    dlock_status", "    dlock_status"),
    )),
    Mutant(1607, "a part of a reply stays for the next one", edits=(
        ("redis/pipe/pipe_io.c", "    refuse_unasked(pipe);\n", ""),
        ("redis/pipe/pipe_io.c", "static void refuse_unasked", "__attribute__((unused)) static void refuse_unasked"),
    )),
    Mutant(608, "what comes behind a grant confirms it", edits=(
        ("redis/replicas/replicas.c", "    if (!dli_conn_quiet(carrier->conn))\n        return unasked(carrier);\n",
         "    if (0)\n        return unasked(carrier);\n"),
    )),
)

# Found by test_transfer.py, of adoptions whose answer is lost.
DISOWN = Mutant(605, "an adoption with a lost answer is not undone", edits=(
    ("client/transfer.c", "    if (in_doubt(operation))", "    if (0 && in_doubt(operation))"),
))  # fmt: skip

# Found by test_tokens_places.py, of what a client remembers of tokens.
FORGETFUL = (
    Mutant(621, "a hold knows the tokens of its own owner only", edits=(
        ("client/entry.c", "    dli_hold_rules(dli_entry_own_rules(entry), parent, key->kind);\n",
         "    dli_hold_rules(dli_entry_own_rules(entry), parent, key->kind);\n    dli_entry_own_rules(entry)->highest = &entry->highest;\n"),
    )),
    Mutant(622, "a grant with a lower token is adopted", edits=(
        ("engine/transfer.c", " || dli_mutex_falls(m, token)", ""),
    )),
    Mutant(623, "a repeated request is compared with later tokens", edits=(
        ("engine/exchange.c", "    if (m->want.state == DLI_WANT_NONE)\n        new_number(m);\n",
         "    struct dli_want before = m->want;\n\n    new_number(m);\n    if (before.state != DLI_WANT_NONE)\n        m->want = before;\n"),
    )),
)  # fmt: skip

# Of many waiters in one process: native/sim/waiters.c finds these.
WAITERS = (
    Mutant(711, "claims behind a removed one are not found any more", (
        ("engine/owners.c", "        if (((i - begin) & mask) < ((i - hole) & mask))\n", "        if (begin <= mask)\n"),
    )),
    Mutant(712, "a lost claim stays in the table when its owner has seen the loss", (
        ("engine/mutex.c", "        forget(m, claim);\n        claim->state = DLI_CLAIM_DONE;",
         "        dli_ring_remove(&m->lost, &claim->link);\n        claim->state = DLI_CLAIM_DONE;"),
    )),
    Mutant(713, "without memory for a larger table the new claim is in none", (
        ("engine/owners.c", "    } else {\n        drop_table(owners);\n    }", "    }"),
    )),
    Mutant(714, "a probe ends tries that came after it", (
        ("engine/mutex.c", " && claim->after < seq)", " && claim->after <= seq)"),
    )),
    Mutant(715, "a try that has ended counts as one that waits", (
        ("engine/mutex.c", "    m->active->hasty -= !claim->patient;\n", ""),
    )),
    Mutant(716, "the table never gets smaller", (
        ("engine/owners.c", "(uint64_t)m->claims < owners->size / 16", "(uint64_t)m->claims < owners->size / 16384"),
    )),
    Mutant(717, "owners at equal distances crowd in one place", (
        ("engine/owners.c", "    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);\n    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);\n", ""),
    )),
    Mutant(720, "a release that there was no memory for is forgotten", (
        ("engine/drop.c", "    m->handover.linger_until = now + AGAIN;\n", "    m->handover.linger_until = now - now;\n"),
    )),
    Mutant(721, "a lock that there was no memory to release is dropped, but its state stays", (
        ("engine/mutex.c", "    m->overdue = 0;\n", ""),
    )),
    Mutant(722, "a loss needs the table of owners", (
        ("engine/owners.c", "        if (m->claims > FEW && dli_active_own(m))\n", "        if (m->claims > FEW)\n"),
    )),
)  # fmt: skip
# Found by the CPU time of many waiters.
WALKS = Mutant(718, "many waiters are walked", edits=(
    ("engine/owners.c", "        if (m->claims > FEW && dli_active_own(m))\n", "        if (m->claims < 0)\n"),
))  # fmt: skip

ALL_HEAR = Mutant(730, "a message about a subscription concerns all holds of the name", edits=(
    ("client/subscription.c", "entry->waitlist && !entry->kind->own_channel)\n        each_follower(", "!entry->waitlist && !entry->kind->own_channel)\n        each_follower("),
))  # fmt: skip

# Found by test_foreign.py.
POLLERS = (
    (Mutant(1462, "clients that poll are not counted", edits=(
        ("redis/scripts/shared/common.lua", "  return polls > 0 and polls + math.max(heard, 0) or heard\n", "  return heard\n"),
    )), "wire/test_foreign.py", "clients_that_poll and 2"),
)  # fmt: skip

# Found by test_faults_server.py.
FULL = (
    (Mutant(1463, "who stands in line gives up on a full server", edits=(
        ("engine/exchange.c", "(status == DLOCK_SERVER_OUT_OF_MEMORY && m->active->line_seq > 0)", "(status == DLOCK_SERVER_OUT_OF_MEMORY && m->active->line_seq < 0)"),
    )), "faults/test_faults_server.py", "d06"),
)  # fmt: skip

# Found by test_quorum.py.
SETS = (
    (Mutant(1460, "any servers are members of a quorum with this name", edits=(
        ("redis/scripts/mutex/join.lua", "    if alive > others then return id end\n", "    if alive > 99 then return id end\n"),
    )), "servers/test_quorum.py", "one_name_of_two_sets"),
    (Mutant(1461, "members are told only those that were known at the first query", edits=(
        ("redis/quorum/membership.c", "    return membership->told == __atomic_load_n(&membership->lane->quorum->known, __ATOMIC_ACQUIRE);\n", "    return membership->index >= 0;\n"),
    )), "servers/test_quorum.py", "one_name_of_two_sets"),
)  # fmt: skip

# Found by test_voters.py.
VOTERS = (
    (Mutant(1467, "a server of a quorum may have any clock", edits=(
        ("redis/codec/replies.c", "        !number_at(reply, 3, 0, NUMBER_MOST, &join->clock) ||", "        !integer_at(reply, 3, &join->clock) ||"),
    )), "faults/test_voters.py", "clock"),
)  # fmt: skip

# Found by test_named_by_secrets.py.
NAMED = (
    (Mutant(1469, "the view of a quorum is shown as the server sent it", edits=(
        ("redis/quorum/membership.c", "                 text, join->shown);\n", "                 text, join->stands);\n"),
    )), "faults/test_named_by_secrets.py", "quorum"),
    (Mutant(1470, "a cluster may name a server by the password", edits=(
        ("redis/cluster/node.c", "    dli_target_hide(cluster, &node->config.target);\n", ""),
    )), "faults/test_named_by_secrets.py", "map"),
    (Mutant(1471, "a cluster may name a replica by the password", edits=(
        ("redis/cluster/check.c", "    dli_target_hide(survey->cluster, &target);\n", ""),
    )), "faults/test_named_by_secrets.py", "replicas"),
    (Mutant(1472, "a sentinel may name the primary by the password", edits=(
        ("redis/link/sentinel.c", "    named = shown_host(masked, sizeof masked, conn);\n", "    named = found->host + 0 * (shown_host(masked, sizeof masked, conn) != NULL);\n"),
    )), "faults/test_named_by_secrets.py", "sentinels"),
    (Mutant(1473, "the name in a certificate's failure may be the password", edits=(
        ("net/tls_reason.c", "        name = \"***\"; /* a server has named it by a secret */\n", "        name += 0;\n"),
    )), "faults/test_named_by_secrets.py", "certificate"),
    (Mutant(1474, "a finding about a ZooKeeper member is shown as it is", edits=(
        ("zookeeper/check.c", "&dli_zk_at(check->job->base.lane)->password, 1);", "NULL, 0);"),
    )), "faults/test_named_by_secrets.py", "zookeeper"),
)  # fmt: skip

# Found by test_confirmations.py.
CONFIRMED = (
    (Mutant(1475, "a subscription may begin and end as the server likes", edits=(
        ("redis/pubsub/subscriber.c", "    int owed = sharded;\n", "    int owed = 1;\n"),
    )), "faults/test_confirmations.py", "quorum and redisson"),
    (Mutant(1476, "the own channel may be confirmed again and again", edits=(
        ("redis/pubsub/subscriber.c", "own ? sub->unheard == 0 :", "own ? 0 :"),
    )), "faults/test_confirmations.py", "quorum and dlock_client"),
    (Mutant(1477, "a node ends the subscriptions of other nodes", edits=(
        ("redis/cluster/subscriptions.c", "    if (row && row->node != node->index && row->node != DLI_NOBODY)\n", "    if (row && row->node == DLI_NOBODY)\n"),
    )), "faults/test_confirmations.py", "cluster"),
)  # fmt: skip

# Found by test_faults_peer.py.
PEER = (
    (Mutant(1447, "each connection may hold as much as it likes", edits=(
        ("redis/link/call.c", "    dli_reader_share(conn->reader, conn->config->replies);\n", ""),
    )), "faults/test_faults_peer.py", "answers_on_all_connections"),
)  # fmt: skip

# Found by test_parked.py, of many waiters that end at a time.
PARKED = (
    (Mutant(1410, "a visit of a waiter visits the next one from within", edits=(
        ("client/waitlist.c", "due |= dli_entry_visit_only(some[i], NULL);", "dli_entry_visit(some[i], NULL);"),
    )), "api/test_parked.py", "test_no_memory"),
    (Mutant(1411, "a waiter asks at once behind one that has gone", edits=(
        ("client/waitlist.c", "REST = DLI_MS", "REST = -DLI_MS"),
    )), "api/test_parked.py", "test_all_waits_end and cancel"),
    (Mutant(1412, "each waiter meets the closed gate by itself", edits=(
        ("client/waitlist.c", "entry->due |= DLI_DUE_GATE;", "entry->due |= 0;"),
    )), "api/test_parked.py", "test_all_waits_end and gate"),
    (Mutant(1590, "each call of a crowd sends the text of the script", edits=(
        ("redis/pipe/unknown.c", "at >= 0 && !call->refused", "0"),
    )), "api/test_parked.py", "test_a_crowd_sends"),
    (Mutant(1591, "all calls that wait are in flight at once", edits=(
        ("redis/pipe/pipe_io.c", "DLI_PIPE_FLYING, now", "SIZE_MAX, now"),
    )), "api/test_parked.py", "test_a_slow_server"),
    (Mutant(1417, "the last waiter leaves its process in line", edits=(
        ("client/pass.c", "        group->stays = number;\n", "        group->stays = 0 * number;\n"),
    )), "kinds/test_waitlist.py", "test_all_go and cancelled"),
)  # fmt: skip

# Found by test_gate.py.
FORGOTTEN = Mutant(1518, "a closed gate makes a number forgotten whose request may still come", edits=(
    ("engine/exchange.c", "        if (m->want.doubt) /* an earlier request for it may still arrive */\n", "        if (m->want.doubt && now < 0)\n"),
))  # fmt: skip

# Found by test_interrupted.py, of claims whose callers were interrupted.
INTERRUPTED = (
    (Mutant(1413, "who was interrupted comes back to its first free place", edits=(
        ("client/hold.c", "__atomic_load_n(&parent->interrupted, __ATOMIC_ACQUIRE) > 0 &&", "__atomic_load_n(&parent->interrupted, __ATOMIC_ACQUIRE) < 0 &&"),
    )), "api/test_interrupted.py", "another_place"),
    (Mutant(1414, "a claim of other permits is taken over", edits=(
        ("client/hold.c", "entry->m.rules->permits == permits;", "permits > 0;"),
    )), "api/test_interrupted.py", "comes_back_for_more"),
    (Mutant(1415, "a grant of a caller that never comes back stays", edits=(
        ("client/submit.c", "    else if (waiter->claim.state == DLI_CLAIM_HELD && waiter->interrupted)\n", "    else if (waiter->claim.state == DLI_CLAIM_HELD && waiter->interrupted && now < 0)\n"),
    )), "api/test_interrupted.py", "never_comes_back and mutex"),
    (Mutant(1416, "the wait of a caller that never comes back goes on", edits=(
        ("client/submit.c", "    if (waiter->claim.until == DLI_NEVER)\n", "    if (waiter->claim.until)\n"),
    )), "api/test_interrupted.py", "never_comes_back and mutex"),
    (Mutant(1519, "a release whose hold another one has taken fails", edits=(
        ("client/hold.c", "    if (status != DLOCK_NOT_HELD || !kind->slots ||", "    if (status != DLOCK_NOT_HELD || kind->slots ||"),
    )), "kinds/test_kinds.py", "release_at_the_same_time"),
    (Mutant(1540, "an acquisition whose grant another thread has released is lost", edits=(
        ("client/acquire.c", "waiter->entry->kind->slots && is_released(waiter) && waiter->claim.token > 0;", "waiter->entry->kind->slots && is_released(waiter) && waiter->claim.token < 0;"),
    )), "kinds/test_kinds.py", "threads_ask"),
    (Mutant(1541, "a cancel tries one wait", edits=(
        ("api/lock.c", "while (status == DLOCK_NOT_HELD && lock->terms->kind->slots);", "while (status == DLOCK_LOST && lock->terms->kind->slots);"),
    )), "kinds/test_kinds.py", "cancel_finds"),
    (Mutant(1542, "an extension of a hold that was released meanwhile fails", edits=(
        ("client/operation_kinds.c", "    int again = dli_hold_again(&operation->hold, operation->owner, operation->status);\n", "    int again = 0;\n"),
    )), "kinds/test_kinds.py", "threads_ask"),
)  # fmt: skip

# Found by test_reclaim.py, of keys that the server lost.
LOST_KEYS = (
    (Mutant(1440, "an ended permit goes to the name that finds it", edits=(
        ("redis/scripts/permit/permit_pool.lua", "  return braces ~= nil and braces ~= in_braces\n", "  return false\n"),
    )), "kinds/test_reclaim.py", "two_names"),
    (Mutant(1441, "a lost count is not made again", edits=(
        ("redis/scripts/semaphore/sem_total.lua", "  local all = out > 0 and total()\n", "  local all = false\n"),
    )), "kinds/test_reclaim.py", "survive and seats-"),
    (Mutant(1442, "missing permits are reclaimed while their holders believe in them", edits=(
        ("redis/scripts/permit/permit_change.lua", "note(gap) + longest + number > millis()", "note(gap) + 0 * longest + number > millis()"),
    )), "kinds/test_reclaim.py", "survive and leases"),
    (Mutant(1443, "permits whose leases were lost do not come back", edits=(
        ("redis/scripts/permit/permit_pool.lua", "  return all and all - left - own(out) or 0\n", "  return 0\n"),
    )), "kinds/test_reclaim.py", "survive and leases"),
    (Mutant(1444, "a release looks at one of two keys", edits=(
        ("redis/scripts/semaphore/semaphore_release.lua", "gone + call('ZREM', holders, mine)", "gone + 0 * call('ZREM', holders, mine)"),
    )), "kinds/test_reclaim.py", "survive and taken"),
    (Mutant(1445, "a holder whose record was lost is taken for dead", edits=(
        ("redis/scripts/semaphore/semaphore_renew.lua", " or taken_by(holders, owner)", ""),
    )), "kinds/test_reclaim.py", "survive and holders"),
)  # fmt: skip

OUT_OF_TURN = (
    ("redis/scripts/shared/turns.lua", "  local some, late, soon = call('ZRANGE', turns, 0, DEAF), {}, nil\n", "  local some, late, soon = {}, {}, nil\n"),
)

# Found by test_pass.py, of turns in memory between the holds of a name.
PASSED = (
    Mutant(641, "a writer's lock goes on although it reads under it", edits=(
        ("client/pass.c", " && entry->shared != entry->m.want.number", ""),
    )),
    Mutant(642, "a turn begins before the minimum of the hold before is over", edits=(
        ("engine/handover.c", "now >= dli_mutex_rests_until(holder) &&", "now >= 0 &&"),
    )),
    Mutant(643, "an older block of tokens serves turns", edits=(
        ("engine/handover.c", "tokens->next < tokens->end && tokens->end > spare->end", "tokens->next < tokens->end && !spare->end"),
    )),
    Mutant(644, "a process whose turn has ended takes the next one", edits=OUT_OF_TURN),
)  # fmt: skip

# Found by test_processes.py, of the line of processes whose waiters are called.
CALLED = (
    Mutant(651, "whoever asks first gets the lock", edits=OUT_OF_TURN),
    Mutant(652, "with the first waiter its process leaves the line", edits=(
        ("client/pass.c", "    exchange->stays = ", "    exchange->stays = 0 && "),
    )),
    Mutant(653, "a process that does not come keeps its turn", edits=(
        ("redis/scripts/shared/turns.lua", "local GRACE, DEAF, PROMISE = 25,", "local GRACE, DEAF, PROMISE = 60000,"),
    )),
    Mutant(654, "a process that cannot be told is called", edits=(
        ("redis/scripts/shared/turns.lua", "  return call('PUBSUB', 'NUMSUB', ear(process))[2] > 0\n", "  return true\n"),
    )),
)  # fmt: skip

# Found by test_fair_turns.py, of turns of a fair lock in memory.
LINED = (
    Mutant(645, "any waiter of the process gets the next turn", edits=(
        ("client/pass.c", "entry->kind->own_channel ? named_heir", "entry->kind->own_channel < 0 ? named_heir"),
    )),
    Mutant(646, "a release does not name those that were served", edits=(
        ("client/pass.c", "    exchange->served.count = turns->served;\n", "    exchange->served.count = 0;\n"),
    )),
    Mutant(647, "a grant for one that was served stays", edits=(
        ("client/line.c", "    if (!entry) {\n        give_back(client, target, now);\n", "    if (!entry) {\n        if (now < 0)\n            give_back(client, target, now);\n"),
    )),
)

# Found by test_gate.py, of waiters that are sent away.
GATED = (
    Mutant(648, "a client sends away the first of a long line only", edits=(
        ("client/operation_kinds.c", "    dli_entry_unlock(entry);\n    return operation->request->gate_rest[0] != '\\0';\n", "    dli_entry_unlock(entry);\n    return 0;\n"),
    )),
)

# Found by test_memory.py, of what is kept for each held lock.
KEPT = (
    Mutant(631, "the text of an exchange is kept although it did not fail", edits=(
        ("client/exchange.c", "status == DLOCK_OK || ", ""),
    )),
    Mutant(632, "a request outlives its exchange", edits=(
        ("client/exchange.c", "        dli_waitlist_answered(entry, answer, now);\n    drop_request(entry);\n", "        dli_waitlist_answered(entry, answer, now);\n"),
    )),
)  # fmt: skip

# Found by test_etcd_mutants.py: a test of python-tests/etcd for each.
ETCD = (
    (Mutant(1464, "a release that rests needs space", edits=(
        ("etcd/drop.c", "status != DLOCK_SERVER_OUT_OF_MEMORY || job", "status == DLOCK_SERVER_OUT_OF_MEMORY || job"),
    )), "test_etcd_faults.py", "a_release_needs_no_space and mutex"),
    (Mutant(1449, "a read on etcd may fail", edits=(
        ("etcd/codec/reply.c", "    if (!reply->succeeded && !has_condition(request_of(talk)))\n", "    if (has_condition(request_of(talk)) < 0)\n"),
    )), "test_etcd_border.py", "failure_without_a_condition"),
    (Mutant(913, "a child of a fork uses the session of its parent", edits=IN_THE_CHILD), "test_etcd_faults.py", "l10_a_child"),
    (Mutant(801, "a late put is not made harmless", edits=(
        ("etcd/drop.c", "    if (job->request.exchange.wish.doubt) {\n        drop_in_doubt", "    if (job->tries < 0) {\n        drop_in_doubt"),
    )), "test_etcd_faults.py", "l02_a_put"),
    (Mutant(802, "who wakes has the lock, whoever is before", edits=(
        ("etcd/exchange.c", "} else if (before->keys == 0) {", "} else if (before->keys >= 0) {"),
    )), "test_etcd_kinds.py", "middle"),
    (Mutant(803, "a hold counts from now, not from the last keep-alive", edits=(
        ("etcd/session.c", "return session->since + session->ttl - lease;", "return session->since + 2 * session->ttl - lease;"),
        ("engine/exchange.c", "if (since && since < stamp)", "if (since && since > stamp)"),
        ("watchdog/renew.c", "return since && since < batch->stamp ? since : batch->stamp;", "return since ? since : batch->stamp;"),
    )), "test_etcd_faults.py", "l03"),
    (Mutant(805, "nobody notices that the holder's key was deleted", edits=(
        ("etcd/renew.c", "    if (hold && hold->gone)\n", "    if (hold && hold->gone && 0)\n"),
        ("etcd/renew.c", "own->keys == 0 ? 0 : session", "session"),
    )), "test_etcd_faults.py", "l04"),
    (Mutant(1420, "the revision of a key that has moved tells its lease", edits=(
        ("etcd/renew.c", "|| !is_of(row, session, hold) ? UNSURE : 1);", "? UNSURE : is_of(row, session, NULL));"),
    )), "test_etcd_leases.py", "extended_to_another"),
    (Mutant(1421, "after an outage each lock is written", edits=(
        ("etcd/renew.c", "job->request.renew.count == 1 ? MOVES : UNSURE", "job->request.renew.count > 0 ? MOVES : UNSURE"),
    )), "test_etcd_leases.py", "write_nothing"),
    (Mutant(1422, "what raft drops is an error", edits=(
        ("etcd/grpc/status.c", 'return dli_grpc_dropped(call) || dli_grpc_says', 'return dli_grpc_dropped(call) && dli_grpc_says'),
    )), "test_etcd_hostile.py", "may_pass"),
    (Mutant(1600, "a multi-lock takes marks that have moved for keys of its own", edits=(
        ("etcd/admin.c", "    else if (all)\n", "    else if (all || which < 0)\n"),
    )), "test_etcd_kinds.py", "have_moved"),
    (Mutant(1601, "the lease of a multi-lock's keys is guessed from their age", edits=(
        ("etcd/admin.c", "session && session->id == lease ?", "session && lease && created > session->born ?"),
    )), "test_etcd_kinds.py", "ended_session"),
    (Mutant(1423, "a watch that is refused is not missed", edits=(
        ("etcd/watch.c", "        etcd->watches_old = 1;", "        etcd->watches_old = 0;"),
    )), "test_etcd_leases.py", "token_has_expired"),
    (Mutant(1424, "a keep-alive counts without a proof", edits=(
        ("etcd/keepalive.c", "    prove(session);\n}\n\n/* The stream", "    session->proving = 1;\n    judge(&session->heard_term, &session->link);\n}\n\n/* The stream"),
    )), "test_etcd_leases.py", "earlier_term"),
    (Mutant(806, "a try puts its key beside others", edits=(
        ("etcd/exchange.c", "        dli_etcd_test(&txn, DLI_ETCD_CREATED, rivals.key, 0);\n        txn.test[2].end = rivals.end;\n", ""),
    )), "test_etcd_peer.py", "keeps_us_out"),
    (Mutant(807, "readers wait for nobody", edits=(
        ("etcd/keys.c", '"write-", ""));', '"read-", ""));'),
    )), "test_etcd_kinds.py", "readers"),
    (Mutant(808, "a claim of permits forgets those before it", edits=(
        ("etcd/permit.c", "    } else if (missing <= 0) {", "    } else if (missing <= sums.before) {"),
    )), "test_etcd_permits.py", "exceeded"),
    (Mutant(809, "a try of permits overlooks what has changed since it read", edits=(
        ("etcd/permit.c", "    if (seen)\n        test_seen(&txn, &names, seen);\n", "    (void)test_seen, (void)seen;\n"),
        ("etcd/permit.c", "        decide(job, &reply, PUT_CLAIMS, PUT_TOTAL);", "        dli_etcd_granted(job, 0);"),
    )), "test_etcd_permits.py", "exceeded"),
    (Mutant(810, "a put overlooks the gate", edits=(
        ("etcd/exchange.c", "    dli_etcd_test(&txn, DLI_ETCD_CREATED, gate, 0);\n    dli_etcd_then", "    dli_etcd_then"),
    )), "test_etcd_permits.py", "time_is_over"),
    (Mutant(811, "a released lock does not rest", edits=(
        ("etcd/exchange.c", "job->request.exchange.wish.rest > 0)", "job->request.exchange.wish.rest < 0)"),
    )), "test_etcd_permits.py", "rests or keeps_others_out"),
    (Mutant(812, "a delay is no part of the server's lease", edits=(
        ("etcd/exchange.c", "    if (dli_etcd_enter(job, job->request.exchange.wish.lease + job->request.exchange.delay, put_now))", "    if (dli_etcd_enter(job, job->request.exchange.wish.lease, put_now))"),
    )), "test_etcd_permits.py", "keeps_others_out"),
    (Mutant(960, "a commit compares no key", edits=(
        ("etcd/commit.c", "    for (size_t i = 0; i < round->seen_count; i++)\n        test[count++] =", "    for (size_t i = 0; i < 0 * round->seen_count; i++)\n        test[count++] ="),
    )), "test_etcd_transactions.py", "is_a_conflict"),
    (Mutant(961, "a key that was not there is not compared", edits=(
        ("etcd/commit.c", "    for (size_t i = 0; i < round->seen_count; i++)\n        test[count++] =", "    for (size_t i = 0; i < round->seen_count; i++)\n        test[round->seen[i].modified ? count++ : count] ="),
    )), "test_etcd_transactions.py", "is_a_conflict"),
    (Mutant(962, "a key is compared by its creation", edits=(
        ("etcd/commit.c", "{.target = DLI_ETCD_MODIFIED,\n                                               .key", "{.target = DLI_ETCD_CREATED,\n                                               .key"),
    )), "test_etcd_transactions.py", "is_a_conflict"),
    (Mutant(963, "a commit does not compare its marker", edits=(
        ("etcd/commit.c", "    if (round->marker)\n        test[count++] =", "    if (0)\n        test[count++] ="),
    )), "test_etcd_transactions.py", "l20"),
    (Mutant(964, "after a lost answer the commit is sent again, and nobody asks", edits=(
        ("etcd/commit.c", "        find_out(job, round->loose ? &asking : &looking);", "        dli_etcd_plan(job);"),
    )), "test_etcd_transactions.py", "others_write"),
    (Mutant(965, "the question changes nothing", edits=(
        ("etcd/commit.c", "    step = dli_etcd_then(&txn, DLI_ETCD_PUT, txn.test[0].key);", "    step = dli_etcd_then(&txn, DLI_ETCD_RANGE, txn.test[0].key);"),
    )), "test_etcd_transactions.py", "l20"),
    (Mutant(966, "of two writes of a key the first one wins", edits=(
        ("etcd/fold.c", "    effect->deletes = write->kind == DLI_TXN_DELETE;\n", "    if (!fresh)\n        return 0;\n    effect->deletes = write->kind == DLI_TXN_DELETE;\n"),
    )), "test_etcd_transactions.py", "in_their_order"),
    (Mutant(967, "what something is added to is read once", edits=(
        ("etcd/commit.c", "    changed = torn ? -1 : dli_etcd_bases_take(round, reply, 1);", "    changed = torn ? -1 : 0;"),
    )), "test_etcd_transactions.py", "others_add"),
    (Mutant(968, "the lease of what was not written stays", edits=(
        ("etcd/commit.c", "    if (status != DLOCK_OK)\n        end_terms(round);", "    if (status < DLOCK_OK - 100000)\n        end_terms(round);"),
    )), "test_etcd_transactions.py", "given_back"),
    (Mutant(969, "a lost answer to a read ends the round", edits=(
        ("etcd/round.c", "    if (job->call.status != DLOCK_UNREACHABLE || !dli_etcd_round_again(job))\n        dli_etcd_round_over", "    if (job->call.status != DLOCK_OK || !dli_etcd_round_again(job))\n        dli_etcd_round_over"),
    )), "test_etcd_transactions.py", "l19"),
    (Mutant(970, "a new session's lease is asked for with an old token", edits=(
        ("etcd/session.c", "    if (dli_etcd_token_is_old(session->etcd, call) && session->tries++ < DLI_ETCD_TRIES) {", "    if (session->tries < 0) {"),
    )), "test_etcd_transactions.py", "test_users"),
    (Mutant(971, "what etcd refuses without space was not done", edits=(
        ("etcd/drop.c", "    if (!puts || job->failed", "    if (puts >= 0 || job->failed"),
        ("etcd/grpc/status.c", '        return !dli_grpc_says(call, "space");', "        return 1;"),
    )), "test_etcd_faults.py", "l23"),
    (Mutant(972, "a commit that etcd refuses without space was not done", edits=(
        ("etcd/grpc/status.c", '        return !dli_grpc_says(call, "space");', "        return 1;"),
    )), "test_etcd_hostile.py", "l23"),
    (Mutant(973, "a commit waits for a session that is over", edits=(
        ("etcd/prepare.c", "    if (job->session->over)\n        find_session(job);\n    else\n        dli_etcd_refresh", "    if (job->session->id == 0)\n        find_session(job);\n    else\n        dli_etcd_refresh"),
    )), "test_etcd_transactions.py", "lease_is_gone"),
    (Mutant(974, "a session that nghttp2 ended is kept", edits=(
        ("etcd/grpc/http2.c", "    if (frame->hd.type == NGHTTP2_GOAWAY) /* nghttp2 found", "    if (0) /* nghttp2 found"),
    )), "test_etcd_hostile.py", "broke_is_left"),
    (Mutant(975, "a change of the number of permits is made again where its id has gone", edits=(
        ("etcd/permit.c", "dli_change_ids(value) >= DLI", "dli_change_ids(value) > DLI"),
    )), "test_etcd_permits.py", "meanwhile"),
    (Mutant(907, "a claim that gets another lease loses its number of permits", edits=(
        ("etcd/renew.c", "    step->keep_value = 1;\n", ""),
    )), "test_etcd_permits.py", "extended_hold"),
    (Mutant(976, "a caller leaves its call to the client's thread", edits=(
        ("lanes/lanes.c", "return !__atomic_load_n(&lanes->under_way, __ATOMIC_RELAXED) && dli", "return __atomic_load_n(&lanes->under_way, __ATOMIC_RELAXED) > 1000 && dli"),
    )), "test_etcd_standin.py", "calls_without"),
    (Mutant(977, "nobody stands in while he waits for a grant", edits=(
        ("lanes/standin.c", "    return dli_seat_take(&lanes->standin.seat);\n", "    return lanes->shut && dli_seat_take(&lanes->standin.seat);\n"),
    )), "test_etcd_standin.py", "grant_without"),
    (Mutant(978, "the client's thread stays deaf behind a stand-in", edits=(
        ("lanes/standin.c", "return dli_relay_turn(standin->seat.relay, standin->fd, 1);", "return dli_relay_turn(standin->seat.relay, standin->fd, 0);"),
    )), "test_etcd_standin.py", "has_left"),
    (Mutant(979, "who stands in does nothing for others", edits=(
        ("lanes/standin.c", "*rouse = standin->manned && standin->dozing;", "*rouse = 0;"),
    )), "test_etcd_standin.py", "for_others"),
    (Mutant(980, "who stands in sleeps beyond the alarm", edits=(
        ("lanes/standin.c", "alarm < deadline ? alarm : deadline);", "deadline);"),
    )), "test_etcd_standin.py", "late_without"),
    (Mutant(981, "a ping is not answered", edits=(
        ("etcd/grpc/http2.c", "    grpc->pinged = dli_now();", "    grpc->pinged = 0;"),
    )), "test_etcd_hostile.py", "ping"),
    (Mutant(982, "every acquisition has a key of its own", edits=(
        ("etcd/keys.c", "    if (!slot->id || etcd->spares == SPARES) {", "    if (etcd->spares <= SPARES) {"),
    )), "test_etcd_kinds.py", "few_keys"),
    (Mutant(983, "an acquisition that was not sent keeps its owner id", edits=(
        ("etcd/job.c", "    if (!request->sent || request->refused)\n        dli_etcd_each", "    if (request->sent && request->refused)\n        dli_etcd_each"),
    )), "test_etcd_kinds.py", "few_keys"),
    (Mutant(984, "no tie is taken over", edits=(
        ("etcd/tie.c", "        if (!is_of(tie, key))", "        if (tie->size != key.size + 1000)"),
    )), "test_etcd_kinds.py", "watches_go_on"),
    (Mutant(990, "what happened before a tie began is not looked for", edits=(
        ("etcd/watch.c", "it->revision >= waiter->from;", "it->revision < 0;"),
    )), "test_etcd_kinds.py", "before_the_watch"),
    (Mutant(991, "a key that was deleted before its watch began is not missed", edits=(
        ("etcd/watch.c", "        waiter->unsure = waiter->held;\n        hint(etcd, waiter);", "        waiter->unsure = 0;\n        hint(etcd, waiter);"),
    )), "test_etcd_faults.py", "l04"),
    (Mutant(1418, "a key of another lock is believed", edits=(
        ("etcd/codec/reply.c", "|| !is_of(step, found.key)", "|| (is_of(step, found.key) && step->kind == 9)"),
    )), "test_etcd_border.py", "lies"),
    (Mutant(1419, "a result of another kind is believed", edits=(
        ("etcd/codec/reply.c", "kind != step->kind)\n        return -1;\n    if (kind == DLI_ETCD_RANGE)", "kind == 9)\n        return -1;\n    if (kind == DLI_ETCD_RANGE)"),
    )), "test_etcd_border.py", "lies"),
)  # fmt: skip

# Found by test_worlds.py: the whole library over a model of etcd.
WORLDS = (
    Mutant(850, "a late put is not made harmless", world="etcd", edits=(
        ("etcd/drop.c", "    if (job->request.exchange.wish.doubt) {\n        drop_in_doubt", "    if (job->tries < 0) {\n        drop_in_doubt"),
    )),
    Mutant(851, "a claim is granted although others are before it", world="etcd", edits=(
        ("etcd/exchange.c", "} else if (before->keys == 0) {", "} else if (before->keys >= 0) {"),
    )),
    Mutant(852, "a hold counts from the watch's event", world="etcd", edits=(
        ("etcd/session.c", "return session->since + session->ttl - lease;", "return dli_now() + 0 * session->since * lease;"),
        ("engine/exchange.c", "if (since && since < stamp)", "if (since && since > stamp)"),
    )),
    Mutant(853, "a lock is lost by the server's word only", world="etcd", edits=(
        ("engine/renewal.c", "if (dli_mutex_owned(m) && now >= m->grant.limit)", "if (dli_mutex_owned(m) && now >= DLI_NEVER)"),
        ("engine/renewal.c", "at = dli_earlier(m->grant.limit, max_hold_at(m));", "at = max_hold_at(m);"),
    )),
    Mutant(854, "a release deletes whatever is first in the line", world="etcd", edits=(
        ("etcd/drop.c", "dli_etcd_encode_delete(&job->call.out, key)", "dli_etcd_encode_delete(&job->call.out, dli_etcd_prefix(job->request.place))"),
        ("etcd/codec/messages.c", "    request.key = dli_etcd_data(key);\n    return dli_etcd_pack(out, &request.base);",
         "    static char end[2048];\n    __builtin_memcpy(end, key.bytes, key.size);\n    end[key.size - 1]++;\n    request.key = dli_etcd_data(key);\n"
         "    request.range_end = dli_etcd_data((struct dli_etcd_bytes){end, key.size});\n    return dli_etcd_pack(out, &request.base);"),
    )),
    Mutant(855, "a grant is given without a read of its own key", world="etcd", edits=(
        ("etcd/exchange.c", "    } else if (own->keys == 0) { /* it vanished: stand in line anew */", "    } else if (own->keys < 0) { /* it vanished: stand in line anew */"),
        ("etcd/exchange.c", "    } else if (dli_etcd_lives(job, &own->found[0])) {\n        job->created = own->found[0].created;\n        if (job", "    } else if (own->keys == 0 || dli_etcd_lives(job, &own->found[0])) {\n        job->created = own->keys ? own->found[0].created : created;\n        if (job"),
    )),
    Mutant(856, "the key of an old session is deleted, whatever it is by now", world="etcd", first=4101, semaphores=True, edits=(
        ("etcd/exchange.c", "    dli_etcd_test(&txn, DLI_ETCD_CREATED, own_key(job, key), created);\n    dli_etcd_then(&txn, DLI_ETCD_DELETE, txn.test[0].key);",
         "    (void)created;\n    dli_etcd_then(&txn, DLI_ETCD_DELETE, own_key(job, key));"),
    )),
    Mutant(857, "an owner id is used again although a request about it may come late", world="etcd", edits=(
        ("etcd/keys.c", "    if (slot->asked)\n        slot->id = 0;\n", ""),
    )),
    # The same over a model of ZooKeeper.
    Mutant(880, "an undo deletes the first node, whoever's it is", world="zookeeper", edits=(
        ("zookeeper/drop.c", "if (dli_zk_is_owners(all->child[i].name, job->request.exchange.drop))", "if (all->child[i].name.size)"),
    )),
    Mutant(881, "a grant is given without a look at its own node", world="zookeeper", edits=(
        ("zookeeper/exchange.c", "    if (!own) {\n", "    if (!own && before) {\n"),
    )),
    Mutant(882, "a hold counts from the watch's event", world="zookeeper", edits=(
        ("zookeeper/heartbeat.c", "return session->since + session->timeout - lease;", "return dli_now() + 0 * session->since * lease;"),
        ("engine/exchange.c", "if (since && since < stamp)", "if (since && since > stamp)"),
    )),
    Mutant(883, "another node is made without a look for the first one", world="zookeeper", edits=(
        ("zookeeper/exchange.c", "else if (entry->state == DLI_ZK_SENT)\n        dli_zk_search(job);", "else if (entry->state == DLI_ZK_SENT)\n        (job->tries < 0 ? dli_zk_search : dli_zk_create)(job);"),
    )),
    Mutant(884, "a lock is lost by the server's word only", world="zookeeper", edits=(
        ("engine/renewal.c", "if (dli_mutex_owned(m) && now >= m->grant.limit)", "if (dli_mutex_owned(m) && now >= DLI_NEVER)"),
        ("engine/renewal.c", "at = dli_earlier(m->grant.limit, max_hold_at(m));", "at = max_hold_at(m);"),
    )),
    Mutant(885, "the first node of an owner is all there is of it", world="zookeeper", first=2201, edits=(
        ("zookeeper/search.c", "for (int i = all->count - 1; i >= 0 && !found; i--) {", "for (int i = 0; i < all->count && !found; i++) {"),
        ("zookeeper/search.c", "    dli_zk_again(job, dli_zk_search);\n}", "    dli_zk_again(job, job->value < 0 ? dli_zk_search : dli_zk_create);\n}"),
    )),
    Mutant(886, "a release is given up when the lease is over, though the session lives", first=3701, world="zookeeper", edits=(
        ("zookeeper/open.c", "DLI_CAN_GATE | DLI_CAN_KEEP,", "DLI_CAN_GATE,"),
    )),
    Mutant(887, "a session counts from a heartbeat that only the member has heard of", world="zookeeper", first=7001, edits=(
        ("zookeeper/heartbeat.c", "stamp - session->timeout / NEAR &&", "stamp &&"),
        ("zookeeper/heartbeat.c", "    session->ask_at = call->sent_at + session->timeout / BEATS;\n    confirm(session, call->sent_at);",
         "    session->ask_at = call->sent_at + session->timeout / BEATS;\n    confirm(session, call->sent_at);\n    session->since = call->sent_at;"),
    )),
    Mutant(888, "watches end with the connection, and nobody looks again", first=3301, world="zookeeper", edits=(
        ("zookeeper/session.c", "        dli_zk_entries_doubt(session);\n", "        ;\n"),
    )),
    Mutant(903, "permits outside of the line are kept", world="zookeeper", semaphores=True, edits=OUTSIDE),
    Mutant(904, "a hold of several permits watches the first one", world="zookeeper", semaphores=True, edits=FIRST_ONLY),
    Mutant(905, "permits are made anew without a look for the first ones", world="zookeeper", semaphores=True, edits=(
        ("zookeeper/permit.c", "else if (entry->permits == DLI_ZK_PERMITS_SENT)\n        dli_zk_ask(job, ask, 2, searched);",
         "else if (entry->permits == DLI_ZK_PERMITS_SENT)\n        (job->tries < 0 ? (void)dli_zk_ask(job, ask, 2, searched) : create(job));"),
    )),
    Mutant(1592, "a permit of an older session is taken for its own", first=100_328, world="zookeeper", semaphores=True, edits=(
        ("zookeeper/permit.c", "        first = last - child->seq < permits_of(job) ? child->seq : first;", "        first = child->seq;"),
        ("zookeeper/permit.c", "} else if (dli_zk_got(job, 0)->stat.owner != job->session->ticket.id) {", "} else if (job->tries < 0) {"),
        ("zookeeper/permit.c", "    return child->seq >= first && child->seq - first < permits_of(job) &&\n", "    return child->seq >= first - first &&\n"),
    )),
    Mutant(906, "one permit more than there are", world="zookeeper", semaphores=True, edits=(
        ("zookeeper/permit.c", "} else if (all <= total) {", "} else if (all <= total + 1) {"),
    )),
    Mutant(908, "claims with permits before its own do not count", world="etcd", semaphores=True, edits=(
        ("etcd/permit.c", "        sums->before = dli_plus(sums->before, permits);", "        sums->before = dli_plus(sums->before, 1);"),
    )),
    Mutant(909, "a claim that does not wait is put whatever came meanwhile", world="etcd", semaphores=True, edits=(
        ("etcd/permit.c", "    if (seen)\n        test_seen(", "    if (seen && seen->revision < 0)\n        test_seen("),
    )),
    Mutant(910, "the last permit is given twice", world="memory", semaphores=True, edits=(
        ("memory/counters.c", "} else if (cell->count < permits) {", "} else if (cell->count + 1 < permits) {"),
    )),
    Mutant(911, "permits of living holders are reclaimed", world="memory", semaphores=True, edits=(
        ("memory/counters.c", "if (hold->silent >= all->since)", "if (hold->silent + 0 * all->since < 0)"),
    )),
    Mutant(912, "permits of dead holders are not reclaimed", world="memory", semaphores=True, edits=(
        ("memory/counters.c", "if (hold->silent >= all->since)", "if (hold->silent + 0 * all->since >= 0)"),
    )),
    Mutant(920, "a change of a latch is made again whatever it is that was written", world="etcd", latches=True, edits=(
        ("etcd/latch.c", "dli_change_acted(&job->request.change, value) ||", "(modified < 0 && dli_change_acted(&job->request.change, value)) ||"),
    )),
    Mutant(921, "a change of a latch is made again where its id has gone", world="etcd", latches=True, edits=(
        ("etcd/number.c", "value, modified && modified", "value, 1 || modified"),
    )),
    Mutant(922, "a change of a latch is written whatever came meanwhile", world="etcd", latches=True, edits=(
        ("etcd/number.c", "    step = dli_etcd_then(&txn, how->stays", "    txn.tests = 0;\n    step = dli_etcd_then(&txn, how->stays"),
    )),
    Mutant(923, "watches end with their stream, and those who wait for a latch do not look again", world="etcd", latches=True, edits=(
        ("etcd/watch.c", "    if (!waiter->held)\n        hint(etcd, waiter);", "    if (!waiter->held && waiter->node.number > 0)\n        hint(etcd, waiter);"),
        ("etcd/gate.c", "        etcd->store.hooks->up(etcd->store.owner);\n", "        ;\n"),
    )),
    Mutant(924, "what happened to a latch before its watch began is not looked for", world="etcd", latches=True, edits=(
        ("etcd/watch.c", "it->revision >= waiter->from;", "it->revision < 0;"),
    )),
    Mutant(925, "a latch that was set again is taken for the one before it", world="zookeeper", latches=True, edits=(
        ("zookeeper/latch.c", "    if (version == DLI_ZK_NO_VERSION)\n        word(job->request.change.id, witness);", "    if (version == DLI_ZK_NO_VERSION)\n        word(\"same\", witness);"),
    )),
    Mutant(926, "a wait is answered by an old member", world="zookeeper", latches=True, edits=(
        ("zookeeper/latch.c", "ask[ASKS] = {{.op = DLI_ZK_SYNC},", "ask[ASKS] = {{.op = DLI_ZK_GET_DATA},"),
    )),
    Mutant(927, "a change of a latch is made again where its id has gone", world="zookeeper", latches=True, edits=(
        ("zookeeper/latch.c", "dli_change_unclear(&job->request.change, value, 0)", "dli_change_unclear(&job->request.change, value, 1)"),
    )),
    Mutant(928, "a change of a latch is made again whatever it is that was written", world="zookeeper", latches=True, edits=(
        ("zookeeper/latch.c", "(version != DLI_ZK_NO_VERSION && dli_change_acted(&job->request.change, value))", "(version > 9999 && dli_change_acted(&job->request.change, value))"),
    )),
    Mutant(929, "watches end with the connection, and nobody looks again who waits for a latch", world="zookeeper", latches=True, edits=(
        ("zookeeper/watch.c", "    if (!entry->held)\n        hint(session->zk, entry);", "    if (!entry->held && entry->number > 0)\n        hint(session->zk, entry);"),
        ("zookeeper/session.c", "    }\n    dli_zk_gates_doubt(session->zk);", "    }"),
    )),
    Mutant(930, "a change of a latch wakes nobody", world="memory", latches=True, edits=(
        ("memory/counters.c", "    dli_memory_wake(world, cell);\n", ""),
    )),
    Mutant(931, "a latch that has opened cannot be set again", world="memory", latches=True, edits=(
        ("memory/counters.c", "    cell->there = cell->count > 0;\n", ""),
    )),
    Mutant(932, "a latch opens one too early", world="memory", latches=True, edits=(
        ("memory/counters.c", "int open = !cell->there || cell->count == 0;", "int open = !cell->there || cell->count <= 1;"),
    )),
    Mutant(933, "an answer ends the waits that came after its question", world="etcd", latches=True, edits=(
        ("engine/exchange.c", "dli_mutex_end_answered(m, DLOCK_OK, 0);", "dli_mutex_end_waiting(m, DLOCK_OK, 0);"),
    )),
    Mutant(934, "a try on a latch is answered by those who wait", world="memory", latches=True, edits=(
        ("engine/mutex.c", "} else if (!claim->patient && !m->rules->momentary && (m->holder", "} else if (!claim->patient && (m->holder"),
    )),
    Mutant(935, "a change of a latch without an answer has not acted, it says", first=221, world="etcd", latches=True, edits=(
        ("client/operation_kinds.c", "        operation->status = DLOCK_UNKNOWN_OUTCOME;\n    else if (", "        operation->status = DLOCK_UNREACHABLE;\n    else if ("),
    )),
    Mutant(936, "the watch of a latch stays when nobody waits any more", world="etcd", latches=True, edits=(
        ("etcd/latch.c", "    dli_etcd_forget(dli_etcd_at(job->base.lane), number_of(job->request.place));\n", ""),
    )),
    Mutant(937, "a place at a latch stays when nobody waits any more", world="memory", latches=True, edits=(
        ("api/lock.c", "rules->unheard = kind->momentary && !dli_store_can(core->store, DLI_CAN_WAKE);", "rules->unheard = kind->momentary;"),
    )),
    Mutant(938, "a change of a latch that fills the space has not acted, it says", world="etcd", latches=True, edits=(
        ("etcd/number.c", "    job->failed = refused;\n", "    (void)refused;\n"),
    )),
    Mutant(939, "a change that was refused for want of space is told to have acted", world="etcd", latches=True, edits=(
        ("etcd/number.c", "unclear ? DLOCK_UNKNOWN_OUTCOME : DLOCK_SERVER_OUT_OF_MEMORY", "unclear ? DLOCK_UNKNOWN_OUTCOME : DLOCK_OK"),
    )),
    Mutant(891, "a lease never ends", world="memory", edits=(
        ("memory/cells.c", "if (dli_memory_hold_at(link)->ends > rest->now)", "if (rest->now > INT64_MIN)"),
    )),
    Mutant(892, "a renewal gives half of a lease", world="memory", edits=(
        ("memory/renew.c", "int64_t ends = dli_memory_now(world) + lease;", "int64_t ends = dli_memory_now(world) + lease / 2;"),
    )),
    Mutant(893, "who is first in line gets a lock that is held", world="memory", edits=(
        ("memory/line.c", "return !kept_out(cell, kind) && !is_behind(cell, kind, owner);", "return !is_behind(cell, kind, owner);"),
    )),
    Mutant(894, "every renewal succeeds", world="memory", edits=(
        ("memory/renew.c", "row->kept = hold != NULL;", "row->kept = 1;"),
    )),
    Mutant(895, "a token comes twice", world="memory", edits=(
        ("memory/cells.c", "last = cell->token + 1;", "last = cell->token;"),
        ("memory/cells.c", "int64_t last = dli_wall() + world->offset, got = 1;", "int64_t last = 1 + 0 * world->offset, got = 1;"),
    )),
)  # fmt: skip

# Found by test_metrics_mutants.py: a test for each, which knows what happened.
METRICS = (
    (Mutant(896, "a refusal counts as a grant", edits=(
        ("client/waiter.c", "claim->result == DLOCK_OK ? DLI_WAIT_GRANTED", "claim->result >= DLOCK_OK ? DLI_WAIT_GRANTED"),
    )), "api/test_metrics.py", "waits_and_holds"),
    (Mutant(897, "a lost hold is measured again when it is released", edits=(
        ("client/pass.c", "if (*settled && status != DLOCK_LOST)", "if (*settled)"),
    )), "api/test_metrics.py", "lost_lock"),
    (Mutant(898, "a bucket does not contain those below it", edits=(
        ("metrics/text.c", "        count += seen->bucket[i];\n        dli_text_print(text, \"dlock_%s_bucket{%s%s", "        count = seen->bucket[i];\n        dli_text_print(text, \"dlock_%s_bucket{%s%s"),
    )), "api/test_metrics.py", "sums_and_buckets"),
    (Mutant(899, "a time is in a bucket above its own", edits=(
        ("metrics/text.c", "    0,  0,  0,  0,  0,  1,  2,  3,  4,  5,  6,  7,  8,  8,", "    0,  1,  2,  3,  4,  5,  6,  7,  8,  8,  8,  8,  8,  8,"),
    )), "api/test_metrics.py", "sums_and_buckets"),
    (Mutant(900, "a release of a lost lock counts as a release", edits=(
        ("client/acquire.c", "RELEASED, status == DLOCK_OK);\n    dli_waiter_unref(DLI_OBJECT(", "RELEASED, status != DLOCK_NOT_HELD);\n    dli_waiter_unref(DLI_OBJECT("),
    )), "bindings/test_scenarios.py", "test_scenario and metrics and lost-python"),
    (Mutant(901, "a turn in memory ends the grant", edits=(
        ("client/pass.c", "DLI_CLAIM_LEAVING ? entry->m.turns : -1", "DLI_CLAIM_LEAVING || entry->m.turns ? entry->m.turns : -1"),
    )), "bindings/test_scenarios.py", "test_scenario and metrics and own-python"),
)  # fmt: skip

# No defect: test_metrics_cost.py counts the instructions of these functions.
MEASURED = Mutant(902, "what measures is not inlined", caught=False, edits=tuple(
    (f"client/{name}.c", f'#include "{first}.h"\n', f'#include "{first}.h"\n#include "metrics/metrics.h"\n'
     "#define MEASURED __attribute__((noinline, unused)) static void\n"
     "MEASURED measured_note(struct dli_metrics *m, enum dli_measure what, int64_t value) { dli_metrics_note(m, what, value); }\n"
     "MEASURED measured_asked(struct dli_metrics *m) { dli_metrics_asked(m); }\n"
     "MEASURED measured_hold(struct dli_metrics *m, int64_t held, int32_t turns) { dli_metrics_hold(m, held, turns); }\n"
     "#define dli_metrics_note measured_note\n#define dli_metrics_asked measured_asked\n#define dli_metrics_hold measured_hold\n")
    for name, first in (("acquire", "acquire"), ("waiter", "multi"), ("exchange", "waitlist"), ("transfer", "operation"), ("pass", "waitlist"), ("renewal", "multi"))
))  # fmt: skip

# Found by test_cluster_moving.py.
MOVING = (
    (Mutant(1455, "a reader whose key is on the way is dead", edits=(
        ("redis/scripts/shared/asking.lua", "if said == -2 and", "if said == -3 and"),
    )), "servers/test_cluster_moving.py", "on_the_way"),
    (Mutant(1456, "a command asks for several keys of which some are missing", edits=(
        ("redis/scripts/shared/asking.lua", "and keys[2] then", "and not keys[1] then"),
    )), "servers/test_cluster_moving.py", "a_new_lock and mutex"),
    (Mutant(1457, "a script that follows ASK declares all its keys", edits=(
        ("redis/cluster/route.c", "return route->job.call.asking && place_of", "return route->job.asked && place_of"),
    )), "servers/test_cluster_moving.py", "have_moved and semaphore"),
    (Mutant(1458, "the tombstones of a fair lock are taken for moved", edits=(
        ("redis/cluster/route.c", "(!makes_more(route) || route->all);", "1;"),
        ("redis/cluster/route.c", "        route->all = 1;\n    else\n        route->ask_node", "        route->all = 0;\n    if (node)\n        route->ask_node"),
    )), "servers/test_cluster_moving.py", "tombstones"),
)  # fmt: skip

# Found by test_cluster_touched.py.
TOUCHED = (
    (Mutant(1560, "keys of a reader of Redisson stay behind", edits=(
        ("redis/scripts/shared/moving.lua", "add_holds(ARGV[4], ARGV[10])", "add_holds('', ARGV[10])"),
    )), "servers/test_cluster_touched.py", "readers_of_redisson"),
    (Mutant(1561, "a long line moves in one step", edits=(
        ("redis/scripts/shared/moving.lua", "return size > most and", "return size < 0 and"),
    )), "servers/test_cluster_touched.py", "long_line"),
    (Mutant(1562, "a server that hangs is not noticed before the old one waits for it", edits=(
        ("redis/cluster/move.c", "DLI_MOVE_SECURE : DLI_MOVE_KNOCK, NULL", "DLI_MOVE_SECURE : DLI_MOVE_LOOK, NULL"),
    )), "servers/test_cluster_touched.py", "that_hangs"),
    (Mutant(1563, "the keys that the new server has are written over", edits=(
        ("redis/codec/move_commands.c", '    word[count++] = "KEYS";', '    word[count++] = "REPLACE";\n    word[count++] = "KEYS";'),
    )), "servers/test_cluster_touched.py", "there_already"),
    (Mutant(1564, "the key of the request's own read hold stays behind", edits=(
        ("redis/codec/move_commands.c", "i < 2 && wire->holds;", "i < 2 && !wire->holds;"),
    )), "servers/test_cluster_touched.py", "its_own_hold"),
    (Mutant(1565, "the password goes to servers that want none", edits=(
        ("redis/cluster/move.c", "? config->password : NULL,", "? NULL : config->password,"),
    )), "servers/test_cluster_touched.py", "no_password"),
    (Mutant(1566, "with replicas a lock goes where they are not", edits=(
        ("redis/cluster/move.c", "if (route->lane->cluster->confirm) {", "if (route->lane->cluster->confirm > 99) {"),
    )), "servers/test_replicas_cluster.py", "failover_while"),
    (Mutant(1567, "the old server sends the password without TLS", edits=(
        ("redis/cluster/move.c", "if (reply->type == DLI_REPLY_ARRAY && reply->size == 2", "if (reply->type == DLI_REPLY_ERROR || (reply->type == DLI_REPLY_ARRAY && reply->size == 2"),
        ("redis/cluster/move.c", '"yes") == 0)', '"yes") == 0))'),
    )), "servers/test_tls_setups.py", "touched_while and not_told"),
)  # fmt: skip

# Found by test_zookeeper_mutants.py: a test of python-tests/zookeeper for each.
# A close that leaves a connection: of messages on one server, on a cluster, and of a session.
CLOSED = (
    Mutant(1501, "a close leaves the connection for messages", edits=(
        ("redis/single/single.c", "        dli_subscriber_disconnect(&lane->subscriber);\n", ""),
    )),
    Mutant(1502, "a close leaves the connections for messages of a cluster", edits=(
        ("redis/cluster/cluster.c", "            dli_subscriber_disconnect(&cluster->node[i]->subscriber);\n", "            (void)cluster;\n"),
    )),
    Mutant(1503, "a close leaves the connection of a session", edits=(
        ("zookeeper/session.c", "    dli_list_each(&zk->sessions, hang_up, NULL);\n", ""),
    )),
)
ZOOKEEPER = (
    (Mutant(1500, "a welcome on another connection counts at once, although a deposed leader may have said it", edits=(
        ("zookeeper/heartbeat.c", "    if (fresh)\n        session->since = stamp;", "    if (fresh >= 0)\n        session->since = stamp;"),
    )), "test_zookeeper_leases.py", "welcome"),
    (Mutant(914, "a child of a fork uses the session of its parent", edits=IN_THE_CHILD), "test_zookeeper_faults.py", "z10_a_child"),
    (Mutant(1446, "a query of a gate that failed is repeated at once", edits=(
        ("client/gate.c", "aside->gate_again = now + FAILED_PAUSE;", "aside->gate_again = now;"),
    )), "test_zookeeper_hostile.py", "gates_that_cannot_be_read"),
    (Mutant(915, "permits outside of the line are kept", edits=OUTSIDE), "test_zookeeper_permits.py", "place_in_line"),
    (Mutant(916, "a hold of several permits watches the first one", edits=FIRST_ONLY), "test_zookeeper_permits.py", "one_of_several"),
    (Mutant(918, "who waits does not watch its own node", edits=(
        ("zookeeper/exchange.c", "    return again || entry->next || job->request.exchange.wish.beat > SOON;", "    return again && job->request.exchange.wish.beat < 0;"),
    )), "test_zookeeper_faults.py", "z06 and node"),
    (Mutant(994, "a number that is told of the end of the one before takes its own node for granted", edits=(
        ("zookeeper/exchange.c", "return entry->first && entry->sure && dli_zk_hears(job) &&", "return entry->first && dli_zk_hears(job) &&"),
    )), "test_zookeeper_turns.py", "own_node"),
    (Mutant(995, "the end of the one before is that of all before", edits=(
        ("zookeeper/exchange.c", "entry->next = rival == 1 &&", "entry->next = rival >= 1 &&"),
    )), "test_zookeeper_turns.py", "first_of_two"),
    (Mutant(996, "a bell that has rung meanwhile is not heard", edits=(
        ("zookeeper/exchange.c", "dli_zk_hears(job) && entry->rung == job->session->rung &&\n", "1 &&\n"),
    )), "test_zookeeper_turns.py", "through_a_gate"),
    (Mutant(997, "who is told asks nevertheless", edits=(
        ("zookeeper/exchange.c", "    else if (was_told(job, entry))\n", "    else if (was_told(job, entry) && job->tries < 0)\n"),
    )), "test_zookeeper_turns.py", "asks_nobody"),
    (Mutant(940, "nobody sees a gate", edits=(
        ("zookeeper/codec/line.c", "all->found.gate |= name.size == sizeof DLI_ZK_GATE - 1", "all->found.gate |= name.size == sizeof DLI_ZK_GATE + 1"),
    )), "test_zookeeper_gates.py", "behind_a_closing"),
    (Mutant(941, "a bell that rings is not heard", edits=(
        ("zookeeper/bell.c", "    session->zk->followed = 1;\n    dli_zk_gates_doubt(session->zk);", "    session->zk->followed = 1;"),
    )), "test_zookeeper_gates.py", "of_their_own_process"),
    (Mutant(942, "closing rings no bell", edits=(
        ("zookeeper/gate.c", "    part[BELL].path = dli_zk_bell_path(job, room[1]);", "    part[BELL].path = gate->op == DLI_ZK_DELETE ? dli_zk_bell_path(job, room[1]) : part[OWN].path;"),
    )), "test_zookeeper_gates.py", "every_wait and mutex"),
    (Mutant(943, "the watch of a bell is thought to outlast its connection", edits=(
        ("zookeeper/session.c", "    session->bells = 0;\n", ""),
    )), "test_zookeeper_gates.py", "is_cut and when"),
    (Mutant(944, "a gate is over as soon as it is closed", edits=(
        ("zookeeper/gate.c", "    if (now < job->gate.end)\n        job->gate.shut(job);", "    if (now < job->gate.end && now < 0)\n        job->gate.shut(job);"),
    )), "test_zookeeper_gates.py", "by_itself"),
    (Mutant(945, "a late removal hits a gate that was made anew", edits=(
        ("zookeeper/gate.c", "ring(job, &gate, job->gate.rings, removed);", "ring(job, &gate, -1, removed);"),
    )), "test_zookeeper_gates.py", "closed_again"),
    (Mutant(946, "a change of the number of permits is made again where its id has gone", edits=(
        ("zookeeper/total.c", "ids, version == change->version", "ids, 1 || version == change->version"),
    )), "test_zookeeper_permits.py", "meanwhile"),
    (Mutant(947, "a number that is refused leaves its permits", edits=(
        ("zookeeper/permit.c", "    give_back(job, 1);", "    job->gate.closed = 1, leaves(job);"),
    )), "test_zookeeper_gates.py", "every_wait and permit"),
    (Mutant(948, "a latch does not ask for the leader's clock", edits=(
        ("zookeeper/latch.c", "        dli_zk_gate_try(job, wait, shut_out);", "        (job->tries < 0 ? wait : shut_out)(job);"),
    )), "test_zookeeper_gates.py", "what_is_over and latch"),
    (Mutant(949, "the line of permits has no gate", edits=(
        ("zookeeper/exchange.c", "    *gate = all->gate;\n", "    *gate = 0;\n"),
    )), "test_zookeeper_gates.py", "hears_nothing and permit"),
    (Mutant(821, "another node is made without a look for the first one", edits=(
        ("zookeeper/exchange.c", "else if (entry->state == DLI_ZK_SENT)\n        dli_zk_search(job);", "else if (entry->state == DLI_ZK_SENT)\n        (job->tries < 0 ? dli_zk_search : dli_zk_create)(job);"),
    )), "test_zookeeper_faults.py", "z01"),
    (Mutant(822, "an undo deletes the first node, whoever's it is", edits=(
        ("zookeeper/drop.c", "if (dli_zk_is_owners(all->child[i].name, job->request.exchange.drop))", "if (all->child[i].name.size)"),
    )), "test_zookeeper_faults.py", "z14"),
    (Mutant(823, "a lock is lost by the server's word only", edits=(
        ("zookeeper/heartbeat.c", "return session->since + session->timeout - lease;", "return dli_now() + 0 * lease * session->since;"),
        ("zookeeper/heartbeat.c", "return session->since + session->timeout - session->timeout / 1000000 * session->zk->drift_ppm;", "return INT64_MAX + 0 * session->since;"),
    )), "test_zookeeper_faults.py", "z03_a_holder"),
    (Mutant(824, "who wakes has the lock, whoever is before", edits=(
        ("zookeeper/exchange.c", "} else if (!before) {", "} else if (!before || entry->watch[1].spot) {"),
    )), "test_zookeeper_kinds.py", "middle"),
    (Mutant(825, "nobody notices that the holder's node was deleted", edits=(
        ("zookeeper/renew.c", "return entry && entry->held && !entry->gone;", "return entry && entry->held;"),
    )), "test_zookeeper_faults.py", "z04"),
    (Mutant(826, "a try leaves its node behind", edits=(
        ("zookeeper/exchange.c", "} else if (!dli_zk_stands(job)) {\n        dli_zk_go_away(job, DLI_TRY_HELD);", "} else if (!dli_zk_stands(job)) {\n        dli_zk_not_granted(job, DLI_TRY_HELD);"),
    )), "test_zookeeper_peer.py", "keeps_us_out"),
    (Mutant(827, "readers wait for nobody", edits=(
        ("zookeeper/exchange.c", "return own != 'r' || before == 'w';", "return own != 'r' && before;"),
    )), "test_zookeeper_kinds.py", "readers"),
    (Mutant(828, "watches end with the connection, and nobody looks again", edits=(
        ("zookeeper/session.c", "        dli_zk_entries_doubt(session);\n", "        ;\n"),
    )), "test_zookeeper_faults.py", "z04_a_node"),
    (Mutant(829, "an expired session is noticed by the clock only", edits=(
        ("zookeeper/session.c", "    zk->store.hooks->lapsed(zk->store.owner, session->lease - DLI_ZK_MS, session->lease);\n", ""),
    )), "test_zookeeper_faults.py", "z05"),
)  # fmt: skip

# Found by test_linearizable.py, from the history of what processes were told.
BESIDE = Mutant(820, "who waits takes the lock beside its holder", edits=(
    ("engine/exchange.c", "    } else if (answer->got == DLI_TRY_HELD) {\n", "    } else if (answer->got == DLI_TRY_HELD && answer->seen.token && !dli_mutex_owned(m)) {\n"
     "        take_ownership(m, answer->seen.token + 1, 1, m->active->sent.wish.lease, m->active->sent.stamp, 0, now);\n"
     "    } else if (answer->got == DLI_TRY_HELD) {\n"),
))  # fmt: skip

# Found by test_batch.py, of the replies to many callers in one.
BATCH = Mutant(602, "the first answer of a batch is everybody's", edits=(
    ("redis/pipe/pipe_io.c", "dli_batch_reply(call, &reply->items[i], room)", "dli_batch_reply(call, &reply->items[0], room)"),
))  # fmt: skip


# Defects in the engine in memory, and the tests of python-tests/memory that find each of them.
MEMORY = (
    (Mutant(831, "who comes later goes first", edits=(
        ("memory/line.c", "!is_read(waiter->kind))\n            return 1;", "!is_read(waiter->kind))\n            return 0;"),
    )), "test_memory_line.py", "comes_first"),
    (Mutant(832, "a release tells nobody", edits=(
        ("memory/exchange.c", "    exchange->answer.released = hold != NULL;\n    dli_memory_wake(world, cell);\n", "    exchange->answer.released = hold != NULL;\n"),
    )), "test_memory_line.py", "wakes"),
    (Mutant(833, "a holder is not told that its lock was lost", edits=(
        ("memory/fault.c", "if (!hold->resting)", "if (hold->resting)"),
    )), "test_memory_faults.py", "writes_nothing or told or right_event"),
    (Mutant(834, "every renewal succeeds", edits=(
        ("memory/renew.c", "row->kept = hold != NULL;", "row->kept = 1;"),
    )), "test_memory_faults.py", "told or right_event"),
    (Mutant(835, "a fault meets the client that asked for it", edits=(
        ("memory/fault.c", "status = others ? apply_to_others", "status = others > 1 ? apply_to_others"),
    )), "test_memory_faults.py", "right_event"),
    (Mutant(836, "renewals of one lock do not fail", edits=(
        ("memory/renew.c", "dli_memory_fault(memory, DLI_MEMORY_RENEWALS, row[i].place)", "dli_memory_fault(memory, DLI_MEMORY_RENEWALS, NULL)"),
    )), "test_memory_faults.py", "right_event"),
    (Mutant(985, "a key that is made and deleted again has not changed", edits=(
        ("memory/keys.c", "    key->changed = ++world->changes;", "    key->changed = value ? ++world->changes : 0;"),
    )), "test_memory_transactions.py", "conflict"),
    (Mutant(986, "a key that has expired is found so by nobody but its reader", edits=(
        ("memory/round.c", "        dli_memory_key_settle(round->memory->world, round->watch[i].key);\n", ""),
    )), "test_memory_transactions.py", "expires"),
    (Mutant(987, "the writes before the one that fails are done", edits=(
        ("memory/round.c", "finish(round, request->status == DLOCK_OK);", "finish(round, 1);"),
    )), "test_memory_transactions.py", "all_writes"),
    (Mutant(988, "a commit does not compare", edits=(
        ("memory/round.c", "    if (has_changed(round)) {", "    if (has_changed(round) > 1) {"),
    )), "test_memory_transactions.py", "nothing_is_lost or conflict"),
    (Mutant(989, "what is added to a key ends its time to live", edits=(
        ("memory/round.c", "        effect->ends = effect->key->ends;\n", "        effect->ends = INT64_MAX;\n"),
    )), "test_memory_transactions.py", "time_to_live"),
    (Mutant(838, "a child of a fork finds the locks of its parent", edits=(
        ("memory/world.c", "if (seen && seen->generation == dli_fork_generation())", "if (seen)"),
    )), "test_memory_line.py", "child"),
    (Mutant(839, "a token comes twice", edits=(
        ("memory/cells.c", "last = cell->token + 1;", "last = cell->token;"),
        ("memory/cells.c", "int64_t last = dli_wall() + world->offset, got = 1;", "int64_t last = 1 + 0 * world->offset, got = 1;"),
    )), "test_memory_line.py", "tokens"),
    (Mutant(840, "a store lives on without its clients", edits=(
        ("memory/world.c", "    dli_list_remove(&world->link);\n    dli_memory_free_cells(world);\n", ""),
        ("memory/world.c", "    if (last)\n        world_free", "    if (last > 1)\n        world_free"),
    )), "test_memory_line.py", "ends_with"),
    (Mutant(841, "a lease never ends", edits=(
        ("memory/cells.c", "if (dli_memory_hold_at(link)->ends > rest->now)", "if (rest->now > INT64_MIN)"),
    )), "test_memory_line.py", "without_its_holder"),
)  # fmt: skip


def rows(mutants: Sequence[Mutant], late: Container[int] = ()) -> list[Any]:
    """Parameters of a test. Those whose numbers are in late take long, and have 200 seconds."""
    marks = [pytest.mark.timeout(200)]
    return [pytest.param(one, id=f"{one.number}: {one.what}", marks=marks if one.number in late else []) for one in mutants]


def compile_again(row: dict[str, str], source: pathlib.Path, beside: pathlib.Path) -> pathlib.Path:
    """The object of a changed source, made as its row of compile_commands.json says."""
    words = shlex.split(row["command"])
    made = source.parent / pathlib.Path(words[words.index("-o") + 1]).name
    words[words.index("-o") + 1] = words[words.index("-MQ") + 1] = str(made)
    words[words.index("-MF") + 1] = str(made) + ".d"
    words[words.index("-c") + 1] = str(source)
    subprocess.run([*words, f"-I{beside}"], check=True, cwd=row["directory"])
    return made


def embedded(root: pathlib.Path) -> list[str]:
    """The scripts, in the order in which meson embeds them."""
    listed = (root / "src/redis/scripts/meson.build").read_text()
    return re.findall(r"'([a-z_/]+\.lua)'", listed[: listed.index("script_parts =")].partition("files(")[2])


def changed_objects(root: pathlib.Path, build: pathlib.Path, folder: pathlib.Path, mutant: Mutant) -> list[pathlib.Path]:
    """The objects of a build's library, with the mutant's files in place of theirs."""
    commands = {(build / one["file"]).resolve(): one for one in json.loads((build / "compile_commands.json").read_text())}
    folders = [build / "libdlock_internal.a.p", build / "src/etcd/codec/libdlock_messages.a.p"]
    objects = {one.name: one for part in folders for one in part.glob("*.o")}
    copy_of(root, folder, mutant, sorted({f"src/{name.split('/')[0]}" for name, _, _ in mutant.edits}))
    changed = {name for name, _, _ in mutant.edits}
    for name in {name for name in changed if name.endswith(".c")}:
        made = compile_again(commands[root / "src" / name], folder / "src" / name, (root / "src" / name).parent)
        objects[made.name] = made
    if any(name.endswith(".lua") for name in changed):
        scripts = "src/redis/scripts"
        subprocess.run([sys.executable, folder / scripts / "embed.py", folder / "scripts.c", *(folder / scripts / name for name in embedded(root))], check=True)
        made = compile_again(commands[build / scripts / "scripts_gen.c"], folder / "scripts.c", root / scripts)
        objects[made.name] = made
    return list(objects.values())


LIBRARIES = ("-lhiredis", "-lssl", "-lcrypto", "-lnghttp2", "-lprotobuf-c", "-lpthread")


def library(root: pathlib.Path, build: pathlib.Path, folder: pathlib.Path, mutant: Mutant) -> pathlib.Path:
    """The library of a build with the mutant's files in it."""
    objects = changed_objects(root, build, folder, mutant)
    made_library = folder / "libdlock.so.1"
    how = ["-Wl,-soname,libdlock.so.1", f"-Wl,--version-script={root / 'abi/dlock.map'}"]
    subprocess.run(["gcc", "-shared", *how, "-o", made_library, *objects, *LIBRARIES], check=True)
    return made_library


def each(defects: Sequence[tuple[Mutant, str, str]]) -> Any:
    """Parameters of a test: a defect, the file under python-tests whose tests find it, and words for -k."""
    return pytest.mark.parametrize("mutant, file, words", defects, ids=[f"{one.number}: {one.what}" for one, _, _ in defects])


def check_found(root: pathlib.Path, build: pathlib.Path, folder: pathlib.Path, mutant: Mutant, file: str, words: str, *, timeout: int = 60, agents: bool = False) -> None:
    """These tests must fail with the defect in the library. agents: also in programs that are linked with the library of the build."""
    made = library(root, build, folder, mutant)
    env = {**os.environ, "DLOCK_LIBRARY": str(made), **({"LD_PRELOAD": str(made)} if agents else {})}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-c", "python-tests/pytest.ini", "--rootdir", ".", "-p", "no:cacheprovider"]
    command += [f"python-tests/{file}", "-m", "not full", "-k", words, "--timeout", str(timeout)]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True)
    assert done.returncode == 1 and "failed" in done.stdout, done.stdout[-3000:]


def worlds(root: pathlib.Path, build: pathlib.Path, folder: pathlib.Path, mutant: Mutant) -> pathlib.Path:
    """dlock_worlds with the mutant's files in it."""
    objects = changed_objects(root, build, folder, mutant)
    own = build / "python-tests/native/dlock_worlds.p"
    replaced = (build / "python-tests/native/replaced").read_text().split()
    program = folder / "dlock_worlds"
    subprocess.run(["gcc", "-o", program, *own.glob("*.o"), *objects, *replaced, *LIBRARIES, "-lm"], check=True)
    return program


SIMULATED = ("src/engine", "src/base", "src/store", "src/redis/scripts", "abi")


def copy_of(root: pathlib.Path, folder: pathlib.Path, mutant: Mutant, parts: Sequence[str] = SIMULATED) -> pathlib.Path:
    """The sources the simulator needs, changed; LookupError when an edit does not fit any more."""
    for part in parts:
        shutil.copytree(root / part, folder / part)
    for name, old, new in mutant.edits:
        path = folder / "src" / name
        text = path.read_text()
        if text.count(old) != 1:
            raise LookupError(f"mutant {mutant.number}: {name} has {text.count(old)} times: {old}")
        path.write_text(text.replace(old, new))
    return folder


def flags(pkg: str = "lua5.1") -> tuple[list[str], list[str]]:
    def ask(what: str) -> list[str]:
        return subprocess.run(["pkg-config", what, pkg], check=True, text=True, stdout=subprocess.PIPE).stdout.split()

    return ask("--cflags"), ask("--libs")


def compile_simulator(root: pathlib.Path, folder: pathlib.Path) -> list[pathlib.Path]:
    """The simulator's own files and the engine as it is, compiled once for all mutants."""
    sources = [*sorted((root / "python-tests/native/sim").glob("sim_*.c")), *sorted((root / "src/engine").glob("*.c")), root / "src/base/list.c"]
    compile_all(root, folder, sources)
    return sorted(folder.glob("*.o"))


def compile_all(root: pathlib.Path, folder: pathlib.Path, sources: Sequence[pathlib.Path]) -> None:
    includes = [f"-I{root / 'src'}", f"-I{root / 'abi'}"]
    subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", *includes, *flags()[0], "-c", *sources], check=True, cwd=folder)


def link(folder: pathlib.Path, objects: list[pathlib.Path], mutant: Mutant) -> pathlib.Path:
    """The simulator with the engine of this folder: edits are of its sources, not of its headers."""
    program = folder / "dlock_sim"
    edited = sorted({folder / "src" / name for name, _, _ in mutant.edits if not name.endswith(".lua")})
    assert all(source.suffix == ".c" for source in edited)
    if edited:
        compile_all(folder, folder, edited)
    own = [folder / f"{source.stem}.o" for source in edited]
    others = [one for one in objects if one.name not in {two.name for two in own}]
    subprocess.run(["gcc", *others, *own, *flags()[1], "-lm", "-o", program], check=True)
    return program
