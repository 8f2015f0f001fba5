"""Time of the node's hooks from start to exit, beside a bare Python's, and their memory.

    python -m contrib.bench.hooks [--json] [--quick] [--mps CONTROL]

A job's hooks run in Slurm's order with the environment that slurmd gives, interleaved with
`python3 -I -S -c pass`. The sampler is measured over a job of eight processes. With --mps, also
the hooks of jobs with half of GPU 0, each of which starts and ends an MPS daemon by CONTROL, the
path of `nvidia-cuda-mps-control`.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from contrib.bench.common.measure import PYTHON, timed
from contrib.bench.common.program import at_most, options, run
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.render import render_node_config

MAIN = Path(__file__).parents[3] / "slurm_ext" / "node" / "__main__.py"
HOOKS = ("prolog", "task_prolog", "epilog")
BARE = [PYTHON, "-I", "-S", "-c", "pass"]
MOST_TIMES_BARE = 3.0
MOST_CORE_PERCENT = 1.0
PROCESSES = 8


def main() -> None:
    """Measure, print a table, and last the JSON object."""
    parser = options(__doc__, quick="fewer repeats")
    parser.add_argument("--mps", metavar="CONTROL", help="measure with MPS too")
    run(parser, result, _print)


def result(args: argparse.Namespace) -> dict[str, Any]:
    """The benchmark's last line."""
    repeats, seconds = (15, 4.0) if args.quick else (100, 20.0)
    with _node() as (root, node_json):
        figures = measure_hooks(node_json, repeats) | measure_sampler(root, node_json, seconds)
    if args.mps:
        figures |= measure_mps(args.mps, max(5, repeats // 5))
    figures["repeats"] = repeats
    return {"bench": "hooks", "figures": figures, "wanted": wanted(figures)}


def _print(result: Mapping[str, Any]) -> None:
    for name, value in result["figures"].items():
        print(f"{name:28} {value}")


def measure_hooks(node_json: Path, repeats: int) -> dict[str, Any]:
    """Milliseconds (median and 90th percentile) of each hook and of a bare Python, interleaved."""
    commands = {name: [PYTHON, "-I", "-S", str(MAIN), name, str(node_json)] for name in HOOKS}
    commands = {"bare_python": BARE, **commands}
    took: dict[str, list[float]] = {name: [] for name in commands}
    for job in range(1, repeats + 1):
        for name, argv in commands.items():
            took[name].append(1000 * timed(argv, env=_env(job, name)).seconds)
    peak = {
        name: timed(argv, env=_env(repeats + 1, name)).peak_kib for name, argv in commands.items()
    }
    figures: dict[str, Any] = {}
    for name, times in took.items():
        figures[f"{name}_p50_ms"] = round(_quantile(times, 0.5), 2)
        figures[f"{name}_p90_ms"] = round(_quantile(times, 0.9), 2)
        figures[f"{name}_peak_kib"] = peak[name]
    for hook in HOOKS:
        ratio = figures[f"{hook}_p50_ms"] / figures["bare_python_p50_ms"]
        figures[f"{hook}_times_bare"] = round(ratio, 2)
    return figures


def measure_mps(control: str, repeats: int) -> dict[str, Any]:
    """Median milliseconds of prolog and epilog where each job starts and ends an MPS daemon."""
    half = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}
    took: dict[str, list[float]] = {"prolog": [], "epilog": []}
    with _node({"mps.mode": "act", "mps.control": control}) as (root, node_json):
        for job in range(1, repeats + 1):
            for name, times in took.items():
                argv = [PYTHON, "-I", "-S", str(MAIN), name, str(node_json)]
                times.append(1000 * timed(argv, env={**_env(job, name), **half}).seconds)
                if name == "prolog" and not list(root.glob("spool/mps/*/daemon")):
                    sys.exit(f"no MPS daemon: {(root / 'spool/hooks.log').read_text()}")
    return {f"mps_{name}_p50_ms": round(_quantile(times, 0.5), 2) for name, times in took.items()}


def measure_sampler(root: Path, node_json: Path, seconds: float) -> dict[str, Any]:
    """CPU time a sample, share of a core and resident memory of one job's sampler."""
    job = 1_000_000
    code = f"import os, time\nfor _ in range({PROCESSES - 1}): os.fork() or time.sleep(600)\n"
    code += "time.sleep(600)"
    argv = [PYTHON, "-I", "-S", str(MAIN), "prolog", str(node_json)]
    subprocess.run(argv, env=_env(job, "prolog"), check=True)
    child = subprocess.Popen([PYTHON, "-c", code], env=_env(job, "task"), start_new_session=True)
    try:
        time.sleep(1.0)
        pid = int((root / f"spool/state/{job}.0.lock").read_text())
        before, start = _cpu_s(pid), time.monotonic()
        time.sleep(seconds)
        spent_s, lasted_s = _cpu_s(pid) - before, time.monotonic() - start
        memory_kib = _resident_kib(pid)
    finally:
        os.killpg(child.pid, 9)
        child.wait()
    argv[4] = "epilog"
    subprocess.run(argv, env=_env(job, "epilog"), check=True)
    record = _record(root, job)
    samples = sum(1 for row in record["timeline"]["rows"] if row[0] > 1.0)
    return {
        "sampler_cpu_ms_per_sample": round(spent_s * 1000 / max(1, samples), 2),
        "sampler_core_percent": round(100 * spent_s / lasted_s, 2),
        "sampler_rss_kib": memory_kib,
        "sampler_samples": samples,
        "sampler_processes": PROCESSES,
    }


def wanted(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """The targets and whether they were met."""
    rows = [
        (f"{hook} over bare python", MOST_TIMES_BARE, figures[f"{hook}_times_bare"])
        for hook in HOOKS
    ]
    rows.append(("sampler, percent of a core", MOST_CORE_PERCENT, figures["sampler_core_percent"]))
    return [at_most(*row) for row in rows]


@contextmanager
def _node(more: Mapping[str, Any] = MappingProxyType({})) -> Iterator[tuple[Path, Path]]:
    """A node's folders and configuration; at the end its samplers and worker are gone."""
    root = Path(tempfile.mkdtemp(prefix="dlq-bench-"))
    (root / "advisor").mkdir()
    values = {
        "paths.kill_file": str(root / "off"),
        "paths.slurm_bin": str(root),  # no squeue here: the controller's time is not the hook's
        "node.spool_dir": str(root / "spool"),
        "node.folder": str(root / "advisor"),
        "node.probe": True,
        **more,
    }
    node_json = root / "node.json"
    node_json.write_text(render_node_config(Settings("bench", values)))
    try:
        yield root, node_json
    finally:
        (root / "off").touch()
        _until(lambda: not _holders(root))
        shutil.rmtree(root)


def _env(job: int, hook: str) -> dict[str, str]:
    context = {"prolog": "prolog_slurmd", "epilog": "epilog_slurmd"}.get(hook, "prolog_task")
    return {
        "SLURM_SCRIPT_CONTEXT": context,
        "SLURMD_NODENAME": "n1",
        "SLURM_NODELIST": "n1",
        "SLURM_JOB_ID": str(job),
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_RESTART_COUNT": "0",
        "SLURM_JOB_EXIT_CODE": "0",
        "DLQUEUE_DECISION": "d1-0123456789abcdef",
    }


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_kib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def _record(root: Path, job: int) -> dict[str, Any]:
    path = root / f"advisor/cluster-{job}-0-n1.json"
    _until(path.exists)
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def _holders(root: Path) -> list[int]:
    """Processes that this benchmark's hooks left behind and that still live."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(root).encode() in path.read_bytes():
                pids.append(int(path.parent.name))
        except OSError:
            continue
    return pids


def _until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        if time.monotonic() > deadline:
            sys.exit("a process of the hooks does not end")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
