"""The probe's figures of trainings by frameworks on the GPU, against their own count.

Each runs without and with the probe; all of one way run side by side, as each is compared with its
own clock. Results must be the same.
"""

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from contrib.bench.foreign.runs import Ran
from contrib.bench.foreign.verdict import NEAR, decision, figure, truth
from contrib.bench.gpu.here import ROOT, SITE, Here
from contrib.bench.gpu.report import AbsentError, Report
from slurm_ext.node.record.summaries import parse_summary

NAMES = ("plain", "mixed", "compiled", "prefetched", "graphed")
KITS = ("lightning", "trainer", "accelerate", "timm")
LIMIT_S = 0.6  # of the time that repeats may fill, for each way: there is one


def measure(here: Here, report: Report) -> None:
    """Every program twice, and shares of all that ran."""
    here.needs_device()
    off, on = (_all(here, way) for way in ("off", "on"))
    shares: dict[str, list[bool]] = {"told": [], "within_5_percent": [], "results_equal": []}
    for name in (*NAMES, *KITS):
        why = _why_not(off[name], on[name])
        if why:
            report.lacks(name, why)
            continue
        error = _error(report, name, on[name])
        shares["told"].append(error is not None)
        shares["within_5_percent"].append(error is not None and abs(error) <= NEAR)
        equal = off[name].losses == on[name].losses
        shares["results_equal"].append(equal)
        if not equal:
            report.facts[f"{name}: results"] = "differ"
    if not shares["told"]:
        raise AbsentError(f"no program ran: {next(iter(report.absent.values()))}")
    for share, each in shares.items():
        report.add(share, fmean(each))


def _why_not(off: Ran, on: Ran) -> str:
    """The last words of a program that did not end well; empty: both runs did."""
    if off.status == on.status == 0 and on.truths and off.truths:
        return ""
    words = (on.said or off.said or ["no word"])[-1]
    return f"exit statuses {off.status} and {on.status}: {words}"[:200]


def _error(report: Report, name: str, run: Ran) -> float | None:
    """The error of the probe's figure, as a share of the program's own; None: it has none."""
    found = figure(run)
    if found is None:
        report.lacks(f"{name}: figure", "the probe has none")
        return None
    kind, rate = found
    error = rate / truth(run, kind) - 1
    report.facts[f"{name}: unit, decision"] = [kind, decision(run)]
    report.add(f"error_{name}", error)
    return error


def _all(here: Here, way: str) -> dict[str, Ran]:
    """Start all of one way, and wait for each."""
    end_s = time.monotonic() + LIMIT_S * here.seconds
    started = {name: _started(here, name, way) for name in (*NAMES, *KITS)}
    try:
        return {name: _ended(*each, end_s) for name, each in started.items()}
    finally:
        for process, _ in started.values():
            _closed(process)


def _started(here: Here, name: str, way: str) -> tuple["subprocess.Popen[str]", Path]:
    run_dir = Path(here.folder, f"{way}-{name}")
    run_dir.mkdir(mode=0o700)
    env = here.environment({"HF_HUB_OFFLINE": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"})
    if way == "on":
        env |= {"PYTHONPATH": str(SITE), "DLQUEUE_RUN_DIR": str(run_dir)}
    command = here.command("frameworks", here.device, name)
    return subprocess.Popen(command, env=env, cwd=ROOT, text=True, stdout=-1, stderr=-1), run_dir


def _ended(process: "subprocess.Popen[str]", run_dir: Path, end_s: float) -> Ran:
    try:
        said, errors = process.communicate(timeout=max(0.1, end_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        return Ran(124, [], ["its time was over"], [])
    lines = [line for line in said.splitlines() if line.startswith("TRUTH ")]
    truths: list[Mapping[str, Any]] = [json.loads(line.removeprefix("TRUTH ")) for line in lines]
    files = sorted(run_dir.glob("summary-*.json"))
    summaries = [parse_summary(path.read_bytes()) for path in files]
    return Ran(process.returncode, [*map(dict, truths)], errors.splitlines(), summaries)


def _closed(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
