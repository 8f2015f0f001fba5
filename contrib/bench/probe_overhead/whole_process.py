"""Runs a training with the probe and without it: both clocks (loader and optimiser), all costs.

Each run is a process of its own, with the probe or without it, in turn: hooks, threads and files of
the probe count, whatever they are. The step is real (forward, backward, optimiser) and filled up
with products of matrices to its length. Its first steps are not counted: they warm caches up.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SITE = Path(__file__).parents[3] / "slurm_ext" / "probe" / "site"
WARM, PROBES = 50, 100  # steps that are not counted; products whose length is measured first

TRAINING = f"""
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
products, steps = map(int, sys.argv[1:])
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
matrix = torch.randn(192, 192)
data = TensorDataset(torch.randn(16 * ({WARM} + steps), 64))
for number, (batch,) in enumerate(DataLoader(data, batch_size=16, num_workers=1)):
    if number == {WARM}:
        began = time.perf_counter()
    optimiser.zero_grad()
    model(batch).pow(2).mean().backward()
    for _ in range(products):
        matrix @ matrix
    optimiser.step()
print((time.perf_counter() - began) / steps)
"""


def runs(step_s: float, steps: int, pairs: int) -> Iterator[tuple[float, float]]:
    """Seconds of a step without and with the probe, in pairs, the first of each in turn."""
    products = _products(step_s)
    for pair in range(pairs):
        order = (False, True) if pair % 2 else (True, False)
        took = {probed: _step_s(products, steps, probed=probed) for probed in order}
        print(f"step of {step_s:g} s: {pair + 1}/{pairs}", file=sys.stderr)
        yield took[False], took[True]


def _products(step_s: float) -> int:
    """Products of matrices that fill a step up to this length."""
    bare_s, filled_s = (_step_s(count, 200, probed=False) for count in (0, PROBES))
    return max(0, round(PROBES * (step_s - bare_s) / (filled_s - bare_s)))


def _step_s(products: int, steps: int, *, probed: bool) -> float:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DLQUEUE_", "PYTHON"))}
    with tempfile.TemporaryDirectory() as folder:
        if probed:
            env |= {"PYTHONPATH": str(SITE), "DLQUEUE_RUN_DIR": folder}
        argv = [sys.executable, "-c", TRAINING, str(products), str(steps)]
        done = subprocess.run(argv, env=env, check=True, capture_output=True, text=True)
        if probed and not any(Path(folder).glob("summary-*.json")):
            raise SystemExit("the probe measured nothing")
    return float(done.stdout)
