"""Kernels of a slab's convolution: on CPUs oneDNN's, where torch takes slower ones.

For one sample torch asks how large the volume is along all but its last dimension, and takes
kernels of its own below a bound: ten times as slow for slabs of a volume that is above it. oneDNN's
gradient of weights takes two to four times as long where it pads the first dimension: zeros that
are there already cost a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.functional import pad

if TYPE_CHECKING:
    from collections.abc import Sequence


class Convolving(NamedTuple):
    """A layer's way of convolving, in the order of torch's operators."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int


def convolved(x: torch.Tensor, weight: torch.Tensor, bias: Any, how: Convolving) -> torch.Tensor:
    """The slab with its halo, convolved."""
    if not by_onednn(x, transposed=how.transposed):
        return torch.convolution(x, weight, bias, *how)
    y: torch.Tensor = torch.mkldnn_convolution(
        x, weight, bias, how.padding, how.stride, how.dilation, how.groups
    )
    return y


def gradients(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: list[int] | None,
    how: Convolving,
    wanted: list[bool],
) -> list[Any]:
    """Gradients of slab, weight and bias: those that are wanted, None in place of others."""
    backward = torch.ops.aten.convolution_backward
    if not by_onednn(x, transposed=how.transposed):
        return [*backward(grad, x, weight, bias_sizes, *how, wanted)]
    planes, zeros = x.shape[2], how.padding[0]
    x = pad(x, [0, 0, 0, 0, zeros, zeros]) if zeros else x
    how = how._replace(padding=[0, *how.padding[1:]])
    shares = backward(grad.to_mkldnn(), x.to_mkldnn(), weight, bias_sizes, *how, wanted)
    dx, *own = (t.to_dense() if t is not None and t.is_mkldnn else t for t in shares)
    return [dx if dx is None else dx.narrow(2, zeros, planes), *own]


def by_onednn(x: torch.Tensor, *, transposed: bool = False) -> bool:
    """True where oneDNN convolves a slab."""
    return bool(
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and x.dim() == 5
        and x.is_contiguous()
        and not transposed
        and torch._C._get_mkldnn_enabled()  # noqa: SLF001  # torch has no public name for it
    )
