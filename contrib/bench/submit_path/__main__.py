"""Time that dlqueue adds to a submission, on real slurmctlds that differ in the plugin alone.

Four private Slurms with their state in memory take the same held jobs in interleaved rounds:
without plugin, and with ours while the advisor answers from a full history, is down, or hangs.
The plugin's whole time is taken in Lua and held against sdiag, which counts locks and Slurm's own
part as well (slurmctld's own `usec=` leaves the plugin out).
"""

import argparse
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

from contrib.bench.common import synthetic_history
from contrib.bench.common.program import options, row, run
from slurm_ext.sandbox import Sandbox, SandboxSpec

MODES = ("no_plugin", "advisor_up", "advisor_down", "advisor_hung")
ROUNDS = 10
SCRIPTS = 100
SETTINGS = {"site.mode": "act", "advisor.reconcile_s": 30.0, "advisor.retrain_after": 1_000_000}
DEADLINE_US, BREAKER_S = 50_000, 30  # as they ship
TIMED = """local now = require("socket.core").gettime
local times = assert(io.open("{root}/times", "w"))
local _, dlqueue = pcall(dofile, "{root}/etc/lua/dlqueue.lua")
function slurm_job_submit(...)
  local start = now()
  pcall(function(...) dlqueue.submit(...) end, ...)
  times:write(string.format("%.0f\\n", (now() - start) * 1e6))
  times:flush()
  return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
"""


def spec(mode: str) -> SandboxSpec:
    """The same Slurm for every mode, but for the plugin."""
    return SandboxSpec(
        cpus=64,
        mem_mib=64_000,
        lua=mode != "no_plugin",
        advisor=mode == "advisor_up",
        settings=SETTINGS,
        state_on_tmpfs=True,
    )


def prepare(mode: str, slurm: Sandbox, runs: int) -> None:
    """Time the plugin; fill the history of the advisor that is to answer."""
    if mode != "no_plugin":
        shim = slurm.path("etc/job_submit.lua")
        shim.write_text(TIMED.format(root=slurm.layout.root))
        os.utime(shim, (time.time() + 2,) * 2)  # slurmctld looks at whole seconds
    if mode == "advisor_up":
        slurm.stop("advisor")
        database = slurm.path("dlqueue/history.db")
        subprocess.run(
            [sys.executable, "-m", synthetic_history.__name__, str(database), str(runs)], check=True
        )
        slurm.start("advisor")
    slurm.run(["sdiag", "-r"])


