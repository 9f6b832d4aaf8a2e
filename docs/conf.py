"""The manual as a site: ./dev docs, by Sphinx and MyST. The pages are plain Markdown, which is read as it stands in the tree, too."""
from __future__ import annotations

import os
import pathlib
import re
from typing import Any

DOCS = pathlib.Path(__file__).resolve().parent

project = "libdlock"
copyright = "the libdlock authors"
extensions = ["myst_parser"]
root_doc = "README"
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
nitpicky = True
html_theme = "alabaster"
html_theme_options = {"description": "distributed locks on Redis", "fixed_sidebar": True, "page_width": "1100px"}
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_show_sphinx = html_show_copyright = html_show_sourcelink = False

CONTENTS = "```{{toctree}}\n:hidden:\n\n{}\n```\n"


def out_of_the_manual(found: re.Match[str]) -> str:
    """A link to a file of the tree becomes a copy of it; a page or a folder outside of the manual is named only."""
    words, path = found[1], found[2].partition("#")[0]
    if not (DOCS / path).exists():
        raise FileNotFoundError(f"{found[0]}: there is no such file")
    return f"{words} ({os.path.relpath(DOCS / path, DOCS.parent)})" if (DOCS / path).is_dir() or path.endswith(".md") else found[0]


def read(app: Any, name: str, source: list[str]) -> None:
    source[0] = re.sub(r"\[([^]]*)\]\((\.\./[^)\s]+)\)", out_of_the_manual, source[0])
    if name == root_doc:
        pages = re.findall(r"\]\((\w[\w-]*)\.md\)", source[0])
        source[0] += "\n" + CONTENTS.format("\n".join(pages))


def setup(app: Any) -> None:
    app.connect("source-read", read)
