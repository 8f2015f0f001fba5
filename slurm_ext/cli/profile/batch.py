"""A profile run by sbatch: the user's batch script, with another time limit and output."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_ext.cli.profile.checks import check
from slurm_ext.cli.profile.run_folder import (
    VARIABLES,
    ProfileLimits,
    ProfileRun,
    environment,
    left,
    run_folder,
)
from slurm_ext.core.errors import InputError, SlurmError

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings

_FIRST_S, _MOST_S, _SLOWER = 1.0, 15.0, 1.3  # between two questions for the job's state
_ARRIVE_S = 30.0  # for files to be seen through a network file system
_ASK_S = 60.0
_OUTPUT = "job.out"
_SAID = 2000  # characters of the job's last words
_OVER = re.compile(r"BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|NODE_FAIL|OUT_OF_ME|TIMEOUT")


def script_of(name: str) -> str | None:
    """The text of a batch script; None for what is not one: a program. Raises InputError."""
    from slurm_ext.cli.predict.script_file import MAX_SCRIPT_BYTES

    with suppress(OSError, ValueError), open(name, "rb") as file:  # noqa: PTH123 (a name with NUL)
        raw = file.read(MAX_SCRIPT_BYTES)
        if raw.startswith(b"#!") and b"\0" not in raw:
            return raw.decode("utf-8", "surrogateescape")
    return None


def sbatch_of(settings: "Settings") -> str | None:
    """The path of sbatch: where the settings, PATH or Slurm's daemons lead; None: no Slurm."""
    from slurm_ext.core.settings.slurm_place import slurm_bin

    return shutil.which("sbatch", path=slurm_bin(settings) or None)


def run(argv: list[str], script: str, limits: ProfileLimits, sbatch: str) -> ProfileRun:
    """Submit it by this sbatch and wait until it is over. Raises InputError, SlurmError."""
    from slurm_ext.advisor.pipeline import sbatch_options
    from slurm_ext.core.settings.own import own_settings_path

    check(argv, script)
    given = {
        **sbatch_options.options_of(script, argv[0]),
        **sbatch_options.environment_options(os.environ),
    }
    sbatch_options.refuse_foreign(script, argv[0], given)
    words = options(given, argv[0], limits)
    with run_folder(
        own_settings_path().parent / "profiles"
    ) as folder:  # where nodes see it as well
        output = folder / _OUTPUT
        out = [f"--output={output}", f"--error={output}", "--open-mode=append"]
        env = environment(folder, limits, os.environ)
        beside = Path(sbatch).parent
        job, where = _submitted([sbatch, "--parsable", *out, *words, *argv], env)
        print(f"dlqueue profile: job {job} is submitted", file=sys.stderr)
        with _cancelled_with_us([str(beside / "scancel"), *where, job]):
            how = _until_over(job, [str(beside / "scontrol"), *where, "show", "job", "-o", job])
        _arrived(folder)
        return left(folder, how, _last_words(output))


def options(given: Mapping[str, str | None], source: str, limits: ProfileLimits) -> list[str]:
    """Options that a profile run has instead of those given. Pure. Raises InputError."""
    if "hetjob" in given:
        raise InputError(source, "is a heterogeneous job: profile one of its parts")
    minutes = f"--time={_minutes(given.get('time'), source, limits)}"
    argv = [minutes, "--no-requeue", "--mail-type=NONE"]
    array = given.get("array")
    if array is not None:
        first = re.match(r"\d+", array)
        argv.append(f"--array={first[0] if first else 0}")
    return [*argv, f"--export={_export(given.get('export') or 'ALL')}"]


def _export(own: str) -> str:
    """All that the job needs of the environment: typed, it is stronger than SBATCH_EXPORT."""
    if own.upper() == "ALL":
        return own  # with a name beside it, nodes would load the user's environment anew
    return ",".join([*([] if own.upper() in ("NONE", "NIL") else [own]), *VARIABLES])


def _minutes(own: str | None, source: str, limits: ProfileLimits) -> int:
    from slurm_ext.core.units import parse_minutes

    needed = ceil(limits.whole_s / 60) + 1
    if own is None:
        return needed
    try:
        minutes = parse_minutes(own)
    except ValueError as error:
        raise InputError(source, f"--time: {error}") from None
    return needed if minutes is None else max(1, min(needed, ceil(minutes)))


def _submitted(argv: list[str], env: Mapping[str, str]) -> tuple[str, list[str]]:
    """The job's number, and the option that leads other commands to its cluster, if it has one."""
    job, _, cluster = _command(argv, env).strip().splitlines()[-1].partition(";")
    return job, [f"--clusters={cluster}"] if cluster else []


def _command(argv: list[str], env: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(argv[0], None, str(error)) from None
    if done.returncode:
        raise SlurmError(argv[0], done.returncode, done.stderr)
    return done.stdout


@contextmanager
def _cancelled_with_us(scancel: list[str]) -> Iterator[None]:
    """A profile that nobody waits for is cancelled: it is nobody's job."""
    try:
        yield
    except BaseException:
        with suppress(SlurmError):
            _command(scancel)
        raise


def _until_over(job: str, scontrol: list[str]) -> str:
    """Ask for the job's state, ever more seldom, until it is over; return how it ended."""
    pause_s = _FIRST_S
    while True:
        time.sleep(pause_s)
        pause_s = min(_SLOWER * pause_s, _MOST_S)
        try:
            output = _command(scontrol)
        except SlurmError as error:
            if "Invalid job id" in error.output:
                return "ended"
            continue  # slurmctld is away for a while
        states = set(re.findall(r"JobState=(\w+)", output))
        if states and all(map(_OVER.match, states)):
            return _how(job, states, output)


def _how(job: str, states: set[str], output: str) -> str:
    if states == {"COMPLETED"}:
        return "ended"
    code = re.search(r"ExitCode=(\d+:\d+)", output)
    return f"ended as {', '.join(sorted(states))} (job {job}, exit {code[1] if code else '?'})"


def _arrived(folder: Path) -> None:
    deadline = time.monotonic() + _ARRIVE_S
    while time.monotonic() < deadline and not any(folder.glob("windows-*.json")):
        time.sleep(1.0)


def _last_words(output: Path) -> str:
    with suppress(OSError):
        return output.read_bytes()[-_SAID:].decode("utf-8", "replace")
    return ""
