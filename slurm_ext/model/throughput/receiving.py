"""Seconds that a training process takes to receive a batch, where no run of it shows them.

Runs without workers never do. It depends on the machine more than on the program (one core half as
fast, a kernel that wakes processes later), so that the same user's other runs with workers on such
a machine say it, as widely as they differ. Nobody else's do. Pure.
"""

from collections.abc import Iterable, Sequence
from math import log

from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.model.throughput.curve.costs import RECEIVE_S
from slurm_ext.model.throughput.evidence_checks import usable_runs
from slurm_ext.model.throughput.inversion import MEASURED_SD, LogNormal, invert_once
from slurm_ext.model.throughput.pooling import pooled

Machine = tuple[int | None, str | None]  # its cores and its GPUs' model
ReceiveTimes = tuple[tuple[Machine, LogNormal], ...]
"""A user's, by machine."""
# Of a batch where nothing shows it: contrib/bench/curve saw 1 ms, a machine half as fast 5 to 7 ms
# where workers compute in Python, which lets their other threads answer at its switch interval.
UNSEEN = LogNormal(log(0.002), 0.7)
LEAST_S = RECEIVE_S / 10
DIGITS = 1  # of the logs: what hardly differs is no new estimate


def machine_of(runs: Iterable[LoaderRun]) -> Machine:
    """The kind of machine of the newest run."""
    return next(((run.node_cores, run.gpu_model) for run in runs), (None, None))


def learned(runs: Sequence[LoaderRun]) -> LogNormal | None:
    """Pool what runs of other programs on one machine show, newest first; None: nothing."""
    shown = [
        LogNormal(log(max(LEAST_S, seconds)), MEASURED_SD)
        for run in usable_runs(runs)
        if (seconds := invert_once(run).receive_s) is not None
    ]
    if not shown:
        return None
    rate = pooled(UNSEEN, shown, Level.USER_NAME)
    return LogNormal(round(rate.log_mean, DIGITS), round(rate.log_sd, DIGITS))


def of_user(runs: Sequence[LoaderRun]) -> ReceiveTimes:
    """Receive times by machine, of one user's newest runs, newest first."""
    machines = dict.fromkeys(machine_of([run]) for run in runs)
    by_machine = {
        machine: [run for run in runs if machine_of([run]) == machine] for machine in machines
    }
    rates = ((machine, learned(some)) for machine, some in by_machine.items())
    return tuple((machine, rate) for machine, rate in rates if rate is not None)
