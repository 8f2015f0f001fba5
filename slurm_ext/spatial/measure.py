"""python -m slurm_ext.spatial.measure my_networks:build --size 64x64x64: a profile of a network.

`build(sizes)`, or `build()`, returns a model for such volumes, or (model, anything). It runs on two
small crops: what it keeps for the backward pass is counted by saved-tensor hooks and
scaled by voxels, which is exact for convolutions; two times tell the fixed part of a step from that
of each voxel, others what a slab costs by the dimension that is cut. Prints JSON for
`dlqueue recommend --spatial`.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import sys
from math import prod
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import nn

from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.layers import norms
from slurm_ext.spatial.layers.rules import rule_of
from slurm_ext.spatial.measuring.halo_layers import halo_layers, space_calls
from slurm_ext.spatial.measuring.link import link
from slurm_ext.spatial.measuring.memory import rank_memory
from slurm_ext.spatial.measuring.speeds import measured_speeds
from slurm_ext.spatial.planning.choose import meshes, volume_of
from slurm_ext.spatial.planning.profile import ClusterProfile, NetworkProfile
from slurm_ext.spatial.trial import quickest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slurm_ext.spatial.planning.cost import MeshCost

    Sizes = tuple[int, ...]
    Build = Callable[[Sizes], nn.Module]

NORMS = (norms.batch_norm, norms.group_norm, norms.instance_norm)


def profile(
    build: Build, sizes: Sizes, *, channels: int = 1, states: int = 3, crops: Sequence[Sizes] = ()
) -> NetworkProfile:
    """Measure networks of `build` on two crops, for a volume of `sizes`.

    Without `crops`, on the smallest pair of cubes that the network takes.
    `states` are the copies of weights that are kept beside them: gradients, and two of Adam's.
    """
    for pair in [] if crops else _crops(sizes)[:-1]:
        try:
            return _profile(build, sizes, channels, states, pair)
        except SpatialError:
            raise
        except (RuntimeError, ValueError):
            continue  # too small for its layers: the largest tells
    return _profile(build, sizes, channels, states, crops or _crops(sizes)[-1])


def _crops(sizes: Sizes) -> list[Sequence[Sizes]]:
    """Pairs of cubes, of which the smaller is within the volume, the smallest pair first."""
    first = 16 if min(sizes) >= 32 else 8
    sides = [first, *(side for side in (16, 32, 64) if first < side <= max(sizes))]
    return [[(side,) * len(sizes), (2 * side,) * len(sizes)] for side in sides]


def _profile(
    build: Build, sizes: Sizes, channels: int, states: int, crops: Sequence[Sizes]
) -> NetworkProfile:
    models = [build(crop) for crop in crops]
    pairs = [(m, _input(m, channels, crop)) for m, crop in zip(models, crops, strict=True)]
    calls = space_calls(pairs, crops)
    saved = saved_bytes(*pairs[1]) - saved_bytes(*pairs[0])
    voxels = [prod(crop) for crop in crops]
    speeds = measured_speeds(pairs)
    weights = float(sum(p.numel() * p.element_size() for p in build(sizes).parameters()))
    strides = [[round(one.strides[axis]) for one in calls] for axis in range(len(sizes))]
    return NetworkProfile(
        sizes=sizes,
        strides=tuple(max((1, *row)) for row in strides),
        parameter_bytes=weights,
        state_bytes=states * weights,
        activation_bytes=saved / (voxels[1] - voxels[0]) * prod(sizes),
        input_bytes=float(channels * 4 * prod(sizes)),
        fixed_s=speeds.fixed_s,
        voxel_s=speeds.voxel_s,
        whole_voxel_s=speeds.whole_voxel_s,
        axis_costs=speeds.axis_costs,
        norm_channels=tuple(
            one.call.input.shape[1] for one in calls if rule_of(type(one.call.layer)) in NORMS
        ),
        layers=tuple(halo_layers(calls)),
    )


def choose_mesh(
    build: Build,
    sizes: Sizes,
    samples: int,
    cluster: ClusterProfile | None = None,
    among: Callable[[MeshCost], bool] = lambda _: True,
    *,
    channels: int = 1,
) -> MeshCost:
    """Data and space for all ranks that have joined, and the layers that shall overlap.

    `samples` is the global batch; without a `cluster`, links and free memory are measured. All
    ranks measure the network at once, as they train at once, the first one's figures count, and
    meshes that these do not tell apart run a few steps. Random numbers of the program are left as
    they are. Raises SpatialError, on all ranks, if no mesh does.
    """
    world = dist.get_world_size()
    with torch.random.fork_rng([torch.cuda.current_device()] if torch.cuda.is_available() else []):
        cluster = cluster or measured_cluster()
        fitting = meshes(profile(build, sizes, channels=channels), cluster, world, samples)
        agreed = [[one for one in fitting if among(one)]]
        dist.broadcast_object_list(agreed)
        if not agreed[0]:
            raise SpatialError(
                f"no mesh of {world} ranks divides {samples} samples of"
                f" {'x'.join(map(str, sizes))} and fits into memory"
            )
        return quickest(build, (channels, *sizes), agreed[0])


def measured_cluster() -> ClusterProfile:
    """The ranks that have joined: all links as slow as the slowest, memory as the least.

    One rank has nothing to choose: neither is measured.
    """
    if dist.get_world_size() == 1:
        return ClusterProfile()
    gpu = dist.get_backend() == "nccl"
    device = torch.device("cuda" if gpu else "cpu")
    latency, speed = link(device)
    return ClusterProfile(
        memory_bytes=rank_memory(device),
        latency_s=latency,
        inside_bytes_s=speed,
        between_bytes_s=speed,
    )


def saved_bytes(model: nn.Module, x: torch.Tensor) -> int:
    """Bytes kept for the backward pass, each storage once; weights are not counted."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = model(x)
    del y
    return sum(kept.values())


def _input(model: nn.Module, channels: int, crop: tuple[int, ...]) -> torch.Tensor:
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    return torch.randn(1, channels, *crop, device=device)


def main() -> int:
    """Import the network, measure it, print the profile."""
    parser = argparse.ArgumentParser(
        prog="python -m slurm_ext.spatial.measure", description=__doc__
    )
    parser.add_argument("network", metavar="MODULE:FUNCTION")
    parser.add_argument("--size", required=True, type=volume_of, metavar="64x64x64")
    parser.add_argument("--crops", nargs=2, type=volume_of, default=(), metavar="16x16x16")
    parser.add_argument("--channels", type=int, default=1)
    args = parser.parse_args()
    sys.path.insert(0, "")  # as `python -m` has it
    measured = profile(_builder(args.network), args.size, channels=args.channels, crops=args.crops)
    print(json.dumps(measured.document()))  # noqa: T201  # a command prints
    return 0


def _builder(network: str) -> Build:
    """The user's function, whether it wants sizes or not, on the device of this rank."""
    module, _, function = network.partition(":")
    build = getattr(importlib.import_module(module), function)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def built(sizes: Sizes) -> nn.Module:
        network = build(sizes) if inspect.signature(build).parameters else build()
        model: nn.Module = network[0] if isinstance(network, tuple) else network
        return model.to(device)

    return built


if __name__ == "__main__":
    sys.exit(main())
