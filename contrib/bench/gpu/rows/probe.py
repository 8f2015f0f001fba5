"""The probe with CUDA: what it costs, and its waits and steps against a synchronised truth.

A step's kernels run after the host has gone on, so that the probe's clock, which is the host's, is
not the device's. Beside it: marks on the device around each wait (CUDA events), and the same
training whose device is waited for before and after each wait, by the host's clock: the truth.
Two trainings never load data equally fast, so that shares of the batch are compared, too.
"""

from collections.abc import Mapping

from contrib.bench.gpu.here import Here
from contrib.bench.gpu.report import Report, repeats
from contrib.bench.gpu.trainings import Trained, Training

SPAN_S, PAIR_S = 1.5, 1.0
KINDS = {"fed": ("ready", 2), "starved": ("jpeg", 1)}  # the samples' source, and workers


def measure(here: Here, report: Report) -> None:
    """By turns: without and with the probe, then the three clocks."""
    here.needs_device()
    with Training(here, {}) as training:
        training.hear()
        for number in repeats(0.4 * here.seconds):
            _overhead(report, training, probe_first=bool(number % 2))
        for _ in repeats(0.5 * here.seconds, least=2):
            for kind in KINDS:
                _clocks(report, training, kind)
        version = training.summary()
    report.facts["accelerator that the probe names"] = version["accelerator"]
    report.facts["faults of the probe"] = version["faults"]


def _overhead(report: Report, training: Training, *, probe_first: bool) -> None:
    """The training that waits for nothing: every microsecond of the probe's is the training's."""
    ways = ("probed", "plain") if probe_first else ("plain", "probed")
    found = {way: training.run(PAIR_S, *KINDS["fed"], way=way) for way in ways}
    report.add("plain_rate", found["plain"].rate, "samples/s")
    report.add("overhead", found["plain"].rate / found["probed"].rate - 1)


def _clocks(report: Report, training: Training, kind: str) -> None:
    truth = training.run(SPAN_S, *KINDS[kind], way="synchronised")
    found = training.run(SPAN_S, *KINDS[kind], way="marked")
    report.add(f"{kind}_wait_true", truth.wait_s, "s")
    report.add(f"{kind}_step_true", truth.step_s, "s")
    report.add(f"{kind}_synchronising_costs", truth.batch_s / found.batch_s - 1)
    for clock, wait_s in _waits(found).items():
        if wait_s is None:
            report.lacks(f"{kind}: {clock}", "that clock counted no batch")
            continue
        report.add(f"{kind}_wait_{clock}", wait_s, "s")
        report.add(f"{kind}_wait_error_{clock}", abs(wait_s - truth.wait_s) / truth.batch_s)
        shares = wait_s / found.batch_s, truth.wait_s / truth.batch_s
        report.add(f"{kind}_wait_share_error_{clock}", abs(shares[0] - shares[1]))
        step_s = found.batch_s - wait_s
        report.add(f"{kind}_step_error_{clock}", abs(step_s - truth.step_s) / truth.batch_s)


def _waits(found: Trained) -> Mapping[str, float | None]:
    """Seconds of a wait by each clock of one training."""
    probe = found.probe["wait_s"] if found.probe else None
    return {"probe": probe, "events": found.marks_wait_s, "host": found.wait_s}