@contextlib.contextmanager
def hung(slurm: Sandbox) -> Iterator[None]:
    """A socket that takes connections and requests, and never answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(slurm.settings["paths.socket"])
        listener.listen(100)
        yield


def submit(slurm: Sandbox, folder: Path, count: int) -> float:
    """Submissions per second of one client that submits `count` held jobs."""
    loop = (
        f"i=0; while [ $i -lt {count} ]; do"
        f" sbatch -H -Q -o /dev/null {folder}/$((i % {SCRIPTS})).sh >/dev/null || exit 1;"
        " i=$((i + 1)); done"
    )
    started = time.perf_counter()
    slurm.run(["sh", "-c", loop], timeout_s=600)
    return count / (time.perf_counter() - started)


def figures(slurm: Sandbox, rates: list[float], plain: list[float]) -> dict[str, float]:
    """Figures of one mode: the plugin's time, sdiag's mean, rates beside those without plugin."""
    ranked = sorted(rates)
    shares = sorted(rate / base for rate, base in zip(rates, plain, strict=True))
    output = slurm.run(["sdiag"]).stdout
    submits = re.search(r"REQUEST_SUBMIT_BATCH_JOB.*count:(\d+)\s+ave_time:(\d+)", output)
    if submits is None:
        raise SystemExit(f"sdiag does not show submissions:\n{output}")
    path = slurm.path("times")
    times = [int(line) for line in path.read_text().split()] if slurm.spec.lua else [0, 0]
    if slurm.spec.lua and len(times) != int(submits[1]):
        raise SystemExit(f"{len(times)} submissions were timed, sdiag saw {submits[1]}")
    cuts = quantiles(times, n=1000, method="inclusive")
    return {
        "p50_us": cuts[499],
        "p99_us": cuts[989],
        "p999_us": cuts[998],
        "max_us": max(times),
        "mean_us": round(mean(times), 1),
        "deadlines_paid": sum(t > DEADLINE_US / 2 for t in times),
        "sdiag_ave_us": int(submits[2]),
        "submissions": int(submits[1]),
        "sbatch_per_s": round(median(ranked), 1),
        "sbatch_per_s_min": round(ranked[0], 1),
        "sbatch_per_s_max": round(ranked[-1], 1),
        "share_of_no_plugin": round(median(shares), 3),
        "share_min": round(shares[0], 3),
        "share_max": round(shares[-1], 3),
    }


def measure(root: Path, submissions: int, runs: int) -> dict[str, Any]:
    """All modes, in rounds whose order rotates."""
    for number in range(SCRIPTS):
        (root / f"{number}.sh").write_text(synthetic_history.script(number))
    with contextlib.ExitStack() as stack:
        slurms = {mode: stack.enter_context(Sandbox(root / mode, spec(mode))) for mode in MODES}
        for mode, slurm in slurms.items():
            prepare(mode, slurm, runs)
        stack.enter_context(hung(slurms["advisor_hung"]))
        rates: dict[str, list[float]] = {mode: [] for mode in MODES}
        started = time.monotonic()
        for number in range(ROUNDS):
            for mode in (*MODES[number % 4 :], *MODES[: number % 4]):
                rates[mode].append(submit(slurms[mode], root, submissions // ROUNDS))
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
        plain = rates["no_plugin"]
        by_mode: dict[str, Any] = {m: figures(slurms[m], rates[m], plain) for m in MODES}
    seconds, load = round(time.monotonic() - started), os.getloadavg()[0]
    conditions = {"rounds": ROUNDS, "runs_in_history": runs, "seconds": seconds}
    return {**by_mode, **conditions, "load_1min_at_end": load, "cores": os.cpu_count()}


def wanted(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """The targets and whether they are met."""
    up, down, hang = (figures[mode] for mode in MODES[1:])
    tries = 1 + figures["seconds"] // BREAKER_S
    at_most = [
        ("added p99 with the advisor up, us", 1000, up["p99_us"]),
        ("added p99 with the advisor down, us", 100, down["p99_us"]),
        ("added p99 with the advisor hung, us", 100, hang["p99_us"]),
        ("deadlines paid to a hung advisor", tries, hang["deadlines_paid"]),
    ]
    shares = [(mode, figures[mode]["share_of_no_plugin"]) for mode in MODES[1:]]
    return [
        *(row(what, most, got, met=got <= most) for what, most, got in at_most),
        *(
            row(f"share of no_plugin's sbatch_per_s, {mode}", 0.9, share, met=share >= 0.9)
            for mode, share in shares
        ),
    ]


def main() -> None:
    """Measure and print; the last line is the JSON object."""
    run(options(__doc__, quick="200 submissions, 10,000 runs"), result, _print)


def result(args: argparse.Namespace) -> dict[str, Any]:
    """The benchmark's last line."""
    submissions, runs = (200, 10_000) if args.quick else (2000, 1_000_000)
    root = Path(tempfile.mkdtemp(prefix="dlq-bench-"))
    root.chmod(0o755)
    try:
        measured = measure(root, submissions, runs)
    finally:
        shutil.rmtree(root)
    return {"bench": "submit_path", "figures": measured, "wanted": wanted(measured)}


def _print(result: dict[str, Any]) -> None:
    for mode in MODES:
        print(mode, result["figures"][mode])


if __name__ == "__main__":
    main()
