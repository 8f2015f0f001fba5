"""Convolution of slabs, 1-D to 3-D, and its transposed form.

Keeps for its gradient what the serial layer keeps, and the halo beside it: the slab with its halo,
a second copy of the activations, is put together anew in the backward pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.pieces import Pieces, pieces
from slurm_ext.spatial.geometry.window import Edge, KernelWindow, edge, halos, spreading_halos
from slurm_ext.spatial.layers.halo import fetch, folding, joined, landed
from slurm_ext.spatial.layers.kernels import Convolving, by_onednn, convolved, gradients
from slurm_ext.spatial.layers.overlap import overlapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_ext.spatial.geometry.mesh import Mesh
    from slurm_ext.spatial.layers.collectives import Layout

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
Transposed = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d


def convolve(layer: Convolution, mesh: Mesh, x: torch.Tensor, layout: Layout) -> torch.Tensor:
    """`layer` over the whole volume, this rank's part of the result."""
    windows = [kernel_window(layer, axis) for axis in range(len(layout))]
    edges = window_edges(windows, mesh, layout)
    if all(edge.is_empty for edge in edges):
        return undivided(layer, x)
    return _convolved(layer, mesh, x, edges, windows)


def undivided(layer: Convolution, x: torch.Tensor, axes: Sequence[int] = ()) -> torch.Tensor:
    """`layer` over all that its windows reach; zeros are joined along `axes`, as halos are."""
    windows = [kernel_window(layer, axis) for axis in range(x.dim() - 2)]
    joins = any(windows[axis].left + windows[axis].right for axis in axes)
    for axis in axes if joins else ():
        added = [0] * (2 * (x.dim() - axis - 3))
        x = pad(x, [*added, windows[axis].left, windows[axis].right])
        windows[axis] = replace(windows[axis], left=0, right=0)
    if any(w.left != w.right for w in windows) or not (joins or by_onednn(x)):
        return serial(layer, x)
    return _convolved(layer, None, x, (), windows)


def convolve_meanwhile(
    layer: Convolution, mesh: Mesh, x: torch.Tensor, layout: Layout
) -> torch.Tensor:
    """The same, computing while planes travel; where no output can do without them, as `convolve`.

    In the backward pass the gradient of weights is computed while that of planes goes home.
    """
    windows = [kernel_window(layer, axis) for axis in range(len(layout))]
    edges = window_edges(windows, mesh, layout)
    divided = [pieces(windows[edge.axis], edge.halo, x.shape[edge.dim]) for edge in edges]
    parts = [part for part in divided if part is not None]
    if all(edge.is_empty for edge in edges) or len(parts) < len(edges):
        return convolve(layer, mesh, x, layout)
    return _convolved(layer, mesh, x, edges, windows, parts=parts)


def spread(layer: Transposed, mesh: Mesh, x: torch.Tensor, layout: Layout) -> torch.Tensor:
    """A transposed convolution, this rank's part of the result."""
    windows = [kernel_window(layer, axis) for axis in range(len(layout))]
    split = [axis for axis, parts in enumerate(mesh.space) if parts > 1]
    for window, sizes, more in zip(windows, layout, layer.output_padding, strict=True):
        if window.spread(sum(sizes)) + more < 1:
            raise SpatialError(f"of {sum(sizes)} planes it would make no output")
    by_axis = {
        axis: spreading_halos(windows[axis], layer.output_padding[axis], layout[axis])
        for axis in split
    }
    edges = [edge(axis + 2, axis, by_axis[axis], mesh.coordinates[axis]) for axis in split]
    y = _convolved(layer, mesh, x, edges, windows, layer.output_padding)
    for one in edges:
        stride = layer.stride[one.axis]
        begin = one.halo.from_prev * stride + windows[one.axis].left
        y = y.narrow(one.dim, begin, x.shape[one.dim] * stride)
    return y


