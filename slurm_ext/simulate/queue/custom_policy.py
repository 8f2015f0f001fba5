"""A queue policy of one's own: a function or a class in a Python file, replayed beside ours.

`mine.py:patient+backfill` is the function `patient(jobs)` of mine.py, a pure one: from columns
(waiting_jobs.py) to one number a job, lowest first. It is asked about the whole trace at once, so
that a key has to come from its own job alone: engine.py notes where it does not. A `Rule` in
its place says more: `estimated=True` for predicted run times, `oracle=True` for true ones. A class
remembers: stateful.py says what it has; each replay makes an object of it, without arguments.
"""

import importlib.util
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from slurm_ext.core.errors import InputError, UsageError
from slurm_ext.policy.queue.order import ADDED, ORDERS, Floats, QueuedJobs, Rule, rule_of
from slurm_ext.simulate.queue.stateful import BEGIN, HOOKS

FILE = ".py:"  # a part of --policy that has it is a file's


def rules_of(text: str, orders: Mapping[str, Rule] = ORDERS) -> list[Rule]:
    """The rules of a comma-separated list, each once. Raises UsageError and InputError."""
    parts = text.split(",")
    rules = [custom_rule(part) if FILE in part else rule_of(part, orders) for part in parts]
    names = [rule.name for rule in rules]
    if len(set(names)) < len(names):
        raise UsageError(f"--policy {text!r} names one policy twice")
    return rules


def custom_rule(text: str) -> Rule:
    """The rule `FILE.py:NAME[+backfill][+ageing]`. Raises UsageError and InputError."""
    folder_and_stem, _, rest = text.strip().rpartition(FILE)
    name, *added = rest.split("+")
    if len(set(added)) < len(added) or not set(added) <= set(ADDED):
        raise UsageError(f"--policy {text!r}: +{' or +'.join(ADDED)} may follow {name!r}, once")
    path = Path(f"{folder_and_stem}.py")
    rule = _rule(path, name)
    if rule.stateful is not None and "ageing" in added:
        raise UsageError(f"--policy {text!r}: a class ages its jobs itself, by every_s")
    extra: dict[str, Any] = dict.fromkeys(added, True)
    return replace(rule, name=f"{path.stem}:{rest}", **extra)


def _rule(path: Path, name: str) -> Rule:
    value = getattr(_loaded(path), name, None)
    if isinstance(value, type):
        if not callable(getattr(value, "keys", None)):
            raise InputError(str(path), f"class {name!r} has no method keys(self, jobs)")
        return Rule(
            name=name,
            keys=lambda jobs: jobs.submit_s,
            stateful=lambda: Guarded(value, path, name),
            oracle=bool(getattr(value, "oracle", False)),
            estimated=bool(getattr(value, "estimated", False)),
        )
    if not callable(value) and not isinstance(value, Rule):
        raise InputError(str(path), f"has no function, class or Rule {name!r}")
    rule = value if isinstance(value, Rule) else Rule(name=name, keys=value, wide=True)
    return replace(rule, keys=_checked(rule.keys, path, name))


class Guarded:
    """An object of a class of one's own. Its faults are InputErrors, with the file and the line."""

    def __init__(self, made: type, path: Path, name: str) -> None:
        self._path = path
        policy = self._guarded(made)()
        self.every_s = self._seconds(getattr(policy, "every_s", inf))
        self.keys = _checked(policy.keys, path, name)
        for hook in (BEGIN, *HOOKS):
            if hasattr(policy, hook):
                setattr(self, hook, self._guarded(getattr(policy, hook)))

    def _guarded(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            try:
                return call(*args)
            except Exception as error:
                raise _fault(self._path, error) from None

        return called

    def _seconds(self, value: Any) -> float:
        if isinstance(value, (int, float)) and value > 0:
            return float(value)
        raise InputError(str(self._path), f"every_s is {value!r}: expected seconds over 0")


def _loaded(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(str(path), "is no file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:  # never for a name that ends with .py
        raise InputError(str(path), "is no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _fault(path, error) from None
    return module


def _checked(
    keys: Callable[[QueuedJobs], Any], path: Path, name: str
) -> Callable[[QueuedJobs], Floats]:
    """The same function, whose answer is one finite number a job. Raises InputError."""

    def asked(jobs: QueuedJobs) -> Floats:
        try:
            values = np.asarray(keys(jobs), dtype=np.float64)
        except Exception as error:
            raise _fault(path, error) from None
        if values.shape != jobs.submit_s.shape:
            why = f"{name} gave an array of the shape {values.shape} for {len(jobs.submit_s)} jobs"
            raise InputError(str(path), f"{why}: expected one number a job")
        if not np.isfinite(values).all():
            why = f"{name} gave {values[~np.isfinite(values)][0]}: expected finite numbers"
            raise InputError(str(path), f"{why} (estimate_s is nan where a trace has none)")
        return values

    return asked


def _fault(path: Path, error: BaseException) -> InputError:
    """Error of the file, with the line."""
    if isinstance(error, SyntaxError):
        return InputError(str(path), f"SyntaxError: {error.msg}", line=error.lineno)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == path.absolute()]
    return InputError(str(path), f"{type(error).__name__}: {error}", line=(lines or [None])[-1])
