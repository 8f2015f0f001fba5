"""`dlqueue recommend --spatial PROFILE`: the mesh of ranks for volumes that are divided."""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slurm_ext.core.errors import InputError, UsageError, unreadable
from slurm_ext.spatial.planning.choose import fewest_ranks, meshes, volume_of
from slurm_ext.spatial.planning.cost import MeshCost
from slurm_ext.spatial.planning.profile import ClusterProfile, NetworkProfile, parse

MOST_SHOWN = 4  # other meshes in the text for people; all are in the JSON


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this kind of recommendation."""
    group = parser.add_argument_group("volumes divided among ranks (job_templates/spatial.sbatch)")
    group.add_argument(
        "--spatial",
        metavar="PROFILE",
        type=Path,
        help="a network's profile, as `python -m slurm_ext.spatial.measure` prints it",
    )
    group.add_argument("--ranks", type=int, metavar="N", help="ranks of the job")
    group.add_argument(
        "--batch", type=int, metavar="N", help="global batch (default: a sample a group)"
    )
    group.add_argument("--rank-mem-mib", type=int, metavar="N", help="memory of one rank")
    group.add_argument("--ranks-per-node", type=int, metavar="N", help="(default: all on one)")
    group.add_argument("--volume", metavar="AxBxC", help="another volume than the profile's")


def recommended(args: argparse.Namespace) -> dict[str, Any]:
    """`{v, job, recommendation, others, larger}`; raises UsageError, InputError.

    A mesh is {data, space, batch, memory_bytes, compute_s, halo_s, norm_s, gradient_s, input_s,
    overlap}, the last being layers that gain by computing while their halo travels. `larger` is the
    smallest space that holds one sample of twice the volume along each side.
    """
    if args.ranks is None or min(args.ranks, args.batch or 1, args.ranks_per_node or 1) < 1:
        raise UsageError("--spatial wants --ranks, and numbers from 1 on")
    net, cluster = _network(args), _cluster(args)
    rows = [asdict(cost) for cost in meshes(net, cluster, args.ranks, args.batch)]
    larger = fewest_ranks(net.resized(tuple(2 * size for size in net.sizes)), cluster)
    document = {"v": 1, "job": str(args.spatial), "sizes": list(net.sizes), "ranks": args.ranks}
    document |= {"recommendation": rows[0] if rows else None, "others": rows[1:]}
    return {**document, "larger": None if larger is None else asdict(larger)}


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The document of `recommended`, one fact a line."""
    best = document["recommendation"]
    sizes = "x".join(map(str, document["sizes"]))
    if best is None:
        yield f"{document['job']}: no mesh of {document['ranks']} ranks divides {sizes} and fits"
    else:
        yield f"{document['job']}: {_mesh(best)}"
        yield (
            f"a step:   {_ms(best, 'compute_s')} compute, {_ms(best, 'halo_s')} halos,"
            f" {_ms(best, 'norm_s')} norms, {_ms(best, 'gradient_s')} gradients,"
            f" {_ms(best, 'input_s')} input"
        )
    for other in document["others"][:MOST_SHOWN]:
        yield f"other:    {_mesh(other)}"
    larger = document["larger"]
    wants = "more than any mesh has" if larger is None else _mesh(larger)
    yield f"larger:   twice {sizes} along each side wants {wants}"
    if best is not None:
        mesh = "x".join(map(str, (best["data"], *best["space"])))
        more = f" --overlap {','.join(best['overlap'])}" if best["overlap"] else ""
        command = f"sbatch -n {document['ranks']} spatial.sbatch"
        yield f"next:     {command} TRAINING --mesh {mesh}{more}"


def _network(args: argparse.Namespace) -> NetworkProfile:
    try:
        net = parse(json.loads(args.spatial.read_text(encoding="utf-8")))
        return net if args.volume is None else net.resized(_volume(args.volume, net))
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(str(args.spatial), error) from None
    except (ValueError, RecursionError, AttributeError) as error:
        raise InputError(str(args.spatial), f"is no profile of a network: {error}") from None


def _volume(text: str, net: NetworkProfile) -> tuple[int, ...]:
    try:
        sizes = volume_of(text)
    except ValueError as error:
        raise UsageError(f"--volume: {error}") from None
    if len(sizes) != len(net.sizes):
        raise UsageError(f"--volume: {len(net.sizes)} dimensions are wanted")
    return sizes


def _cluster(args: argparse.Namespace) -> ClusterProfile:
    values: dict[str, Any] = {}
    if args.rank_mem_mib is not None:
        values["memory_bytes"] = args.rank_mem_mib * 2.0**20
    if args.ranks_per_node is not None:
        values["ranks_per_node"] = args.ranks_per_node
    return ClusterProfile(**values)


def _mesh(mesh: Mapping[str, Any]) -> str:
    cost = MeshCost(**mesh)
    space = "x".join(map(str, cost.space))
    return (
        f"{cost.data} data x {space} space, {cost.batch} samples a group:"
        f" {cost.memory_bytes / 2**20:.4g} MiB a rank, {cost.samples_per_s:.4g} samples/s"
    )


def _ms(mesh: Mapping[str, Any], part: str) -> str:
    return f"{1e3 * mesh[part]:.3g} ms"
