"""A network on one volume, as measured on one rank; and the cluster that it shall run on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1


@dataclass(frozen=True)
class HaloLayer:
    """A layer whose windows reach over the border of a slab."""

    strides: tuple[float, ...]  # of its input against the network's: below 1 where it is larger
    voxel_bytes: int  # of its input: channels times the size of a number
    before: tuple[int, ...]  # planes of the previous part
    after: tuple[int, ...]  # planes of the next part
    name: str = ""  # of the module
    share: float = 0.0  # of a convolution in the time of all voxels


@dataclass(frozen=True)
class NetworkProfile:
    """One sample's forward and backward pass on one rank, for a volume of `sizes`."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]  # the largest of any layer: slabs are divisible by it
    parameter_bytes: float
    state_bytes: float  # gradients and optimiser
    activation_bytes: float  # kept for the backward pass, of the whole volume
    input_bytes: float
    fixed_s: float  # of a step, whatever the volume
    voxel_s: float  # of each voxel of a slab
    norm_channels: tuple[int, ...]  # of each norm over the volume
    layers: tuple[HaloLayer, ...]
    whole_voxel_s: float = 0.0  # of each voxel of a volume that is not divided; 0: as of a slab
    axis_costs: tuple[float, ...] = ()  # time of a slab cut along each dimension; none: 1

    @property
    def voxels(self) -> int:
        """Voxels of one sample."""
        return prod(self.sizes)

    @property
    def piece_s(self) -> float:
        """Of one more call of a convolution, whatever its volume: at most a layer's fixed part."""
        return self.fixed_s / max(1, len(self.layers))

    def resized(self, sizes: tuple[int, ...]) -> NetworkProfile:
        """The network on another volume: all but its weights goes with the voxels."""
        factor = prod(sizes) / self.voxels
        values = {**self.__dict__, "sizes": sizes}
        for name in ("activation_bytes", "input_bytes"):
            values[name] *= factor
        return NetworkProfile(**values)

    def document(self) -> dict[str, Any]:
        """The profile as JSON."""
        return {"v": VERSION, **asdict(self)}


@dataclass(frozen=True)
class ClusterProfile:
    """Memory of a rank, and links between ranks; the defaults are an Ethernet cluster's."""

    memory_bytes: float = float("inf")
    ranks_per_node: int = 1 << 30
    latency_s: float = 50e-6  # of one message or step of a collective
    inside_bytes_s: float = 5e9
    between_bytes_s: float = 1e9
    storage_bytes_s: float = float("inf")  # of all ranks together


def parse(document: Mapping[str, Any]) -> NetworkProfile:
    """The profile of a document; raises ValueError that names what is wrong."""
    if document.get("v") != VERSION:
        raise ValueError(f"version {document.get('v')!r}; {VERSION} is wanted")
    try:
        numbers = {n: _number({"whole_voxel_s": 0.0, **document}, n) for n in NUMBERS}
        rows = {n: _row(document[n]) for n in ("sizes", "strides", "norm_channels")}
        costs = tuple(_number({"cost": c}, "cost") for c in document.get("axis_costs", ()))
        layers = tuple(_layer(layer, len(rows["sizes"])) for layer in document["layers"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a profile of a network: {error}") from None
    if not 1 <= len(rows["sizes"]) <= 3 or len(rows["strides"]) != len(rows["sizes"]):
        raise ValueError("1 to 3 sizes and as many strides are wanted")
    if len(costs) not in (0, len(rows["sizes"])):
        raise ValueError("axis_costs: one for each dimension, or none")
    return NetworkProfile(**numbers, **rows, layers=layers, axis_costs=costs)  # type: ignore[arg-type]  # checked above


NUMBERS = (
    "parameter_bytes",
    "state_bytes",
    "activation_bytes",
    "input_bytes",
    "fixed_s",
    "voxel_s",
    "whole_voxel_s",
)


def _number(document: Mapping[str, Any], name: str) -> float:
    value = document[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e24:
        raise ValueError(f"{name} is {value!r}; a number from 0 on is wanted")
    return float(value)


def _row(values: Any) -> tuple[int, ...]:
    row = tuple(values)
    if any(isinstance(v, bool) or not isinstance(v, int) or not 0 <= v < 1 << 40 for v in row):
        raise ValueError(f"{row} are not whole numbers from 0 on")
    return row


def _layer(layer: Mapping[str, Any], space: int) -> HaloLayer:
    before, after = (_row(layer[name]) for name in ("before", "after"))
    strides = tuple(_number({"strides": s}, "strides") for s in layer["strides"])
    if {len(strides), len(before), len(after)} != {space} or min(strides) <= 0:
        raise ValueError(f"a layer has other dimensions than the volume: {dict(layer)}")
    name, share = layer.get("name", ""), _number({"share": 0.0, **layer}, "share")
    if not isinstance(name, str) or share > 1:
        raise ValueError(f"a layer's name is a text and its share at most 1: {name!r}, {share}")
    return HaloLayer(strides, int(_number(layer, "voxel_bytes")), before, after, name, share)
