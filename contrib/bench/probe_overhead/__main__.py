"""Cost of the probe: the same trainings with and without it, interleaved.

Steps of 10 and 1 ms with an optimiser, each run a process of its own (whole_process.py). And two
trainings of which the loader's part alone is told. `typical`: 16 KiB samples in batches of 32 with
a step of 5 ms. `tiny`: nothing but loading, in the smallest batches there are (16 rows sliced off a
tensor, no step at all): tens of microseconds each. One process trains them epoch by epoch, in turn
with the probe's methods and with the ones of torch that they replaced, so that a machine that is
busy elsewhere slows both alike.

`overhead_percent` is the median of the pairs' differences, `spread_percent` their middle half.
What the probe adds to starting any Python of the job is measured apart.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from contrib.bench.common.measure import timed
from contrib.bench.common.program import options, row, run
from contrib.bench.probe_overhead.whole_process import runs

MOST_PERCENT = 1.0
SITE = Path(__file__).parents[3] / "slurm_ext" / "probe" / "site"

TRAINING = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, dataloader
kind, workers, pairs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)

class Samples(Dataset):
    def __len__(self):
        return 3200
    def __getitem__(self, index):
        row = torch.arange(4096, dtype=torch.float32)
        return row.add_(index).sin_()

data, size, step = (Samples(), 32, 0.005) if kind == "typical" else (
    TensorDataset(torch.randn(64000, 64)), 16, 0.0)
loader = DataLoader(data, batch_size=size, shuffle=True, num_workers=workers)
fetch = dataloader._utils.fetch
places = [(DataLoader, "__iter__"), (dataloader._BaseDataLoaderIter, "__next__"),
          (fetch._MapDatasetFetcher, "fetch")]
probes = [getattr(*place) for place in places]

def epoch(probed):
    for place, method in zip(places, probes):
        setattr(*place, method if probed else method.__wrapped__)
    began = time.perf_counter()
    for batch in loader:
        if step:
            time.sleep(step)
    return time.perf_counter() - began

epoch(True), epoch(False)
for pair in range(pairs):
    first = epoch(pair % 2 == 0)
    second = epoch(pair % 2 == 1)
    print(*((second, first) if pair % 2 == 0 else (first, second)), flush=True)
"""
BARE = "pass"


def measure(kind: str, workers: int, pairs: int) -> dict[str, object]:
    """Median seconds of an epoch without and with the probe, and what that is in percent."""
    print(f"{kind}, {workers} workers", file=sys.stderr)
    with tempfile.TemporaryDirectory() as run_dir:
        env = {**os.environ, "PYTHONPATH": str(SITE), "DLQUEUE_RUN_DIR": run_dir}
        argv = [sys.executable, "-c", TRAINING, kind, str(workers), str(pairs)]
        done = subprocess.run(argv, env=env, check=True, capture_output=True, text=True)
        (summary,) = (json.loads(path.read_text()) for path in Path(run_dir).glob("summary-*"))
    if sum(phase["epochs"] for phase in summary["loaders"][0]["phases"]) != pairs + 1:
        raise SystemExit("the probe did not measure every second epoch")
    runs = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    return compared([plain for plain, _ in runs], [probed for _, probed in runs])


def start_ms(probed: bool) -> float:
    """Starting and ending a Python that does nothing."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    if probed:
        env.update(PYTHONPATH=str(SITE), DLQUEUE_RUN_DIR="/nonexistent")
    return 1000 * timed([sys.executable, "-c", BARE], env=env).seconds


def compared(plain: list[float], probed: list[float]) -> dict[str, object]:
    """Medians, and the paired differences' median and middle half, in percent."""
    paired = sorted(100 * (b / a - 1) for a, b in zip(plain, probed, strict=True))
    quarter = len(paired) // 4
    return {
        "plain_s": round(statistics.median(plain), 5),
        "probed_s": round(statistics.median(probed), 5),
        "overhead_percent": round(statistics.median(paired), 3),
        "spread_percent": [round(paired[quarter], 3), round(paired[-1 - quarter], 3)],
        "repeats": len(paired),
    }


def main() -> None:
    """Measures, and prints one JSON object on the last line."""
    run(options(__doc__, quick="fewer and shorter repeats"), result, _print)


def result(args: argparse.Namespace) -> dict[str, Any]:
    """The benchmark's last line."""
    pairs = 6 if args.quick else 25
    trainings = [("typical", 2), ("typical", 0), ("tiny", 0), ("tiny", 1)]
    measured = {
        f"{kind}_{workers}_workers": measure(kind, workers, pairs) for kind, workers in trainings
    }
    for name, step_s, steps in (("step_10_ms", 0.010, 300), ("step_1_ms", 0.001, 2000)):
        plain, probed = zip(*runs(step_s, steps, 4 if args.quick else 20), strict=True)
        measured[name] = compared(list(plain), list(probed))
    figures: dict[str, object] = dict(measured)
    starts = [(start_ms(False), start_ms(True)) for _ in range(40)]
    figures["python_start_ms"] = {
        "plain": round(statistics.median(a for a, _ in starts), 3),
        "probed": round(statistics.median(b for _, b in starts), 3),
    }
    for key in ("overhead_percent", "spread_percent"):
        figures[key] = measured["typical_2_workers"][key]
    cost = {
        name: float(str(figures_of["overhead_percent"])) for name, figures_of in measured.items()
    }
    wanted = [
        row(f"{name} overhead_percent", MOST_PERCENT, got, met=got <= MOST_PERCENT)
        for name, got in cost.items()
        if name != "step_1_ms"  # is told
    ]
    return {"bench": "probe_overhead", "figures": figures, "wanted": wanted}


def _print(result: dict[str, Any]) -> None:
    for target in result["wanted"]:
        print(f"{target['what']}: {target['got']} (wanted: at most {target['target']})")


if __name__ == "__main__":
    main()
