"""What slurmdbd knows of ended jobs, month by month, by sacct."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from tempfile import TemporaryFile

from slurm_ext.core.errors import SlurmError

DELIMITER = "\x1f"  # a job's name may hold any sign that people can type
WINDOW_S = 30 * 86400.0
TIMEOUT_S = 600.0
_CLOCK = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}  # local time has an hour twice a year, or not


def windows(since_s: float, until_s: float) -> list[tuple[float, float]]:
    """Periods to ask for one by one: slurmdbd answers a year at once only after minutes."""
    count = max(1, -int(-(until_s - since_s) // WINDOW_S))
    starts = [since_s + index * WINDOW_S for index in range(count)]
    return list(zip(starts, [*starts[1:], until_s], strict=True))


def ended(
    columns: Sequence[str], since_s: float, until_s: float, *, env: Mapping[str, str] | None = None
) -> Iterator[list[str]]:
    """The fields of each job that was there in the period, all users'. Raises SlurmError."""
    argv = ["sacct", "--allusers", "--allocations", "--parsable2", "--noheader"]
    argv += ["--delimiter", DELIMITER, "--format", ",".join(columns)]
    argv += ["--starttime", _moment(since_s), "--endtime", _moment(until_s)]
    with TemporaryFile() as out, TemporaryFile() as complaints:
        try:
            done = subprocess.run(
                argv,
                env={**(os.environ if env is None else env), **_CLOCK},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=complaints,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SlurmError("sacct", None, f"no answer within {TIMEOUT_S:g} s") from None
        except OSError as error:
            raise SlurmError("sacct", None, f"sacct: {error.strerror}") from None
        complaints.seek(0)
        if done.returncode != 0:
            said = complaints.read().decode(errors="replace")
            raise SlurmError("sacct", done.returncode, said)
        out.seek(0)
        for line in out:
            yield line.decode("utf-8", "surrogateescape").rstrip("\n").split(DELIMITER)


def _moment(epoch_s: float) -> str:
    """As sacct takes it: 22.05 knows no seconds since the epoch."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(epoch_s))
