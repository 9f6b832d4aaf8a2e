"""docs/api.md: the comments of dlock.h as a page. Called by gen.py, whose reader has checked the header before."""
from __future__ import annotations

import re
import textwrap

HEAD = """\
# The C API

Written by abi/gen.py from [abi/dlock.h](../abi/dlock.h): do not edit. The [options](options.md) and the [statuses](operating.md) have pages of their own.
"""
RULER = re.compile(r"^/\* -{4} (.*?) -{4,} \*/$", re.M)
COMMENT = re.compile(r"/\*(.*?)\*/\n(?:DLOCK_API\n)?((?:typedef int32_t .*?\n\};\n)|(?:[^\n]+\n)+?(?=\n|#|$))", re.S)


def prose(comment: str) -> str:
    """The words of a comment, with paragraphs as they are and names of the ABI as code."""
    lines = [re.sub(r"^ ?\*? ?", "", line).rstrip() for line in comment.strip().splitlines()]
    text = "\n".join(lines).strip()
    text = re.sub(r"([<>*|])", r"\\\1", text)
    text = re.sub(r"\n((?:  [^\n]+\n?)+)", lambda found: "\n```text\n" + textwrap.dedent(found[1]).rstrip() + "\n```\n", text)
    text = re.sub(r"\nErrors: ", "\n\n*Errors*: ", text)
    return re.sub(r"(?<![`\w])((?:\\\*)?\w*_\w*(?:\\\*)?)", lambda found: code(found[1]), text)


def code(text: str) -> str:
    return "`" + text.replace("\\", "") + "`"


def entry(comment: str, declaration: str) -> list[str]:
    """A function, an enum or a type. Threads, blocking and since stand in a line of their own."""
    body, tags, rest = prose(comment).partition("Threads: ")
    name = re.search(r"\b(dlock_\w+) ?\(", declaration)
    title = [f"### {name[1]}", ""] if name else []
    words = [*title, body.strip(), ""] if body.strip() else title
    if tags:
        words += ["*Threads*: " + re.sub(r" (Blocks|Since): ", r" *\1*: ", re.sub(r"\s+", " ", rest.strip())), ""]
    return [*words, "```c", declaration.strip(), "```", ""]


def api_md(header: str) -> str:
    first = header.index("/*")
    overview, _, rest = header[first + 2 :].partition("*/")
    paragraphs = prose(overview).split("\n\n")[2:]
    lines = [HEAD, "## What holds for every call", ""]
    for paragraph in paragraphs:
        title, _, text = paragraph.partition(". ")
        lines += [f"**{title}.** {text}", ""]
    parts = RULER.split(rest)
    lines += ["## Constants and types", ""]
    for found in COMMENT.finditer(parts[0]):
        lines += entry(found[1], found[2])
    for title, part in zip(parts[1::2], parts[2::2]):
        name, _, more = title.partition(": ")
        lines += [f"## {name[0].upper()}{name[1:]}", ""]
        lines += [prose(more)[0].upper() + prose(more)[1:] + ".", ""] if more else []
        for found in COMMENT.finditer(part):
            lines += entry(found[1], found[2])
    return "\n".join(lines).rstrip("\n") + "\n"
