"""A chain of layers and U-Nets on slabs against the same on whole volumes, on 2 and 4 gloo ranks.

Exactness: outputs, gradients of weights and inputs and running statistics, on five grids, with a
weighted mean of the output as loss; differences are over the largest value of the layer where that
is above 1, those of input gradients always. Rounding: input gradients in single precision against
double, on slabs and serially, and serially in another order. Memory: bytes that saved-tensor hooks
count, on the worst rank, over serial. Curve: losses of training steps in double precision, Adam,
both ways. Choice: the mesh that `dlqueue recommend --spatial` takes, by its model from one profiled
rank, against all meshes of that model and against all measured. Scaling: two ranks of one thread
against one rank of one thread, and of two. Times mean something on a quiet machine of as many cores
only.
"""

import argparse
import os
from collections.abc import Iterator
from typing import Any

from contrib.bench.common.program import at_least, at_most, options, row, run
from contrib.bench.spatial.networks import BenchUNet
from contrib.bench.spatial.world import on_ranks
from slurm_ext.spatial.planning.choose import meshes
from slurm_ext.spatial.planning.cost import MeshCost
from slurm_ext.spatial.planning.profile import ClusterProfile

GRIDS = {2: [[2, 1, 1], [1, 2, 1]], 4: [[2, 2, 1], [4, 1, 1], [1, 1, 4]]}
MOST = {2: 0.6, 4: 0.35}
SHAPES = [(32, 32, 32), (64, 32, 32), (32, 32, 64), (32, 64, 32), (48, 48, 48), (64, 16, 16)]
NEAR = 1.05


def main() -> None:
    """Measure, and print one JSON object last."""
    run(options(__doc__, quick="small volumes, few steps, two shapes"), result, lambda _: None)


def result(args: argparse.Namespace) -> dict[str, Any]:
    """The benchmark's last line."""
    size, repeats = (16, 3) if args.quick else (32, 9)
    figures = {
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "exactness": _worst("exactness", size=size),
        "rounding": _worst("rounding", size=size, seeds=1 if args.quick else 3),
        "memory": {str(ranks): _memory(ranks, 32) for ranks in GRIDS},
        "curve": on_ranks(4, "curve", grid=[2, 2, 1], size=8, count=20 if args.quick else 100)[0],
        "choice": [_choice(sizes, repeats) for sizes in SHAPES[: 2 if args.quick else None]],
        "scaling": _scaling([32 if args.quick else 64] * 3, repeats),
    }
    return {"bench": "spatial", "figures": figures, "wanted": list(wanted(figures))}


def wanted(figures: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Targets, each with the measured value."""
    for precision, most in (("float32", 1e-6), ("float64", 1e-12)):
        rows = [v for name, v in figures["exactness"].items() if name.endswith(precision)]
        for what in rows[0]:
            yield at_most(f"{precision}: {what}", most, max(one[what] for one in rows))
    rounding = list(figures["rounding"].values())
    absolute = max(one["slabs against serial"] * one["largest"] for one in rounding)
    yield at_most("float32: input gradient, absolute", 1e-6, absolute)
    over = max(one["rms of slabs over rms of serial"] for one in rounding)
    yield at_most("float32: error of input gradients against double, over serial's", 1.25, over)
    for ranks, most in MOST.items():
        for name, share in figures["memory"][str(ranks)].items():
            yield at_most(f"activations of a rank over serial: {name}", most, share)
    yield at_most("loss curve against serial", 1e-9, figures["curve"]["furthest"])
    equal = all(one["is_best_of_model"] for one in figures["choice"])
    yield row("chosen mesh is the best of its own model", True, equal, met=equal)
    worst = max(one["over_best_measured"] for one in figures["choice"])
    yield at_most("chosen mesh over the best measured, in time", NEAR, worst)
    yield at_least("two ranks over one rank of one thread", 1.6, figures["scaling"]["speedup"])


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
    """The chosen mesh of two ranks for one global batch of two, and all others, measured."""
    from torch import nn

    from slurm_ext.spatial.measure import profile

    net = profile(lambda _: BenchUNet(nn.BatchNorm3d), sizes)
    found = meshes(net, ClusterProfile(inside_bytes_s=2e9), 2, 2)
    tried = [[one.data, one.space, one.batch] for one in found]
    times = on_ranks(2, "steps", meshes=tried, size=sizes, repeats=repeats)
    worst = map(max, zip(*times, strict=True))
    measured = dict(zip(map(_name, found), worst, strict=True))
    best = min(one.step_s for one in found)
    return {
        "sizes": sizes,
        "chosen": _name(found[0]),
        "predicted_s": {_name(one): one.step_s for one in found},
        "measured_s": measured,
        "is_best_of_model": found[0].step_s == best,
        "over_best_measured": measured[_name(found[0])] / min(measured.values()),
    }


def _name(mesh: MeshCost) -> str:
    return f"{mesh.data} x {'x'.join(map(str, mesh.space))}"


def _scaling(sizes: list[int], repeats: int) -> dict[str, float]:
    """Seconds of a step, and how much quicker two ranks are."""
    words: dict[str, Any] = {"size": sizes, "repeats": repeats}
    one = on_ranks(1, "steps", meshes=[[1, [1, 1, 1], 1]], **words)[0][0]
    threads = on_ranks(1, "steps", threads=2, meshes=[[1, [1, 1, 1], 1]], **words)[0][0]
    two = max(on_ranks(2, "steps", meshes=[[1, [2, 1, 1], 1]], **words))[0]
    return {"one_s": one, "two_threads_s": threads, "two_ranks_s": two, "speedup": one / two}


if __name__ == "__main__":
    main()
