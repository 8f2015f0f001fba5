"""Pictures of the first screen are small, made by programs of the tree, and load nothing."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from contrib.docs.terminal import FOREGROUND, drawn, pieces
from tests.manual import ROOT

IMAGES = ROOT / "docs" / "images"
LARGEST = 100_000  # bytes: a first screen is seen over slow lines, too
HEAD = json.dumps({"version": 2, "width": 10, "height": 5, "title": "t"})


def recording(*events: tuple[float, str]) -> str:
    """A recording of ten columns."""
    return "\n".join([HEAD, *(json.dumps([at, "o", text]) for at, text in events)])


def test_the_terminals_picture_is_drawn_from_its_recording() -> None:
    """`python -m contrib.docs.terminal docs/images/terminal.cast docs/images/terminal.svg`."""
    text = (IMAGES / "terminal.cast").read_text(encoding="utf-8")
    assert (IMAGES / "terminal.svg").read_text(encoding="utf-8") == drawn(text)


def test_a_picture_is_one_file_without_script() -> None:
    """Pages that show it as an image allow nothing else."""
    tree = ET.parse(IMAGES / "terminal.svg")
    tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert tags == {"svg", "title", "style", "rect", "circle", "g", "text"}
    assert "url(" not in (IMAGES / "terminal.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(IMAGES.iterdir()), ids=lambda path: path.name)
def test_a_picture_is_small(path: Path) -> None:
    """The first screen is there at once."""
    assert path.stat().st_size < LARGEST


def test_lines_wrap_where_the_terminal_ends() -> None:
    """At its width, and a line that is as long as the terminal is wide leaves none empty."""
    found = [
        (p.row, p.column, p.text) for p in pieces(recording((0, "0123456789ab\r\n0123456789\r\nc")))
    ]
    assert found == [(0, 0, "0123456789"), (1, 0, "ab"), (2, 0, "0123456789"), (3, 0, "c")]


def test_colours_last_until_they_are_reset() -> None:
    """Over several events; other codes of a terminal are left out."""
    found = list(pieces(recording((0, "\x1b[1;32m$"), (0.5, "a\x1b[0m\x1b[2Kb"))))
    assert [(p.text, p.colour == FOREGROUND, p.bold) for p in found] == [
        ("$", False, True),
        ("a", False, True),
        ("b", True, False),
    ]


def test_a_long_wait_is_shortened() -> None:
    """Nobody watches a training; what follows keeps its own pace."""
    found = [p.at_s for p in pieces(recording((0, "a"), (90, "b"), (90.5, "c")))]
    assert found == [0, 1.5, 2.0]


def test_text_of_a_program_is_never_markup() -> None:
    """A job's name may hold what XML reads."""
    tree = ET.fromstring(drawn(recording((0, "<b>&"))))
    assert "<b>&" in {element.text for element in tree.iter()}
