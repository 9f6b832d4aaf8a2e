"""Names and servers' words, as people and programs see them: every control, format and bidi character, in text and in JSON."""
from __future__ import annotations

import ctypes
import json
import os
import unicodedata
from typing import Any, Iterator

from harness.build import LIBRARY
from harness.fake import LockServer
from harness.text import BLANK, MARKS, every, hidden, shown
from shell import dlock

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

from dlock._lib import library

# Private use by its ends: there are 137,468 of them.
PRIVATE = ["\ue000", "\uf8ff", "\U000f0000", "\U000ffffd", "\U00100000", "\U0010fffd"]
HIDDEN = [c for c in (*every("Cc", "Cf", "Zl", "Zp", "Zs"), *map(chr, sorted(BLANK)), *PRIVATE) if hidden(c) and c != "\0"]
NAMED = "\x1b\x7f\x80\x9b\x9f\xad\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff\ufff9\U000e0001\U000e007f\ufe0f"
BROKEN = [b"\xff", b"a\xc2", b"\xc0\x80", b"\xed\xa0\x80x", b"\xf4\x90\x80\x80", b"\xe2\x80", b"\x80abc", b"\xf8\x88\x80\x80\x80"]


def names_of(characters: list[str]) -> list[str]:
    """As few names as have them all; an x before each."""
    names = [""]
    for character in characters:
        if len((names[-1] + character).encode()) > 1000:
            names.append("")
        names[-1] += "x" + character
    return names


def parts(names: list[str]) -> Iterator[list[str]]:
    for i in range(0, len(names), 100):
        yield names[i : i + 100]


def inspect(*names: Any) -> list[str]:
    done = dlock("inspect", *names, url="memory:", text=False)
    assert done.returncode == 0, done.stderr[-300:]
    return [line.removesuffix(": mutex, free") for line in done.stdout.decode().split("\n")[:-1]]


def test_the_list() -> None:
    assert set(NAMED) <= set(HIDDEN) and all(map(hidden, NAMED)) and len(HIDDEN) > 4_000


def test_what_is_hidden_is_escaped() -> None:
    for names in parts(names_of(HIDDEN)):
        assert inspect(*names) == [shown(name.encode()) for name in names]
        assert not any(map(hidden, "".join(inspect(*names))))


def test_all_that_can_be_seen_is_shown() -> None:
    """Letters, digits, signs of all scripts, and marks on a letter."""
    seen = [c for c in every("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Mn", "Mc", "Me") if not hidden(c) and c not in "{}"]
    assert len(seen) > 100_000
    for names in parts(names_of(seen)):
        assert inspect(*names) == names


def test_floods_of_marks() -> None:
    """A letter has some; none comes before the first letter, nor behind what was escaped."""
    for mark in ["\u0301", "\u0338", "\u20e3", "\u0e49"]:
        assert unicodedata.category(mark) in ("Mn", "Me")
        for name in ("a" + 40 * mark, mark + "b", "\x1b" + mark, "a" + MARKS * mark + "b" + mark):
            assert inspect(name) == [shown(name.encode())]
    assert inspect("a" + MARKS * "\u0301") == ["a" + MARKS * "\u0301"]


def test_json() -> None:
    """The exact text comes back, and the line itself has nothing hidden in it."""
    for names in parts([*names_of(HIDDEN), "a" + 40 * "\u0301", "\u0301", 'q"\\', "ключ 🔒"]):
        done = dlock("inspect", "--json", *names, url="memory:")
        assert done.returncode == 0 and not any(map(hidden, done.stdout.replace("\n", "")))
        assert [json.loads(line) for line in done.stdout.splitlines()] == [{**json.loads(line), "name": name} for line, name in zip(done.stdout.splitlines(), names)]
        assert "name_hex" not in done.stdout


def test_bytes_that_are_no_text() -> None:
    """They are told apart in JSON, although a name has U+FFFD for each wrong byte."""
    done = dlock("inspect", "--json", *BROKEN, url="memory:", text=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [bytes.fromhex(one["name_hex"]) for one in found] == BROKEN and all("\ufffd" in one["name"] for one in found)
    assert inspect(*BROKEN) == [shown(name) for name in BROKEN]


def test_sentences_of_the_library() -> None:
    """Whatever comes in: dlock_error_message has nothing hidden in it. To escape twice is to escape once."""
    lib = library()
    error, options = lib.dlock_error_new(), lib.dlock_options_new()
    for text in [*(c.encode() for c in HIDDEN), *BROKEN, b"a" + 40 * "\u0301".encode()]:
        assert lib.dlock_options_set(options, ctypes.c_char_p(b"o" + text), b"1", error) < 0
        message = lib.dlock_error_message(error).decode()
        assert f"'{shown(b'o' + text)[:70]}" in message and not any(map(hidden, message)), text
    done = dlock("inspect", "a}\u202e\x9b", url="memory:")
    assert done.returncode == 64 and "'a}\\xe2\\x80\\xae\\xc2\\x9b'" in done.stderr


def test_words_of_a_server() -> None:
    """An error, and a holder."""
    bad = "\u202e\x9b\u200b\x1b[31m\u0301\u00ad"
    with LockServer() as server:
        server.say("inspect", b"-ERR " + bad.encode() + b"\r\n")
        done = dlock("inspect", "job", url=server.url)
        assert done.returncode and shown(bad.encode()) in done.stderr and not any(map(hidden, done.stderr.replace("\n", "")))
        server.say("inspect", b"*5\r\n$%d\r\n%s\r\n:1000\r\n:1\r\n:2\r\n:0\r\n" % (len(bad.encode()), bad.encode()))
        for more in ([], ["--json"]):
            done = dlock("inspect", *more, "job", url=server.url)
            assert done.returncode == 0 and not any(map(hidden, done.stdout.replace("\n", "")))
            assert shown(bad.encode()) in (json.loads(done.stdout)["holder"] if more else done.stdout)
