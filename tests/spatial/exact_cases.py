"""Cases of test_spatial_exact.py: differences from serial, on four ranks."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import nn

from slurm_ext.spatial.convert import parallelise
from slurm_ext.spatial.geometry.mesh import Mesh
from slurm_ext.spatial.measure import saved_bytes
from slurm_ext.spatial.verify import compare

GRIDS = [(1, 1, 4), (2, 2, 1)]
Layer = Callable[[], nn.Module]


def layers() -> Iterator[tuple[str, Layer]]:
    """Every kind of layer that has a rule, with the settings that change its halo."""
    for kernel, stride, dilation in product((1, 3, 5, 7), (1, 2), (1, 2)):
        same = dilation * (kernel - 1) // 2
        if same <= 4 and (kernel > 1 or dilation == 1):
            name = f"conv k{kernel} s{stride} d{dilation}"
            yield name, lambda k=kernel, s=stride, d=dilation, p=same: nn.Conv3d(2, 3, k, s, p, d)  # type: ignore[misc]  # bound at once
    yield "conv k2 s2", lambda: nn.Conv3d(2, 3, 2, 2)
    yield "conv groups, no bias", lambda: nn.Conv3d(2, 4, 3, padding=1, groups=2, bias=False)
    yield "conv same by name, even", lambda: nn.Conv3d(2, 3, (4, 2, 3), padding="same")
    yield "conv unequal", lambda: nn.Conv3d(2, 3, (3, 5, 1), (1, 2, 1), (1, 2, 0))
    yield "conv padding 0", lambda: nn.Sequential(nn.Conv3d(2, 3, 3), nn.ReLU(), nn.Conv3d(3, 2, 3))
    yield "conv padding 0, k5, bn", lambda: nn.Sequential(nn.Conv3d(2, 3, 5), nn.BatchNorm3d(3))
    yield "transposed k2 s2", lambda: nn.ConvTranspose3d(2, 3, 2, 2)
    yield "transposed k4 s2 p1", lambda: nn.ConvTranspose3d(2, 4, 4, 2, 1, groups=2)
    yield "transposed k3 s2 p1 o1", lambda: nn.ConvTranspose3d(2, 3, 3, 2, 1, output_padding=1)
    yield "transposed k3 s1 p1", lambda: nn.ConvTranspose3d(2, 3, 3, 1, 1)
    yield "max pool 2/2", lambda: nn.MaxPool3d(2)
    yield "max pool 3/2", lambda: nn.MaxPool3d(3, 2, 1)
    yield "max pool dilated", lambda: nn.MaxPool3d(2, 1, 0, dilation=2)
    yield "average pool 2/2", lambda: nn.AvgPool3d(2)
    yield "average pool 3/2", lambda: nn.AvgPool3d(3, 2, 1)
    yield "average pool without zeros", lambda: nn.AvgPool3d(3, 1, 1, count_include_pad=False)
    yield "batch norm", lambda: nn.BatchNorm3d(2)
    yield "batch norm eval", lambda: nn.BatchNorm3d(2).eval()
    yield "batch norm, no affine", lambda: nn.BatchNorm3d(2, affine=False, momentum=None)
    yield "batch norm, untracked eval", lambda: nn.BatchNorm3d(2, track_running_stats=False).eval()
    yield "group norm", lambda: nn.GroupNorm(2, 2)
    yield "group norm, no affine", lambda: nn.GroupNorm(1, 2, affine=False)
    yield "upsample", lambda: nn.Upsample(scale_factor=2)
    yield "upsample, linear", lambda: nn.Upsample(scale_factor=(1, 2, 3), mode="trilinear")
    yield (
        "tail",
        lambda: nn.Sequential(
            nn.Conv3d(2, 3, 3, padding=1),
            nn.Flatten(),
            nn.Linear(3 * 16**3, 5),
            nn.Dropout(),
            nn.ReLU(),
            nn.Linear(5, 2),
        ),
    )
    yield (
        "global pooling",
        lambda: nn.Sequential(
            nn.Conv3d(2, 3, 3, padding=1),
            nn.AdaptiveAvgPool3d(1),
            nn.Conv3d(3, 4, 1),
            nn.Flatten(),
            nn.Linear(4, 2),
        ),
    )
    yield "pointwise", lambda: nn.Sequential(nn.PReLU(2), nn.GELU(), nn.Softmax(1))


def _of(layer: nn.Module, mesh: Mesh, sizes: tuple[int, ...]) -> dict[str, float]:
    layer = nn.Sequential(nn.Conv3d(2, 2, 1), layer).double()
    x = torch.randn(2, 2, *sizes, generator=torch.Generator().manual_seed(3)).double() + 1.5
    return asdict(compare(layer, x, mesh))


def case_layers(_folder: Path) -> dict[str, dict[str, float]]:
    """Of each layer and grid."""
    meshes = [Mesh(1, grid) for grid in GRIDS]
    return {
        f"{name} {mesh}": _of(make(), mesh, (20 if "padding 0" in name else 16,) * 3)
        for name, make in layers()
        for mesh in meshes
    }


class Down(nn.Module):
    """Two convolutions with norms."""

    def __init__(self, inputs: int, outputs: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.both = nn.Sequential(
            nn.Conv3d(inputs, outputs, 3, padding=1, bias=False),
            norm(outputs),
            nn.ReLU(inplace=True),
            nn.Conv3d(outputs, outputs, 3, padding=1),
            norm(outputs),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> Any:
        """The features."""
        return self.both(x)


class UNet(nn.Module):
    """Two levels, with skip connections as users write them."""

    def __init__(self, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.top, self.low, self.bottom = Down(1, 4, norm), Down(4, 8, norm), Down(8, 8, norm)
        self.pool = nn.MaxPool3d(2)
        self.up_low = nn.ConvTranspose3d(8, 8, 2, 2)
        self.up_top = nn.ConvTranspose3d(8, 4, 2, 2)
        self.join_low, self.join_top = Down(16, 8, norm), Down(8, 4, norm)
        self.head = nn.Conv3d(4, 2, 1)

    def forward(self, x: torch.Tensor) -> Any:
        """Two values for each voxel."""
        top = self.top(x)
        low = self.low(self.pool(top))
        x = self.up_low(self.bottom(self.pool(low)))
        x = self.join_low(torch.cat([x, low], 1))
        return self.head(self.join_top(torch.cat([self.up_top(x), top], 1)))


def case_unet(_folder: Path) -> dict[str, dict[str, float]]:
    """With both norms."""
    norms: dict[str, Callable[[int], nn.Module]] = {
        "batch norm": nn.BatchNorm3d,
        "group norm": lambda channels: nn.GroupNorm(2, channels),
    }
    x = torch.randn(
        2, 1, 16, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(5)
    )
    return {
        f"{name} {grid}": asdict(compare(UNet(norm).double(), x, Mesh(1, grid)))
        for name, norm in norms.items()
        for grid in ((4, 1, 1), (2, 2, 1))
    }


def case_single_precision(_folder: Path) -> dict[str, float]:
    """How far input gradients are from those in double precision: of slabs, and of serial."""
    mesh, serial = Mesh(1, (2, 2, 1)), UNet(nn.BatchNorm3d)
    x = torch.randn(2, 1, 16, 16, 16)
    exact = mesh.part(_gradient(copy.deepcopy(serial).double(), x.double()))
    slab = _gradient(parallelise(copy.deepcopy(serial), mesh), mesh.part(x))
    found = {"slabs": slab, "serial": mesh.part(_gradient(serial, x))}
    return {name: float((one - exact).square().mean().sqrt()) for name, one in found.items()}


def _gradient(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(model(x).square().sum(), x)[0]


def case_memory(_folder: Path) -> dict[str, float]:
    """Bytes that this rank keeps for the backward pass, over a quarter of serial's."""
    convolution = partial(nn.Conv3d, 4, 4, 3, padding=1)
    chains: dict[str, nn.Module] = {
        "pools with halos": nn.Sequential(
            convolution(), nn.ReLU(), nn.MaxPool3d(3, 2, 1), convolution(), nn.AvgPool3d(3, 1, 1)
        ),
        "pools without": nn.Sequential(convolution(), nn.ReLU(), nn.MaxPool3d(2), nn.AvgPool3d(2)),
        "transposed": nn.Sequential(convolution(), nn.ConvTranspose3d(4, 4, 4, 2, 1), nn.ReLU()),
    }
    mesh, x, found = Mesh(1, (1, 1, 4)), torch.randn(1, 4, 16, 16, 32), {}
    for name, chain in chains.items():
        whole = saved_bytes(chain, x)
        found[name] = 4 * saved_bytes(parallelise(chain, mesh), mesh.part(x).contiguous()) / whole
    return found


def case_one_and_two_dimensions(_folder: Path) -> dict[str, dict[str, float]]:
    """Signals and images."""
    signals = nn.Sequential(nn.Conv1d(2, 4, 5, padding=2), nn.BatchNorm1d(4), nn.MaxPool1d(2))
    images = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.AvgPool2d(2))
    return {
        "1-D": asdict(compare(signals.double(), torch.randn(2, 2, 32).double(), Mesh(1, (4,)))),
        "2-D": asdict(compare(images.double(), torch.randn(2, 2, 16, 8).double(), Mesh(1, (2, 2)))),
    }
