"""The nouns: frozen, and None is "not set" and never a number."""

from dataclasses import FrozenInstanceError, fields

import pytest

from slurm_ext.core import errors
from slurm_ext.core.records import Edits, Level, Shape, Submission


def test_a_record_cannot_be_changed_after_the_fact() -> None:
    """What was decided from is what is kept."""
    shape = Shape(cpus_per_task=1, num_workers=0)
    with pytest.raises(FrozenInstanceError):
        shape.num_workers = 2  # type: ignore[misc]  # that it is refused is the point


def test_shapes_are_values() -> None:
    """Equal shapes are one key, so that a shape is predicted once."""
    assert len({Shape(cpus_per_task=1, num_workers=2), Shape(cpus_per_task=1, num_workers=2)}) == 1


def test_levels_stand_nearest_first() -> None:
    """Back-off follows the order of Level."""
    assert next(iter(Level)) is Level.SCRIPT_ARGS
    assert list(Level)[-1] is Level.CLUSTER


def test_nothing_is_edited_by_default() -> None:
    """An empty Edits leaves every field of the job alone."""
    assert all(getattr(Edits(), field.name) in (None, {}) for field in fields(Edits))


def test_an_empty_submission_asks_for_nothing() -> None:
    """No count of a fresh Submission is a number that nobody wrote."""
    counts = [f.name for f in fields(Submission) if "int | None" in str(f.type)]
    assert len(counts) > 8
    assert all(getattr(Submission(), name) is None for name in counts)


def test_every_error_is_ours_and_is_documented() -> None:
    """One `except DlqueueError` at the command line catches all; the tree names each."""
    ours = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)]
    assert all(issubclass(e, errors.DlqueueError) for e in ours)
    assert all(e.__name__ in str(errors.__doc__) for e in ours)


def test_only_a_wrong_command_line_exits_with_two() -> None:
    """Exit 1 is "could not", 2 is "wrong usage"."""
    assert errors.UsageError.exit_code == 2
    assert errors.InputError("f", "why").exit_code == 1


def test_an_input_error_says_where() -> None:
    """File and line stand in front, as compilers write them."""
    assert str(errors.InputError("job.toml", "is torn", line=3)) == "job.toml:3: is torn"
    assert str(errors.MissingError("munge is missing", "apt install munge")).endswith("munge")
