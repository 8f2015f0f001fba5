"""Predicted durations from a file of their own, joined to a trace by job id."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_ext.core.errors import InputError, unreadable
from slurm_ext.simulate.trace.columns import Trace
from slurm_ext.simulate.trace.row import optional_s

UNKNOWN = "estimates of jobs that the trace does not have: not used"


def with_estimates(trace: Trace, path: Path) -> Trace:
    """The trace with estimate_s from a CSV with the columns job and estimate_s (s, over 0).

    Jobs that the file does not name keep what they had. Raises InputError, naming the line.
    """
    places = {job: place for place, job in enumerate(trace.job)}
    estimates = np.array(trace.estimate_s)
    unknown = 0
    for job, seconds in _pairs(path).items():
        place = places.get(job)
        if place is None:
            unknown += 1
        else:
            estimates[place] = seconds
    repairs = {**trace.repairs, UNKNOWN: unknown} if unknown else trace.repairs
    return replace(trace, estimate_s=estimates, repairs=repairs)


def _pairs(path: Path) -> dict[str, float]:
    estimates: dict[str, float] = {}
    line = 1
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, restval="")
            if not {"job", "estimate_s"} <= set(reader.fieldnames or ()):
                raise InputError(str(path), "expected the columns job and estimate_s", line=1)
            for row in reader:
                line = reader.line_num
                if row["job"] in estimates:
                    raise ValueError(f"job {row['job']} is there twice")
                estimates[row["job"]] = optional_s(row["estimate_s"], "estimate_s")
    except ValueError as error:
        raise InputError(str(path), str(error), line=line) from None
    except (OSError, csv.Error) as error:
        raise unreadable(str(path), error) from None
    return estimates
