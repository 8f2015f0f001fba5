"""Messages of errors: one line that says where, what and why."""

import importlib
import os

import pytest

from slurm_ext.core import errors


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.MissingError("no munge", "install it"), "no munge; install it"),
        (errors.InputError("f.toml", "is torn"), "f.toml: is torn"),
        (errors.InputError("f.toml", "is torn", line=0), "f.toml:0: is torn"),
        (
            errors.SettingsError("f", "a.b", "x", "a number"),
            "f: a.b = 'x' is not valid: expected a number",
        ),
    ],
)
def test_a_message_is_one_line(error: errors.DlqueueError, message: str) -> None:
    """As the command line prints it."""
    assert str(error) == message


@pytest.mark.parametrize(
    ("status", "output", "message"),
    [
        (1, " no route \n", "squeue (exit 1): no route"),
        (0, "", "squeue (exit 0): printed nothing"),
        (None, "no answer", "squeue: no answer"),
    ],
)
def test_a_failed_command_is_told_with_what_it_printed(
    status: int | None, output: str, message: str
) -> None:
    """And with its exit status, where it has one."""
    assert str(errors.SlurmError("squeue", status, output)) == message


def test_an_absent_package_of_an_extra_is_told_with_the_extra() -> None:
    """The package, and what to type; every other error goes by."""
    with (
        pytest.raises(
            errors.MissingError, match=r"no_such_package is not.*; pip install 'dlqueue\[plots\]'"
        ),
        errors.Extra("plots"),
    ):
        importlib.import_module("no_such_package")
    with pytest.raises(ZeroDivisionError), errors.Extra("plots"):
        raise ZeroDivisionError


def test_errors_keep_their_parts() -> None:
    """For callers that put the message together in another way."""
    slurm = errors.SlurmError("squeue", 3, "raw\n")
    assert (slurm.command, slurm.status, slurm.output) == ("squeue", 3, "raw\n")
    missing = errors.MissingError("a", "b")
    assert (missing.what, missing.how) == ("a", "b")
    wrong = errors.SettingsError("f", "k", 1, "v")
    assert (wrong.source, wrong.key, wrong.value, wrong.line) == ("f", "k", 1, None)
    assert errors.InputError("f", "why", line=3).line == 3


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (FileNotFoundError(2, os.strerror(2), "f"), "cannot be read: No such file or directory"),
        (OSError("odd"), "cannot be read: odd"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), "is not UTF-8 text"),
        (ValueError("no JSON"), "cannot be read: no JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_once(error: Exception, why: str) -> None:
    """The system's reason, without the name that it repeats."""
    assert str(errors.unreadable("f", error)) == f"f: {why}"
