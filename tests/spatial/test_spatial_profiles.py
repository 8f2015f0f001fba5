"""Profiles of ordinary networks: strides and halos that a plan can use, whatever their layers."""

import json
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from slurm_ext.spatial.measure import profile
from slurm_ext.spatial.planning.choose import meshes
from slurm_ext.spatial.planning.profile import ClusterProfile, NetworkProfile, parse


class Residual(nn.Module):
    """A block of ResNet that halves each side."""

    def __init__(self, inputs: int, outputs: int) -> None:
        """Two ways, added up."""
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, 2, 1), nn.BatchNorm2d(outputs), nn.ReLU()
        )
        self.short = nn.Conv2d(inputs, outputs, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of both."""
        y: torch.Tensor = self.way(x) + self.short(x)
        return y


class Squeezed(nn.Module):
    """Channels weighted by what a global mean tells (Hu, 2018)."""

    def __init__(self, channels: int) -> None:
        """A mean and a convolution of it."""
        super().__init__()
        self.weights = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels, 1), nn.Sigmoid()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Each channel times its weight."""
        y: torch.Tensor = x * self.weights(x)
        return y


def growing() -> nn.Module:
    """Larger inside than its input."""
    return nn.Sequential(
        nn.ConvTranspose2d(1, 2, 4, 2, 1), nn.Conv2d(2, 2, 3, padding=1), nn.AvgPool2d(2), nn.ReLU()
    )


def unpadded() -> nn.Module:
    """Windows that take planes away, twice, before a layer at stride 4."""
    layers = [nn.Conv2d(1, 1, 3), nn.MaxPool2d(2), nn.Conv2d(1, 1, 3), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.ReLU())


def deep() -> nn.Module:
    """Total stride 32: a voxel of a crop of 32 is left, which has no variance."""
    widths = [1, 2, 2, 2, 2, 2]
    return nn.Sequential(*map(Residual, widths, widths[1:]), nn.BatchNorm2d(2))


def instance() -> nn.Module:
    """Norms of single samples."""
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.InstanceNorm2d(3))


def enlarged() -> nn.Module:
    """A pooling, and a linear enlargement that wants a plane of each neighbour."""
    larger = nn.Upsample(scale_factor=2, mode="bilinear")
    return nn.Sequential(nn.Conv2d(1, 1, 1), nn.AvgPool2d(2), larger)


def parametrised() -> nn.Module:
    """A convolution whose weight is computed by a module inside of it."""
    return nn.Sequential(spectral_norm(nn.Conv2d(2, 2, 3, padding=1)), nn.ReLU())


def squeezed() -> nn.Module:
    """A mean of all voxels, which stays one voxel however large the volume is."""
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), Squeezed(2))


def measured(make: Callable[[], nn.Module], channels: int = 1) -> NetworkProfile:
    """The profile, for a volume of 128 x 128."""
    return profile(lambda _: make(), (128, 128), channels=channels)


@pytest.mark.parametrize(
    ("make", "channels", "stride", "halos"),
    [
        (growing, 1, 1, {"0": (1.0, 1, 1), "1": (0.5, 1, 1)}),
        (unpadded, 1, 4, {"0": (1.0, 0, 2), "2": (2.0, 0, 2)}),
        (deep, 1, 32, {f"{n}.way.0": (2.0**n, 1, 0) for n in range(5)}),
        (instance, 1, 1, {"0": (1.0, 1, 1)}),
        (enlarged, 1, 2, {"2": (2.0, 1, 1)}),
        (parametrised, 2, 1, {"0": (1.0, 1, 1)}),
        (squeezed, 1, 1, {"0": (1.0, 1, 1)}),
    ],
)
def test_ordinary_networks_can_be_planned(
    make: Callable[[], nn.Module],
    channels: int,
    stride: int,
    halos: dict[str, tuple[float, int, int]],
) -> None:
    """Their strides and halos are those of the layers, are read back, and two parts are a mesh."""
    found = measured(make, channels)
    assert found.strides == (stride, stride)
    layers = {one.name: (one.strides[0], one.before[0], one.after[0]) for one in found.layers}
    assert layers == halos
    assert parse(json.loads(json.dumps(found.document()))) == found
    assert (2, 1) in [one.space for one in meshes(found, ClusterProfile(), 2, 1)]


def test_norms_of_single_samples_are_counted() -> None:
    """Their two small collectives are part of a step, too."""
    assert measured(instance).norm_channels == (3,)


def test_a_layer_that_no_slab_can_compute_leaves_data_parallel_meshes() -> None:
    """A transposed convolution whose output is no multiple of its input is never divided."""
    found = measured(lambda: nn.Sequential(nn.ConvTranspose2d(1, 1, 3, 2, 1)))
    assert [one.space for one in meshes(found, ClusterProfile(), 2, 2)] == [(1, 1)]


def test_a_network_that_takes_no_crop_says_why() -> None:
    """Its own error is raised after the largest crop that was tried."""
    with pytest.raises(RuntimeError, match="3 channels"):
        measured(lambda: nn.Conv2d(3, 1, 3))
