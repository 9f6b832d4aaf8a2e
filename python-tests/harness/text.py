"""Which characters people are shown, by Python's tables of Unicode: what src/base/printable.c must agree with.

    hidden("\\u202e")                # True
    shown("a\\u202eb".encode())      # "a\\\\xe2\\\\x80\\\\xaeb"
    every("Cf")                     # all characters of a category
"""
from __future__ import annotations

import unicodedata
from typing import Iterator

# Letters and marks that nobody can see, and what Unicode keeps for more of them, whatever category they have.
BLANK = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2065, 0x2800, 0x3164, *range(0xFDD0, 0xFDF0),
         *range(0xFE00, 0xFE10), 0xFFA0, *range(0xFFF0, 0xFFFC), *range(0x13430, 0x13460), 0x1D159, *range(0xE0000, 0xE1000)}  # fmt: skip
MARKS = 4  # of one letter


def hidden(character: str) -> bool:
    code, category = ord(character), unicodedata.category(character)
    return category in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp") or category == "Zs" and code != 32 or code & 0xFFFE == 0xFFFE or code in BLANK


def every(*categories: str) -> Iterator[str]:
    return (chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in categories)


def shown(text: bytes) -> str:
    out, marks = "", MARKS
    for character in text.decode(errors="surrogateescape"):
        mark = unicodedata.category(character) in ("Mn", "Me")
        if hidden(character) or mark and marks == MARKS:
            out += "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape"))
            marks = MARKS
        else:
            out += character
            marks = marks + 1 if mark else 0
    return out
