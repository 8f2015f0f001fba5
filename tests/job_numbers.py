"""Job numbers of test sandboxes: no two that are up together give one number, or one port.

Files are named by job numbers (`/tmp/dlqueue-JOBID-...`), and ports are 12,000 numbers modulo.
"""

import os
import zlib
from itertools import count

WORKERS = 16  # more would share numbers
ROUNDS = 340  # of each worker, before its numbers come again
APART = 12_100  # numbers of a sandbox, whose ports are a hundred beside the next one's

_made = count()


def first_job_line() -> str:
    """The next sandbox's line of slurm.conf: far below 67,043,328, Slurm's MaxJobId."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    return f"FirstJobId={first_job_id(int(worker), run, next(_made))}\n"


def first_job_id(worker: int, run: str, made: int) -> int:
    """The first number of a sandbox that is the `made`-th of its worker in a run of tests."""
    nth = (zlib.crc32(run.encode()) + made) % ROUNDS
    return 1 + APART * (nth * WORKERS + worker % WORKERS)
