"""A chain of layers and U-Nets on slabs against the same on whole volumes, on 2 and 4 gloo ranks.

Exactness: outputs, gradients of weights and inputs and running statistics, on five grids, with a
weighted mean of the output as loss; differences are over the largest value of the layer where that
is above 1, those of input gradients always. Rounding: input gradients in single precision against
double, on slabs and serially, and serially in another order. Memory: bytes that saved-tensor hooks
count, on the worst rank, over serial. Curve: losses of training steps in double precision, Adam,
both ways. Choice: the mesh that a job chooses for itself, after a trial of those that the cost
model finds near each other, and the one that `dlqueue recommend --spatial` takes, by that model
alone, against all meshes of the model and against all measured. Overlap: steps whose convolutions
compute while halos travel, where the cost model says so and everywhere, over steps that wait, by
turns, on two ranks over limited links (root). Scaling: two ranks of one thread against one rank of
one thread, of two, and of one with the convolutions that slabs have. Times mean something on a
quiet machine of as many cores only; --only runs one part at a time, and --state FILE keeps what is
measured, of choice each shape by itself, so that a run that was cut goes on. With --device cuda
ranks talk by NCCL; where they share a GPU, no time is judged.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contrib.bench.common.kept_steps import KeptSteps
from contrib.bench.common.program import options, run
from contrib.bench.gpu.machine import torch_facts
from contrib.bench.spatial.overlapping import overlapping
from contrib.bench.spatial.rows import WANTED
from contrib.bench.spatial.world import DEVICE, on_ranks
from slurm_ext.core.errors import UsageError

GRIDS = {2: [[2, 1, 1], [1, 2, 1]], 4: [[2, 2, 1], [4, 1, 1], [1, 1, 4]]}
TIMES = ("choice", "overlap", "scaling")
SHAPES = [(32, 32, 32), (64, 32, 32), (32, 32, 64), (32, 64, 32), (48, 48, 48), (64, 16, 16)]


def main() -> None:
    """Measure, and print one JSON object last."""
    parser = options(__doc__, quick="small volumes, few steps, two shapes")
    parser.add_argument("--only", nargs="+", choices=list(WANTED), default=list(WANTED))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of ranks (cpu)")
    parser.add_argument("--state", type=Path, help="file to keep parts in, and go on from")
    run(parser, result, lambda _: None)


def result(args: argparse.Namespace) -> dict[str, Any]:
    """The benchmark's last line."""
    os.environ[DEVICE] = args.device
    gpus = _gpus(args.device)
    figures = {"cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0], "gpus": gpus}
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder:
        state = args.state or Path(folder) / "parts.json"
        kept = KeptSteps(state, f"quick: {args.quick}, cores: {figures['cores']}, {gpus or 'CPUs'}")
        figures |= {name: _part(name, kept, quick=args.quick) for name in args.only}
    judged = [name for name in args.only if name not in TIMES or len(gpus) != 1]
    rows = [one for name in judged for one in WANTED[name](figures[name])]
    return {"bench": "spatial", "figures": figures, "wanted": rows}


def _gpus(device: str) -> list[str]:
    """Names of the GPUs, by a process of its own: one that started CUDA must not fork ranks."""
    if device == "cpu":
        return []
    facts = torch_facts()
    if facts["why"]:
        raise UsageError(f"--device cuda: {facts['why']}")
    return [*facts["devices"]]


def _part(name: str, kept: KeptSteps, *, quick: bool) -> Any:
    """The figures of a part; of the choice, those of each shape."""
    if name != "choice":
        return kept.step(name, lambda: PARTS[name](quick))
    return [
        kept.step(f"choice {sizes}", lambda sizes=sizes: _choice(sizes, 4 if quick else 20))  # type: ignore[misc]  # called at once
        for sizes in SHAPES[: 2 if quick else None]
    ]


PARTS: dict[str, Callable[[bool], Any]] = {
    "exactness": lambda quick: _worst("exactness", size=16 if quick else 32),
    "rounding": lambda quick: _worst("rounding", size=16 if quick else 32, seeds=1 if quick else 3),
    "memory": lambda _: {str(ranks): _memory(ranks, 32) for ranks in GRIDS},
    "curve": lambda quick: on_ranks(4, "curve", grid=[2, 2, 1], size=8, count=20 if quick else 100)[
        0
    ],
    "overlap": lambda quick: overlapping(32 if quick else 48, 2 if quick else 8),
    "scaling": lambda quick: _scaling([32 if quick else 64] * 3, 3 if quick else 9),
}


def _worst(task: str, **words: Any) -> dict[str, dict[str, float]]:
    """Of each row of the task, on all grids: the worst rank."""
    rows = {}
    for ranks, grids in GRIDS.items():
        found = on_ranks(ranks, task, grids=grids, **words)
        for name, columns in found[0].items():
            rows[name] = {what: max(one[name][what] for one in found) for what in columns}
    return rows


def _memory(ranks: int, size: int) -> dict[str, float]:
    """The worst rank, of each network and grid."""
    found = on_ranks(ranks, "memory", grids=GRIDS[ranks], size=size)
    return {name: max(one[name] for one in found) for name in found[0]}


def _choice(sizes: tuple[int, ...], repeats: int) -> dict[str, Any]:
    """The meshes that two ranks choose for one global batch of two, and all others, measured."""
    found = on_ranks(2, "choice", size=sizes, samples=2)[0]  # the first rank's figures count
    times = on_ranks(2, "steps", grids=found["meshes"], size=sizes, repeats=repeats)
    measured = [max(column) for column in zip(*times, strict=True)]
    names = [f"{data} x {'x'.join(map(str, space))}" for data, space, _ in found["meshes"]]
    return {
        "sizes": sizes,
        "recommended": names[0],
        "chosen": names[found["chosen"]],
        "predicted_s": dict(zip(names, found["predicted_s"], strict=True)),
        "measured_s": dict(zip(names, measured, strict=True)),
        "is_best_of_model": found["predicted_s"][0] == min(found["predicted_s"]),
        "recommended_over_best": measured[0] / min(measured),
        "chosen_over_best": measured[found["chosen"]] / min(measured),
    }


def _scaling(sizes: list[int], repeats: int) -> dict[str, float]:
    """Seconds of a step, and how much quicker two ranks are."""
    words: dict[str, Any] = {"size": sizes, "repeats": repeats}
    one = on_ranks(1, "steps", grids=[[1, [1, 1, 1], 1]], **words)[0][0]
    threads = on_ranks(1, "steps", threads=2, grids=[[1, [1, 1, 1], 1]], **words)[0][0]
    alike = on_ranks(1, "steps_as_slabs", **words)[0]
    two = max(on_ranks(2, "steps", grids=[[1, [2, 1, 1], 1]], **words))[0]
    return {
        "one_s": one,
        "two_threads_s": threads,
        "one_with_slabs_kernels_s": alike,
        "two_ranks_s": two,
        "speedup": one / two,
        "speedup_over_the_same_kernels": alike / two,
    }


if __name__ == "__main__":
    main()
