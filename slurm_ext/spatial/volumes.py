"""Volumes on disk, of which each rank reads its own slab only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset
from torch.utils.data.distributed import DistributedSampler

from slurm_ext.spatial.geometry.errors import SpatialError

if TYPE_CHECKING:
    from slurm_ext.spatial.geometry.mesh import Mesh

DATASET = "data"  # of an HDF5 file or a Zarr group


def open_volumes(path: str | Path) -> Any:
    """An array on disk, sliced as NumPy's are; a slice reads that part.

    `.npy` is mapped into memory; `.zarr`, `.h5` and `.hdf5` want zarr or h5py. A group's array is
    called "data".
    """
    suffix = Path(path).suffix
    if suffix == ".npy":
        return np.load(path, mmap_mode="r")
    if suffix == ".zarr":
        import zarr

        array = zarr.open(str(path), mode="r")
        return array if hasattr(array, "shape") else array[DATASET]
    if suffix in {".h5", ".hdf5"}:
        import h5py

        return h5py.File(path, "r")[DATASET]
    raise SpatialError(f"{path}: .npy, .zarr, .h5 or .hdf5 is wanted")


class Slabs(Dataset[tuple[torch.Tensor, ...]]):
    """This rank's slabs of samples: one tensor of each file.

    Files hold (samples, channels, *sizes), or (samples, features) for targets without space, which
    every rank reads whole. Raises SpatialError if sizes are not divisible or samples not as many.
    """

    def __init__(self, mesh: Mesh, *paths: str | Path) -> None:
        self.paths, self._files = paths, [open_volumes(path) for path in paths]
        if len({file.shape[0] for file in self._files}) != 1:
            raise SpatialError(f"{', '.join(map(str, paths))} have different numbers of samples")
        self._parts = [self._part(mesh, file.shape) for file in self._files]

    def __len__(self) -> int:
        return int(self._files[0].shape[0])

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        return tuple(
            torch.from_numpy(np.array(file[(index, *part)]))
            for file, part in zip(self._files, self._parts, strict=True)
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = {**state, "_files": [open_volumes(path) for path in state["paths"]]}

    @staticmethod
    def _part(mesh: Mesh, shape: tuple[int, ...]) -> tuple[slice, ...]:
        space = len(mesh.space)
        return (slice(None), *mesh.slab(shape[2:])) if len(shape) == space + 2 else ()


def sampler(
    dataset: Dataset[Any], mesh: Mesh, *, shuffle: bool, seed: int = 0
) -> DistributedSampler[Any]:
    """Samples of this rank's group: all parts of a sample draw the same ones, in one order."""
    return DistributedSampler(
        dataset, num_replicas=mesh.data, rank=mesh.row, shuffle=shuffle, seed=seed, drop_last=True
    )
