"""Errors that dlqueue raises on purpose; each message says what to do next.

DlqueueError
├── UsageError             the command line is wrong (exit 2)
├── MissingError           something is not installed or not running
├── InputError             a file or text cannot be used
│   ├── SettingsError      a key of dlqueue.toml
│   └── RecordError        a spool record
├── WireError              a line between slurmctld and the advisor
├── AdvisorError           the advisor cannot be reached, or is not believed
│   └── NoAdvisorError     nobody answers where it should be
├── RefusedError           who asks may not see that
├── SlurmError             a Slurm command failed
├── HistoryError           history.db cannot be used
│   └── NoHistoryError     there is none yet
├── ModelError             a model artifact cannot be used
└── SandboxError           a private Slurm did not come up

This module imports nothing, so that every module can import it.
"""


class DlqueueError(Exception):
    """Root of the tree. The command line prints it in one line and exits with `exit_code`."""

    exit_code = 1


class UsageError(DlqueueError):
    """The command line is wrong."""

    exit_code = 2


class MissingError(DlqueueError):
    """Something that is needed is absent; `how` says how to get it."""

    def __init__(self, what: str, how: str) -> None:
        self.what, self.how = what, how
        super().__init__(f"{what}; {how}")


class Extra:
    """`with Extra("plots"): import matplotlib`: a MissingError says how to get what is absent."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        """Begin the imports."""

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        """Raise MissingError in place of an ImportError."""
        if isinstance(error, ImportError):
            raise self.lacks(error.name or str(error)) from None

    def lacks(self, package: str) -> MissingError:
        """MissingError for a package that comes with this extra of dlqueue's."""
        return MissingError(f"{package} is not installed", f"pip install 'dlqueue[{self.name}]'")


class InputError(DlqueueError):
    """A file or text cannot be used: which, where and why."""

    def __init__(self, source: str, why: str, *, line: int | None = None) -> None:
        self.source, self.why, self.line = source, why, line
        where = source if line is None else f"{source}:{line}"
        super().__init__(f"{where}: {why}")


def unreadable(source: str, error: Exception) -> InputError:
    """InputError for a failure to read `source`, with the system's reason and the name once."""
    if isinstance(error, UnicodeDecodeError):
        return InputError(source, "is not UTF-8 text")
    return InputError(source, f"cannot be read: {getattr(error, 'strerror', None) or error}")


class SettingsError(InputError):
    """One key of a settings file is wrong; the message names what is valid."""

    def __init__(self, source: str, key: str, value: object, valid: str) -> None:
        self.key, self.value, self.valid = key, value, valid
        super().__init__(source, f"{key} = {value!r} is not valid: expected {valid}")


class RecordError(InputError):
    """A spool record is torn, hostile, of another version or out of bounds."""


class WireError(DlqueueError):
    """A line of the submit protocol is not what its version promises."""


class AdvisorError(DlqueueError):
    """The advisor is not there, or does not answer in time."""


class NoAdvisorError(AdvisorError):
    """Nobody answers where an advisor for questions should be."""


class RefusedError(DlqueueError):
    """An answer that its asker may not have: about another user's job."""


class SlurmError(DlqueueError):
    """A Slurm command failed: the command, its exit status and its output."""

    def __init__(self, command: str, status: int | None, output: str) -> None:
        self.command, self.status, self.output = command, status, output
        ended = "" if status is None else f" (exit {status})"
        super().__init__(f"{command}{ended}: {output.strip() or 'printed nothing'}")

    @classmethod
    def not_started(cls, command: str, program: str, error: OSError) -> "SlurmError":
        """Error of a command that did not start; without the command it says what to install."""
        if not isinstance(error, FileNotFoundError):
            return cls(command, None, f"{program}: {error.strerror}")
        advice = "install Slurm's client commands, or set paths.slurm_bin"
        return cls(command, None, f"{program} is not here: {advice}")


class HistoryError(DlqueueError):
    """history.db is locked, read-only, corrupt, or from a newer dlqueue."""


class NoHistoryError(HistoryError):
    """history.db does not exist or holds nothing yet: the advisor sets it up."""


class ModelError(DlqueueError):
    """A model artifact is missing, damaged or of another version."""


class SandboxError(DlqueueError):
    """A sandbox did not come up or does not exist; names the log to read."""
