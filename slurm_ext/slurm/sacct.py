"""Reads ended jobs from slurmdbd by sacct, month by month."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from tempfile import TemporaryFile

from slurm_ext.core.errors import SlurmError

DELIMITER = "\x1f"  # a job's name may hold any other sign that people can type
WINDOW_S = 30 * 86400.0
TIMEOUT_S = 600.0
# Local time repeats or skips an hour; a federation may show all of its clusters' jobs.
ENV = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "SACCT_LOCAL": "1"}


def windows(since_s: float, until_s: float) -> list[tuple[float, float]]:
    """Split a period into months: slurmdbd needs minutes to answer for a whole year."""
    count = max(1, -int(-(until_s - since_s) // WINDOW_S))
    starts = [since_s + index * WINDOW_S for index in range(count)]
    return list(zip(starts, [*starts[1:], until_s], strict=True))


def ended(
    columns: Sequence[str], since_s: float, until_s: float, *, env: Mapping[str, str] | None = None
) -> Iterator[list[str]]:
    """Yield the fields of each job of the period, of all users. Raises SlurmError."""
    argv = ["sacct", "--allusers", "--allocations", "--parsable2", "--noheader"]
    argv += ["--delimiter", DELIMITER, "--format", ",".join(columns)]
    argv += ["--starttime", moment(since_s), "--endtime", moment(until_s)]
    with TemporaryFile() as out, TemporaryFile() as errors:
        try:
            done = subprocess.run(
                argv,
                env={**(os.environ if env is None else env), **ENV},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SlurmError("sacct", None, f"no answer within {TIMEOUT_S:g} s") from None
        except OSError as error:
            raise SlurmError.not_started("sacct", "sacct", error) from None
        errors.seek(0)
        if done.returncode != 0:
            raise SlurmError("sacct", done.returncode, errors.read().decode(errors="replace"))
        out.seek(0)
        for line in out:
            yield line.decode("utf-8", "surrogateescape").rstrip("\n").split(DELIMITER)


def moment(epoch_s: float) -> str:
    """Format a time for sacct: 22.05 does not take seconds since the epoch."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(epoch_s))
