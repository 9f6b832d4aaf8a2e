#!/usr/bin/env python3
"""The man pages: docs/man/make.py FOLDER LIBRARY [DLOCK], or --links for the names of section 3. Sphinx writes them, from Markdown that is made of what there is already.

dlock(1)            docs/command.md, and the help of the command DLOCK; without it this page is left out
dlock(7)            docs/levels.md: what is promised
dlock_options(7)    the table of options of LIBRARY
dlock_client(3) ... a page for each group of calls of abi/dlock.h; an installation has a link for each call
"""
from __future__ import annotations

import ctypes
import email.utils
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "abi"), str(ROOT / "python-tests")]

from gen_docs import COMMENT, RULER, entry, prose  # noqa: E402
from harness.options import OF_CLIENTS, OF_NAMES, rows  # noqa: E402

PROMISES = ("Which level do I need?", "What every level gives", "The levels")
# The pages of section 3: the group in dlock.h, the page, what it is about.
GROUPS = {
    "library": ("dlock_library", "version and features of libdlock"),
    "status table": ("dlock_status", "the statuses of libdlock"),
    "error box": ("dlock_error", "why a call of libdlock failed"),
    "options": ("dlock_option", "set and read options of libdlock"),
    "client": ("dlock_client", "open, close, check and watch a client of libdlock"),
    "lock": ("dlock_lock", "acquire and release distributed locks"),
    "semaphore": ("dlock_semaphore", "the permits of a distributed semaphore"),
    "latch": ("dlock_latch", "the count of a distributed latch"),
    "event": ("dlock_event", "what happened to a lock"),
    "constants and types": ("dlock_types", "the constants and types of libdlock"),
    "transaction": ("dlock_txn", "optimistic transactions"),
}
ALSO = "**dlock**(7), **dlock_options**(7), " + ", ".join(f"**{page}**(3)" for page, _ in GROUPS.values())


def plain(markdown: str) -> str:
    """Without links: a man page has none. Without pictures."""
    markdown = re.sub(r"!\[[^]]*\]\([^)]*\)", "", markdown)
    return re.sub(r"\[((?:`[^`]*`|[^]`])*)\]\([^)\s]+\)", r"\1", markdown)


def sections(markdown: str) -> dict[str, str]:
    """By heading of the second level; "" is what stands before the first."""
    parts = re.split(r"^## (.*)\n", markdown, flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2]))}


def code(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


# ---- section 3


def group_page(title: str, text: str) -> tuple[str, list[str]]:
    """The page of a group, and its calls."""
    found = [one for one in COMMENT.finditer(text) if "#" not in one[2]]
    calls = [match[1] for one in found if (match := re.search(r"\b(dlock_\w+) ?\(", one[2]))]
    declarations = ("\n" if calls else "\n\n").join(one[2].strip() for one in found)
    lines = [f"# {GROUPS[title.partition(':')[0]][0]}", "## Synopsis", "", code("#include <dlock.h>\n\n" + declarations, "c")]
    lines += ["Compile and link with `-ldlock`, or by `pkg-config dlock`.", "", "## Description", ""]
    if more := title.partition(": ")[2]:
        lines += [prose(more)[0].upper() + prose(more)[1:] + ".", ""]
    for one in found:
        lines += re.sub(r"```c\n.*?```\n", "", "\n".join(entry(one[1], one[2])), flags=re.S).splitlines()
    return "\n".join(lines), calls


def about_calls(header: str) -> dict[str, str]:
    """What holds for every call: the first comment of the header, by the title of its paragraphs."""
    first = prose(header[header.index("/*") + 2 :].partition("*/")[0]).split("\n\n")[2:]
    return {title: text for title, _, text in (paragraph.partition(". ") for paragraph in first)}


def section_3(header: str) -> dict[str, tuple[str, str, list[str]]]:
    """By page: its text, what it is about, its calls."""
    about, parts, pages = about_calls(header), RULER.split(header), {}
    for title, part in zip(["constants and types", *parts[1::2]], parts[::2]):
        page, says = GROUPS[title.partition(":")[0]]
        text, calls = group_page(title, part)
        text += "\n\n## Return value\n\n" + about["Statuses"] + "\n\n" + about["Outputs"]
        text += "\n\n## Threads\n\n" + about["Threads"] + "\n\n## See also\n\n" + ALSO.replace(f"**{page}**(3), ", "") + "\n"
        pages[page] = (text, says, [page, *(call for call in calls if call != page)])
    return pages


# ---- sections 1 and 7


def said(*command: str | pathlib.Path) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def page_of_the_command(dlock: pathlib.Path) -> str:
    parts = sections(plain((ROOT / "docs/command.md").read_text()))
    words = re.findall(r"^  (\w+) ", said(dlock, "--help").split("\n\n")[1], re.M)
    lines = ["# dlock", "## Synopsis", code("dlock COMMAND [options] [NAME...]\ndlock run [options] NAME -- COMMAND [argument...]")]
    lines += ["## Description", parts.pop("").partition("\n")[2].strip()]
    del parts["Beside other commands"]
    lines += [f"## {title}\n\n{text.strip()}" for title, text in parts.items()]
    lines += ["## Commands", code(said(dlock, "--help"))]
    for word in words:
        lines += [f"### dlock {word}", code(said(dlock, word, "--help"))]
    lines += ["## Environment", "`DLOCK_URL`: the server, without `--url` and `--url-file`.", "## See also", "**dlock**(7), **dlock_options**(7), **flock**(1)"]
    return "\n\n".join(lines) + "\n"


def page_of_promises(header: str) -> str:
    parts = sections(plain((ROOT / "docs/levels.md").read_text()))
    lines = ["# dlock", "## Description", parts[""].partition("\n")[2].strip()]
    lines += [f"## {title}\n\n" + parts[title].partition("\nBelow, tests")[0].strip() for title in PROMISES]
    lines += [f"## {title}\n\n{text}" for title, text in about_calls(header).items() if title in ("Owners", "Tokens", "Time", "Fork", "Host")]
    lines += ["## See also", ALSO.removeprefix("**dlock**(7), ") + ", **dlock**(1)"]
    return "\n\n".join(lines) + "\n"


def page_of_options(library: ctypes.CDLL) -> str:
    lines = ["# dlock_options", "## Description", """
Set options by `dlock_options_set`, or in the query part of a URL: `redis://host?lease_ms=10000`. A lock's options win over its client's, and those
over the URL's. Options of a *lock* may differ between handles. Options of a *name* come from the first handle of a client on that name. Options of a
*client* are the same for all its locks.""".strip(), "## Options", ""]
    for name, kind, preset, help in rows(library, "name", "type", "default", "help"):
        of = "client" if name in OF_CLIENTS else "name" if name in OF_NAMES else "lock"
        lines += [f"`{name}` ({kind})", f": Of a {of}. " + prose(help) + (f" Default: `{preset}`." if preset else ""), ""]
    return "\n".join([*lines, "## See also", "", "**dlock**(7), **dlock_option**(3), **dlock**(1)", ""])


# ---- Sphinx


def build(source: pathlib.Path, out: pathlib.Path, pages: list[tuple[str, str, str, list[str], int]]) -> None:
    version = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())
    made = re.search(r"^ -- .*>  (.*)$", (ROOT / "packaging/debian/changelog").read_text(), re.M)
    assert version and made
    date = email.utils.parsedate_to_datetime(made[1]).date().isoformat()
    conf = f"""project, version, release = "libdlock", {version[1]!r}, {version[1]!r}
extensions, myst_enable_extensions, root_doc = ["myst_parser"], ["deflist"], "dlock_client"
man_pages, today = {pages!r}, {date!r}
"""
    (source / "conf.py").write_text(conf)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "man", "-d", source / "trees", source, out]
    subprocess.run(command, check=True)


