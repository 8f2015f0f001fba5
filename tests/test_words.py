"""The package's language: plain first lines, and one meaning for each public class name."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.house import BENCH, PACKAGE

# A first line says what a thing is or does; these words were a private language for it.
NOUN_CLAUSE = r"^(What|Whether|Who|Whom|Whose|Whoever|Whatever|How|Where|Wherever|When|Why)\b"
DIALECT = (
    r"\b(told|foretold|foretells?|foreteller|whoever|whomever|grudges?|lessons?|taught|tenanc\w+"
    r"|tenants?|journey|stray\w*|likeness|keeper|duty|duties|thought|companions?|anew|beliefs?"
    r"|believed?|asked of|speaks?|befell|whereabouts)\b"
)


def first_lines(package: Path = PACKAGE) -> Iterator[tuple[str, str]]:
    """The place and the first docstring line of each module, class and function."""
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node)
                if text:
                    name = getattr(node, "name", "")
                    yield f"{path.relative_to(package)}:{name}", text.partition("\n")[0]


def in_dialect(package: Path = PACKAGE) -> list[str]:
    """Each first line that a newcomer would read twice, with its place; a benchmark may ask."""
    return [
        f"{place}: {line}"
        for place, line in first_lines(package)
        if (re.search(NOUN_CLAUSE, line) and not (package == BENCH and line.endswith("?")))
        or re.search(DIALECT, line, re.IGNORECASE)
    ]


def meant_twice() -> dict[str, list[str]]:
    """Public class names that are defined in more than one file."""
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    return {name: files for name, files in places.items() if len(files) > 1}


def test_first_lines_are_plain() -> None:
    """A docstring's first line is a sentence or a noun phrase of the field, not a riddle."""
    assert in_dialect() == []


def test_first_lines_of_benchmarks_are_plain() -> None:
    """Benchmarks are read by people who compare systems, not by us."""
    assert in_dialect(BENCH) == []


def test_a_public_class_name_has_one_meaning() -> None:
    """A search for a class name finds one class."""
    assert meant_twice() == {}
