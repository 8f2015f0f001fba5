"""The demo's work: the same trainings twice on a private Slurm, with learning in between."""

import json
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_ext.cli.sandbox.play import EXAMPLES, settings
from slurm_ext.core.errors import MissingError, SandboxError
from slurm_ext.core.wire import encode_request
from slurm_ext.history.store.store import open_history
from slurm_ext.history.views.queries import job as job_in
from slurm_ext.sandbox import Sandbox, SandboxSpec

TRAININGS = ("compute_train", "greedy_train", "jpeg_train", "slow_storage_train")
NODE_CPUS = 8  # what Slurm believes, as much as the greedy example asks for
JOB_TIMEOUT_S = 300
LEARN_TIMEOUT_S = 90

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow:
    """One training, before and after; rates are samples/s of the whole run, as promised."""

    script: str
    left_alone: bool
    cpus_per_task: tuple[int, int]
    num_workers: tuple[int, int]
    samples_per_s: tuple[float, float]
    predicted_samples_per_s: float | None
    interval: tuple[float, float] | None
    message: str
    emulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """Result of the demo."""

    jobs: list[TrainingRow]
    rejected_jobs: int
    drained_nodes: int
    records: int
    slurm_version: str
    cores: int


def spec(overrides: Mapping[str, Any]) -> SandboxSpec:
    """The demo's cluster: one node, all of dlqueue, acting, with the settings given."""
    return SandboxSpec.dlqueue(cpus=NODE_CPUS, private=True, settings=settings(overrides))


def scripts() -> list[Path]:
    """The batch scripts, in order. Raises MissingError where they are not."""
    paths = [EXAMPLES / f"{name}.sbatch" for name in TRAININGS]
    if not all(script.exists() for script in paths):
        raise MissingError(
            f"the example trainings are not at {EXAMPLES}",
            "install dlqueue once more, or run its clone",
        )
    return paths


def play(sandbox: Sandbox, tell: Progress) -> DemoResult:
    """Submit every example, learn, submit them again; one job at a time, so that none disturbs."""
    work = sandbox.path("work")
    shutil.copytree(EXAMPLES, work, dirs_exist_ok=True)
    names = [script.name for script in scripts()]
    first = [_run(sandbox, work, name, f"as written: {name}", tell) for name in names]
    tell("learning from those runs")
    _until_learned(sandbox, len(names))
    second = [_run(sandbox, work, name, f"once more: {name}", tell) for name in names]
    tell("collecting what was measured")
    rows = [_row(sandbox, *jobs) for jobs in zip(names, first, second, strict=True)]
    return DemoResult(
        jobs=rows,
        rejected_jobs=rejected(sandbox),
        drained_nodes=_drained(sandbox),
        records=_records(sandbox),
        slurm_version=sandbox.run(["sbatch", "--version"]).stdout.split()[-1],
        cores=os.cpu_count() or 1,
    )


def _run(sandbox: Sandbox, work: Path, name: str, doing: str, tell: Progress) -> tuple[int, str]:
    """One job to its end; its id and dlqueue's line at sbatch."""
    tell(doing)
    job_id, text = sandbox.sbatch(name, cwd=work, env=_with_our_python())
    state = sandbox.wait(job_id, JOB_TIMEOUT_S)
    if state != "COMPLETED":
        raise SandboxError(f"{name} ended {state}; it printed:\n{sandbox.output(job_id)[-2000:]}")
    _document_of(sandbox, job_id)
    lines = [line.partition("sbatch: ")[2] for line in text.splitlines() if "dlqueue" in line]
    return job_id, " ".join(lines)


def _with_our_python() -> dict[str, str]:
    """The user's usual environment: an interpreter that has torch comes first on PATH."""
    return {"PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"}


def _document_of(sandbox: Sandbox, job_id: int) -> dict[str, Any]:
    """Return the history's document of a job, once its node's record has arrived there."""
    for _ in _patiently(f"no record of job {job_id} arrived"):
        with open_history(_history(sandbox), read_only=True) as history:
            document = job_in(history, job_id)
        if document and any(run["source"] == "epilog" for run in document["runs"]):
            return document
    raise SandboxError("unreachable")


def _until_learned(sandbox: Sandbox, runs: int) -> None:
    """Wait until the advisor answers from at least so many runs."""
    for _ in _patiently("the advisor has not learned from the runs"):
        if _advisor_runs(sandbox) >= runs:
            return


def _advisor_runs(sandbox: Sandbox) -> int:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(sandbox.settings["paths.socket"])
        client.sendall(encode_request("ping"))
        return int(json.loads(client.makefile().readline())["runs"])


def _patiently(failure: str) -> Iterator[None]:
    """Tries until LEARN_TIMEOUT_S. Raises SandboxError with what did not happen."""
    deadline = time.monotonic() + LEARN_TIMEOUT_S
    while time.monotonic() < deadline:
        yield
        time.sleep(0.1)
    raise SandboxError(f"{failure} within {LEARN_TIMEOUT_S} s")


def _row(
    sandbox: Sandbox, name: str, first: tuple[int, str], second: tuple[int, str]
) -> TrainingRow:
    before, after = (_document_of(sandbox, job_id) for job_id, _ in (first, second))
    runs = [document["runs"][-1] for document in (before, after)]
    decision = after["decision"] or {}
    predicted = decision.get("after_samples_per_s")
    return TrainingRow(
        script=name,
        left_alone=decision.get("action") != "change",
        cpus_per_task=_both(runs, "cpus_per_task", int),
        num_workers=_both(runs, "loader_workers", int),
        samples_per_s=_both(runs, "loader_whole_samples_per_s", float),
        predicted_samples_per_s=predicted,
        interval=predicted and (decision["after_low"], decision["after_high"]),
        message=second[1],
        emulated=bool(runs[1]["loader_emulated"]),
    )


def _both(runs: list[dict[str, Any]], column: str, kind: type) -> tuple[Any, Any]:
    missing = [run["job_id"] for run in runs if run[column] is None]
    if missing:
        raise SandboxError(f"the probe measured no {column} in job {missing[0]}")
    return kind(runs[0][column]), kind(runs[1][column])


def rejected(sandbox: Sandbox) -> int:
    """Submissions that slurmctld was asked for and did not take, by its own statistics."""
    statistics = sandbox.run(["sdiag"]).stdout
    requests = re.search(r"REQUEST_SUBMIT_BATCH_JOB .*count:(\d+)", statistics)
    taken = re.search(r"Jobs submitted:\s*(\d+)", statistics)
    if taken is None:
        raise SandboxError(f"sdiag does not count submissions:\n{statistics}")
    return (int(requests[1]) if requests else 0) - int(taken[1])


def _drained(sandbox: Sandbox) -> int:
    states = sandbox.run(["sinfo", "-h", "-N", "-o", "%T"]).stdout.split()
    return sum(state.startswith(("drain", "down")) for state in states)


def _records(sandbox: Sandbox) -> int:
    with open_history(_history(sandbox), read_only=True) as history:
        return int(history.conn.execute("SELECT count(*) FROM runs").fetchone()[0])


def _history(sandbox: Sandbox) -> Path:
    return Path(sandbox.settings["paths.state_dir"]) / "history.db"
