"""DLQUEUE_ELASTIC as users write it, in a comment or in the environment, and as loops are told."""

from pathlib import Path

import pytest

from slurm_ext.core.elastic_requests import (
    BAD,
    NAME,
    fault_in,
    parse_bounds,
    read,
    requested_bounds,
    write,
)
from slurm_ext.core.errors import InputError


@pytest.mark.parametrize(
    ("words", "variable", "asked", "bounds"),
    [
        ([], None, None, None),
        ([], "2-16", "2-16", (2, 16)),
        ([], " 1-8 ", "1-8", (1, 8)),
        (["mine", "DLQUEUE_ELASTIC=1-4"], "2-16", "1-4", (1, 4)),
        (["DLQUEUE_ELASTIC=4-1"], "2-16", "4-1", None),
        (["DLQUEUE_ELASTIC=1-4", "DLQUEUE_ELASTIC=2-4"], None, "1-4 2-4", None),
        (["DLQUEUE_ELASTIC", "elastic=1-4", "xDLQUEUE_ELASTIC=1-4"], None, None, None),
        ([], "off", None, None),
        ([], "0", None, None),
        ([], "", None, None),
        ([], "8", "8", None),
        ([], "0-8", "0-8", None),
        ([], "1-100000", "1-100000", None),
        ([], "1\u0664-8", "1\u0664-8", None),
        ([], "x" * 500, "x" * 64, None),
    ],
)
def test_the_comment_goes_before_the_environment(
    words: list[str], variable: str | None, asked: str | None, bounds: tuple[int, int] | None
) -> None:
    """What is wrong is still asked for, so that somebody tells its owner."""
    assert requested_bounds(words, variable) == asked
    assert parse_bounds(asked) == bounds


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Nobody wrote: nothing is known."""
    assert read(tmp_path) == {}
    write(tmp_path, {7: "1-8", 12: "odd \u2028 \udc80"})
    assert read(tmp_path) == {7: "1-8", 12: "odd \u2028 \udc80"}
    write(tmp_path, {})
    assert read(tmp_path) == {}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "null",
        '{"v": 2, "jobs": {}}',
        '{"v": 1}',
        '{"v": 1, "jobs": {"x": "1"}}',
        "[" * 50_000,
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, body: str) -> None:
    """One error, with the path."""
    (tmp_path / NAME).write_text(body)
    with pytest.raises(InputError, match=NAME):
        read(tmp_path)


def test_the_file_is_the_loops_format(tmp_path: Path) -> None:
    """Sorted by job, under its version; a word is never longer than 64 characters."""
    write(tmp_path, {12: "1-8", 7: "2-4"})
    assert (tmp_path / "elastic.json").read_text() == '{"v": 1, "jobs": {"7": "2-4", "12": "1-8"}}'
    assert requested_bounds([], "y" * 65) == "y" * 64
    assert requested_bounds(["DLQUEUE_ELASTIC="], "1-2") == ""


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("1-1", (1, 1)),
        ("99999-99999", (99999, 99999)),
        ("2-1", None),
        ("100000-100000", None),
        ("01-2", None),
        ("1-8 ", None),
        (None, None),
    ],
)
def test_bounds_are_two_numbers_in_order(text: str | None, bounds: tuple[int, int] | None) -> None:
    """Equal ones are a size that is fixed."""
    assert parse_bounds(text) == bounds


@pytest.mark.parametrize(
    ("words", "variable", "fault"),
    [
        ([], None, None),
        ([], "off", None),
        ([], "1-8", None),
        ([], "8-1", BAD),
        (["DLQUEUE_ELASTIC=1-8"], "8-1", None),
        (["DLQUEUE_ELASTIC=1"], "1-8", BAD),
    ],
)
def test_a_request_that_is_not_valid_is_explained(
    words: list[str], variable: str | None, fault: str | None
) -> None:
    """The message shows a valid one; who asked for nothing is told nothing."""
    assert fault_in(words, variable) == fault
    assert BAD == "DLQUEUE_ELASTIC is not MIN-MAX (two numbers of GPUs, such as 1-8)"


@pytest.mark.parametrize("word", ["NO", "False", " off ", "0"])
def test_words_for_no(word: str) -> None:
    """In any case, as people write them."""
    assert requested_bounds([], word) is None


def test_messages_name_the_fault(tmp_path: Path) -> None:
    """Another version, and a folder that cannot be read."""
    (tmp_path / NAME).write_text('{"v": 2, "jobs": {}}')
    with pytest.raises(InputError, match="version 2, expected 1"):
        read(tmp_path)
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    with pytest.raises(InputError, match=r"elastic.json: cannot be read: Is a directory"):
        read(tmp_path)