def window_edges(windows: Sequence[KernelWindow], mesh: Mesh, layout: Layout) -> list[Edge]:
    """The edges of dimensions that are divided, or padded otherwise than torch would.

    Raises SpatialError, on all ranks alike, also for a dimension that is too small undivided.
    """
    edges = []
    for axis, window in enumerate(windows):
        if window.outputs(sum(layout[axis])) < 1:
            raise SpatialError(
                f"its windows of {window.reach} planes are larger than a volume of"
                f" {sum(layout[axis])}"
            )
        if mesh.space[axis] > 1 or window.left != window.right:
            halo = halos(window, layout[axis])
            edges.append(edge(axis + 2, axis, halo, mesh.coordinates[axis]))
    return edges


def serial(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The layer as torch wrote it."""
    y: torch.Tensor = type(layer).forward(layer, x)
    return y


def _convolved(
    layer: Any,
    mesh: Mesh | None,
    x: torch.Tensor,
    edges: Sequence[Edge],
    windows: Sequence[KernelWindow],
    output_padding: Sequence[int] | None = None,
    parts: Sequence[Pieces] = (),
) -> torch.Tensor:
    """The slab with its halo, convolved; transposed with an `output_padding`; with `parts`, so."""
    split = {edge.axis for edge in edges}
    padding = [0 if axis in split else w.left for axis, w in enumerate(windows)]
    more = list(output_padding or [0] * len(windows))
    transposed = output_padding is not None
    how = Convolving(layer.stride, padding, layer.dilation, transposed, more, layer.groups)
    x, weight, bias = (_as_autocast(t) for t in (x, layer.weight, layer.bias))
    y: torch.Tensor = _Convolve.apply(x, weight, bias, (edges, parts), mesh, how)  # type: ignore[no-untyped-call]  # torch's
    return y


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: Any, cut: Any, mesh: Any, how: Any
    ) -> torch.Tensor:
        edges, parts = cut
        if parts:
            y, planes = overlapped(
                x, edges, parts, mesh, lambda wide: convolved(wide, weight, bias, how)
            )
        else:
            planes = fetch(x, edges, mesh, 0.0)
            y = convolved(joined(x, edges, planes, 0.0), weight, bias, how)
        ctx.save_for_backward(x, weight, *planes)
        ctx.edges, ctx.mesh, ctx.how, ctx.at_once = edges, mesh, how, not parts
        ctx.bias_sizes = None if bias is None else list(bias.shape)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        x, weight, *planes = ctx.saved_tensors
        wants_x, *wants = ctx.needs_input_grad[:3]
        wide = joined(x, ctx.edges, planes, 0.0)

        def shares(wanted: list[bool]) -> list[Any]:
            return gradients(grad, wide, weight, ctx.bias_sizes, ctx.how, wanted)

        dx, *own = shares([wants_x, *(want and ctx.at_once for want in wants)])
        home = folding(dx, ctx.edges, ctx.mesh) if wants_x else None
        if not ctx.at_once and any(wants):
            next(home, None) if home else None
            _, *own = shares([False, *wants])
        return home and landed(home), *own, None, None, None


def kernel_window(layer: Any, axis: int) -> KernelWindow:
    """The layer's window along one axis; torch pads "same" more on the right."""
    kernel, stride, dilation = layer.kernel_size[axis], layer.stride[axis], layer.dilation[axis]
    if layer.padding_mode != "zeros":
        raise SpatialError(f"padding mode {layer.padding_mode!r} is not divided")
    if layer.padding == "same":
        added = dilation * (kernel - 1)
        sides = (added // 2, added - added // 2)
    elif layer.padding == "valid":
        sides = (0, 0)
    else:
        sides = (layer.padding[axis], layer.padding[axis])
    return KernelWindow(kernel, stride, dilation, *sides)


def _as_autocast(x: Any) -> Any:
    """The tensor as autocast hands it to a convolution: halos travel in that precision, too."""
    if x is None or not torch.is_autocast_enabled(x.device.type) or x.dtype == torch.float64:
        return x
    return x.to(torch.get_autocast_dtype(x.device.type))
