"""Real DataLoaders of known kinds, measured by the probe itself: what `curve` predicts."""

import atexit
import io
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.records import LoaderRun

BATCH = 8
OTHERS = 0.15  # includes what the loader's own pickling costs outside the timed parts
STEPS_S = {"fast": 0.0003, "middle": 0.002, "slow": 0.008}  # accelerator's seconds for one sample
_QUOTA = Path("/sys/fs/cgroup/cpu/dlqueue-bench")  # cgroup v1; needs root
_PERIOD_US = 100_000
_ADDITIVE = (
    "samples",
    "batches",
    "wall_s",
    "wait_s",
    "step_s",
    "bytes_read",
    "main_cpu_s",
    "fetch_samples",
    "fetch_wall_s",
    "fetch_cpu_s",
    "fetch_queued_s",
    "wait_queued_s",
    "step_queued_s",
    "delivered_bytes",
)


@dataclass(frozen=True, slots=True)
class Kind:
    """Cost of fetching a sample: decoding or not, seconds asleep, side in pixels."""

    decodes: bool
    sleep_s: float
    side: int


KINDS = {
    "decode": Kind(True, 0.0, 128),
    "latency": Kind(False, 0.010, 128),
    "mixed": Kind(True, 0.006, 128),
    "bulk": Kind(True, 0.0, 224),  # pictures as floats, a batch of which is megabytes
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run to be made."""

    kind: str
    step: str
    cores: float  # whole: by affinity; else a quota over all cores
    workers: int
    burners: int = 0  # busy processes of others on the same cores

    def training(self) -> tuple[str, str]:
        """Kind and step: what is the same at every shape."""
        return self.kind, self.step


@dataclass(frozen=True, slots=True)
class Measured:
    """One setting's run."""

    setting: Setting
    run: LoaderRun
    others: float  # share of these cores that other processes of the machine used meanwhile


class Fetching:
    """A map-style dataset of JPEGs of many sizes behind storage of many delays."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.jpegs = [jpeg_bytes(width) for width in (256, 384, 512, 640, 768)]

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """A delay and a picture that differ from index to index as real ones do."""
        import numpy as np
        import torch
        from PIL import Image

        side = self.kind.side
        if self.kind.sleep_s:
            time.sleep(self.kind.sleep_s * (0.5 + index * 7919 % 101 / 101))
        if not self.kind.decodes:
            return torch.full((3, 64, 64), float(index % 7)), index
        with Image.open(io.BytesIO(self.jpegs[index * 31 % 5])) as image:
            small = image.convert("RGB").resize((side, side))
        pixels = torch.from_numpy(np.asarray(small).copy()).permute(2, 0, 1)
        return (pixels.float() if side > 128 else pixels), index


@cache
def jpeg_bytes(width: int) -> bytes:
    """A picture with enough detail that decoding it takes milliseconds."""
    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(1).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(noise).resize((width, width * 3 // 4)).save(out, "JPEG", quality=90)
    return out.getvalue()


@cache
def probe() -> Callable[[], Any]:
    """Attaches the probe to this process, as in a job; its session, once there is a loader."""
    folder = os.environ["DLQUEUE_RUN_DIR"] = tempfile.mkdtemp(prefix="dlqueue-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    from torch.utils.data import dataloader

    from slurm_ext.probe import attach
    from slurm_ext.probe.process import ProbeState

    attach.attach(dataloader)
    return lambda: ProbeState.session  # its summary has no rows of moments


def measure(setting: Setting, seconds: float) -> Measured:
    """Train for `seconds` after the loader has settled, on `cores` cores of this machine."""
    import torch
    from torch.utils.data import DataLoader

    session = probe()
    torch.set_num_threads(max(1, int(setting.cores)))
    with confined(setting.cores), burning(setting.burners):
        loader: DataLoader[Any] = DataLoader(
            Fetching(KINDS[setting.kind]),  # type: ignore[arg-type]  # a dataset is what has these methods
            batch_size=BATCH,
            num_workers=setting.workers,
        )
        batches = iter(loader)
        meter = session().meter(loader)
        step_s = STEPS_S[setting.step] * BATCH
        train(batches, step_s, 0.0, 3 + 3 * setting.workers)
        before, busy, began = meter.row(), busy_seconds(), time.perf_counter()
        train(batches, step_s, seconds, 10)
        after, busy = meter.row(), busy_seconds() - busy
        elapsed_s = time.perf_counter() - began
        del batches
    run = evidence(before, after, setting.cores)
    own = run.samples_per_s * (run.fetch_cpu_s + (run.main_cpu_s or 0.0))
    return Measured(setting, run, busy / elapsed_s / setting.cores - own / setting.cores)


def train(batches: Iterator[Any], step_s: float, seconds: float, least: int) -> None:
    """The training loop: the accelerator's step is a timed wait."""
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or count < least:
        next(batches)
        time.sleep(step_s)
        count += 1


def evidence(before: Mapping[str, Any], after: Mapping[str, Any], cores: float) -> LoaderRun:
    """The run between two looks at a loader, by the way every record of a job goes."""
    sums = [dict.fromkeys(_ADDITIVE, 0.0) for _ in range(2)]
    for total, row in zip(sums, (before, after), strict=True):
        for phase in row["phases"]:  # of every loader alike that this process has had
            for name in _ADDITIVE:
                total[name] += phase[name] or 0
    phase = {name: sums[1][name] - sums[0][name] for name in _ADDITIVE}
    phase |= {"phase": "first_epoch", "epochs": 0, "workers": after["user_num_workers"]}
    summary = {"cores": cores, "node_cores": cores, "loaders": [{**after, "phases": [phase]}]}
    record = {
        "allocation": {"num_tasks": 1, "num_nodes": 1, "cpus_per_task": max(1, ceil(cores))},
        "host": {},
        "outcome": {"state": "RUNNING"},
        "probe": {"summaries": [summary]},
    }
    run = loader_run(record)
    if run is None:
        raise SystemExit(f"nothing was measured: {phase}")
    return run


@contextmanager
def confined(cores: float) -> Iterator[None]:
    """This process and its children on so many cores."""
    every = os.sched_getaffinity(0)
    try:
        if cores == int(cores):
            os.sched_setaffinity(0, sorted(every)[: int(cores)])
        else:
            _QUOTA.mkdir(exist_ok=True)
            (_QUOTA / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (_QUOTA / "cpu.cfs_quota_us").write_text(str(int(cores * _PERIOD_US)))
            (_QUOTA / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        os.sched_setaffinity(0, every)
        if cores != int(cores):
            (_QUOTA.parent / "cgroup.procs").write_text(str(os.getpid()))


def can_confine() -> bool:
    """True if a process can be confined to a fraction of a core here."""
    return os.access(_QUOTA.parent / "cpu.cfs_quota_us", os.W_OK) or (
        os.geteuid() == 0 and (_QUOTA.parent / "cgroup.procs").exists()
    )


@contextmanager
def burning(count: int) -> Iterator[None]:
    """Other jobs' processes that want the same cores all the time."""
    others = [multiprocessing.get_context("fork").Process(target=_burn) for _ in range(count)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.join()


def _burn() -> None:
    while True:
        pass


def busy_seconds() -> float:
    """CPU seconds that this process's cores have worked for anybody (proc(5), /proc/stat)."""
    mine = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    ticks = [map(int, (*line[1:4], *line[6:9])) for line in lines if line[0] in mine]
    return sum(map(sum, ticks)) / os.sysconf("SC_CLK_TCK")


def quietest(setting: Setting, seconds: float) -> Measured:
    """A run that others did not disturb, or the less disturbed of two."""
    first = measure(setting, seconds)
    if first.others <= OTHERS or setting.burners:
        return first
    return min(first, measure(setting, seconds), key=lambda one: one.others)
