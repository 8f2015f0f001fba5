"""Hooks of mkdocs: pages that are not in docs/, and links that hold in the tree and in the site.

A page links to files of the tree, as people read it there. In the site a link to a page leads to
its place there, a link to another file becomes its name, and a paragraph that is nothing but a link
to a Python file becomes that file's docstring: what a model does is written down once, in its code.
"""

import ast
import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from contrib.docs.reference import pages
from slurm_ext.core.settings.table import TABLE

ROOT = Path(__file__).parents[2]
# Files of the tree beside docs/, and their places in the site.
PLACES = {
    "README.md": "index.md",
    "INSTALL.md": "install.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "contrib/bench/README.md": "benchmarks.md",
    "contrib/ondemand/README.md": "how-to/open-ondemand.md",
    "contrib/schemas/predict.json": "reference/predict-json.md",
    "contrib/schemas/explain.json": "reference/explain-json.md",
    "contrib/schemas/simulate.json": "reference/simulate-json.md",
    "contrib/schemas": "reference/index.md",
    "site_config/dlqueue.toml": "reference/settings.md",
}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
_TARGET = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"^\[`?([\w./]+\.py)`?\]\(([^)]+)\)$", re.MULTILINE)
_KEY = re.compile(rf"(?<!\[)`({'|'.join(re.escape(row.key) for row in TABLE)})`(?!\])")
_LIST = re.compile(r"^(?!(?:- |\d\. |  ))([^\n]+)\n(?=- |1\. )", re.MULTILINE)
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, *, config: Any) -> Files:
    """Add the reference and the pages that have their place outside docs/."""
    for place, text in pages():
        files.append(File.generated(config, place, content=text))
    for source, place in PLACES.items():
        if source.endswith(".md"):
            files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Docstrings in place of links to code, links within the site, settings linked to their row."""
    source = source_of(page.file.src_uri)
    if page.file.src_uri.startswith("reference/") and not (ROOT / source).exists():
        return markdown
    parts = _FENCED.split(_CODE.sub(lambda found: _docstring(source, found[2]), markdown))
    return "".join(
        part if part.startswith("```") else _linked(part, source, page.file.src_uri)
        for part in parts
    )


def source_of(uri: str) -> str:
    """The file of the tree that a page of the site is made from."""
    of_uri = {place: source for source, place in PLACES.items() if source.endswith(".md")}
    return of_uri.get(uri, f"docs/{uri}")


def place_of(source: str, target: str) -> str | None:
    """Where the file that `source` links to stands in the site; None where it does not."""
    path = os.path.normpath(os.path.join(os.path.dirname(source), target))  # noqa: PTH118, PTH120 (text)
    return PLACES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)


def _docstring(source: str, target: str) -> str:
    path = (ROOT / source).parent / target
    text = ast.get_docstring(ast.parse(path.read_bytes())) or ""
    text = _LIST.sub(r"\1\n\n", text)  # Markdown wants an empty line before a list
    return f"{text}\n\n*From `{path.resolve().relative_to(ROOT)}`.*"


def _linked(text: str, source: str, uri: str) -> str:
    def kept(found: re.Match[str]) -> str:
        return found[0] if place_of(source, found[2]) else found[1]

    def moved(found: re.Match[str]) -> str:
        place = place_of(source, found[1])
        return f"]({_relative(place, uri)}{found[2] or ''})" if place else found[0]

    settings = _relative("reference/settings.md", uri)
    return _KEY.sub(rf"[`\1`]({settings}#\1)", _TARGET.sub(moved, _LINK.sub(kept, text)))


def _relative(place: str, uri: str) -> str:
    return os.path.relpath(place, os.path.dirname(uri) or ".")  # noqa: PTH120 (text, no files)