def filled(roff: str) -> str:
    """With input lines of at most 80 bytes, save where they are shown as they are."""
    lines, shown = [], False
    for line in roff.splitlines():
        shown = line in (".nf", ".TS") or (shown and line not in (".fi", ".TE"))
        short = [line] if shown or line.startswith((".", "'")) else textwrap.wrap(line, 76, break_long_words=False, break_on_hyphens=False)
        lines += [rf"\&{part}" if number and part[0] in ".'" else part for number, part in enumerate(short)]
    return "\n".join(lines) + "\n"


def tidy(roff: str, names: list[str]) -> str:
    """The same page in man(7) alone, without the macros that docutils defines, and with every name that it is about."""
    roff = re.sub(r"\A(?:.*\n)*?(?=\.TH )", '.\\" Written by docs/man/make.py: do not edit.\n', roff)
    if "\n.TS\n" in roff:
        roff = "'\\\" t\n" + roff  # man must run tbl
    roff = re.sub(r"^\.INDENT ([\d.]+)$", r".RS \1", re.sub(r"^\.UNINDENT$", ".RE", roff, flags=re.M), flags=re.M)
    roff = re.sub(r"^\.ft [CP]\n", "", roff, flags=re.M)
    roff = re.sub(r"^(\.S[HS] .*\n)\.sp\n", r"\1", roff, flags=re.M)
    return filled(re.sub(r"(?<=\.SH NAME\n)\S+", ", ".join(names), roff, count=1))


def main(out: pathlib.Path, library: pathlib.Path, dlock: pathlib.Path | None) -> None:
    header = (ROOT / "abi/dlock.h").read_text()
    texts = {"dlock.7": (page_of_promises(header), "distributed locks on Redis, etcd and ZooKeeper, and what they promise", ["dlock"])}
    texts["dlock_options.7"] = (page_of_options(ctypes.CDLL(str(library))), "options of clients and locks", ["dlock_options"])
    if dlock:
        texts["dlock.1"] = (page_of_the_command(dlock), "run a command under a distributed lock, and look at locks", ["dlock"])
    texts.update({f"{page}.3": (text, says, calls) for page, (text, says, calls) in section_3(header).items()})
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source, pages = pathlib.Path(folder), []
        for name, (text, says, _) in texts.items():
            title, _, section = name.partition(".")
            document = title if section == "3" else name.replace(".", "-")
            (source / f"{document}.md").write_text("---\norphan: true\n---\n" + text)
            pages.append((document, title, says, [], int(section)))
        build(source, out, pages)
    for name, (_, _, names) in texts.items():
        page = out / name
        page.write_text(tidy(page.read_text(), names))


if __name__ == "__main__":
    if sys.argv[1:] == ["--links"]:
        for _, _, names in section_3((ROOT / "abi/dlock.h").read_text()).values():
            print(*names)
        raise SystemExit
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]) if sys.argv[3:] else None)
