"""List what this node can count about a job, and why not the rest, by trying it.

`python3 -I -S <package>/node/counters/sources.py` prints it as JSON, so that `dlqueue doctor`
hears what
the hooks' own interpreter finds.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":  # started by its path, as the hooks are
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path != here]  # its neighbours are no top modules
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(here))))

from slurm_ext.node.counters.gpu.nvml import NvmlClient
from slurm_ext.node.counters.perf import events as perf_events
from slurm_ext.node.counters.perf.syscall import SOFTWARE, PerfKernel
from slurm_ext.node.counters.perf.uncore import Uncore
from slurm_ext.node.counters.power import POWERCAP, PowerMeter
from slurm_ext.node.kernel import cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Found = list[tuple[str, str, str]]  # name, what it counts, why (more of) it does not

PARANOID = "/proc/sys/kernel/perf_event_paranoid"
NVML_WAIT_S = 10.0


def sources() -> list[dict[str, str]]:
    """Each source's `name`, what it `counts` here (empty: nothing), and `why` not (more).

    Looks take up to some seconds (a driver may be slow to answer). Never raises.
    """
    rows: Found = []
    for look in (_perf, _uncore, _nvml, _rapl, _cgroup, _pressure):
        rows += _looked(look)
    return [dict(zip(("name", "counts", "why"), row)) for row in rows]


def _looked(look: Callable[[], Found]) -> Found:
    try:
        return look()
    # This is a report: a source that breaks is one that does not count.
    except Exception as error:
        return [(look.__name__.lstrip("_"), "", f"{type(error).__name__}: {error}"[:200])]


def _perf() -> Found:
    wanted = perf_events.candidates(perf_events.vendor())
    events, refused = perf_events.usable(PerfKernel(), wanted, perf_events.most_at_once())
    hardware = [name for name, event in events.items() if event.kind != SOFTWARE]
    if not hardware:
        why = next(iter(refused.values()), "") + f"; {_paranoid()}"
        return [("perf events", "", why)]
    counts = ", ".join(f"{name} ({events[name].label})" for name in hardware)
    reasons: dict[str, list[str]] = {}
    for name, why in refused.items():
        reasons.setdefault(why, []).append(name)
    return [
        ("perf events", counts, "; ".join(f"{', '.join(n)}: {why}" for why, n in reasons.items()))
    ]


def _paranoid() -> str:
    """perf_event_paranoid, and the user for whom it holds."""
    try:
        with open(PARANOID, encoding="ascii") as file:
            level = file.read(16).strip()
    except OSError:
        return "this kernel has no perf events"
    who = "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
    return f"kernel.perf_event_paranoid is {level}, asked as {who}"


def _uncore() -> Found:
    uncore = Uncore(PerfKernel())
    counts = ", ".join(uncore.sources)
    uncore.close()
    return [
        ("memory traffic", counts and f"the whole node's, by {counts}", uncore.why * (not counts))
    ]


def _nvml() -> Found:
    nvml = NvmlClient(hung_s=NVML_WAIT_S)
    nvml.ask({"list": True})
    reply = nvml.answer(NVML_WAIT_S)
    why = nvml.why or "it did not answer"
    nvml.close()
    if reply is None:
        return [("NVML", "", why)]
    gpus = reply.get("gpus", [])
    divided = [gpu["uuid"] for gpu in gpus if gpu.get("mig")]
    counts = f"{len(gpus) - len(divided)} GPUs" if len(gpus) > len(divided) else ""
    why = f"MIG is on, nothing is attributed: {', '.join(divided)}" if divided else ""
    return [("NVML", counts, why or ("" if gpus else "it lists no GPU"))]


def _rapl() -> Found:
    power = PowerMeter({})
    power.sample()
    counts = ", ".join(power.totals())
    return [("RAPL", counts, "" if counts else f"no energy meter to be read in {POWERCAP}")]


def _cgroup() -> Found:
    if not os.path.isdir(cgroup.MOUNT):
        return [("control groups", "", f"no {cgroup.MOUNT}: /proc stands in")]
    second = os.path.exists(os.path.join(cgroup.MOUNT, "cgroup.controllers"))
    why = "" if second else "perf events are attached to processes: they need version 2"
    return [("control groups", "version 2" if second else "version 1", why)]


def _pressure() -> Found:
    have = os.path.exists("/proc/pressure/cpu")
    return [("pressure", "cpu, memory, io" if have else "", "" if have else "boot with psi=1")]


if __name__ == "__main__":
    import json

    print(json.dumps(sources()))  # noqa: T201 - this file's whole purpose as a program
