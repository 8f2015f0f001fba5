"""Batch norm and group norm over all parts of a volume.

Each part sends its count, mean and sum of squared deviations; Chan's formula makes the volume's
variance of them, which is as exact as a second pass and needs one message. In the backward pass the
two sums of each channel are added up over the parts, as the serial gradient has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.function import once_differentiable

from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.layers.convolution import serial

if TYPE_CHECKING:
    from slurm_ext.spatial.geometry.mesh import Mesh
    from slurm_ext.spatial.layers.collectives import Layout

BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm


def batch_norm(layer: BatchNorm, mesh: Mesh, x: torch.Tensor, _layout: Layout) -> torch.Tensor:
    """Statistics of the whole volume of this group's samples; SyncBatchNorm: of all samples."""
    everywhere = isinstance(layer, nn.SyncBatchNorm)
    return _batch_norm(layer, x, dist.group.WORLD if everywhere else mesh.group)


def synced_batch_norm(
    layer: BatchNorm, _mesh: Mesh, x: torch.Tensor, _layout: Layout
) -> torch.Tensor:
    """Statistics of the volumes of all samples."""
    return _batch_norm(layer, x, dist.group.WORLD)


def of_whole(layer: Any, rule: Any, mesh: Mesh, x: torch.Tensor) -> torch.Tensor:
    """Any layer over what all parts hold alike; norms over all samples count it once."""
    if rule is synced_batch_norm or isinstance(layer, nn.SyncBatchNorm):
        return _batch_norm(layer, x, dist.group.WORLD, copies=mesh.parts)
    return serial(layer, x)


def _batch_norm(layer: BatchNorm, x: torch.Tensor, group: Any, copies: int = 1) -> torch.Tensor:
    if not layer.training and layer.running_mean is not None:
        return serial(layer, x)
    mean, var, count = statistics(x, group)
    if layer.training and layer.running_mean is not None:
        own = count / copies
        _track(layer, mean, var * (own / max(own - 1, 1)))
    return _normalised(x, x.shape, mean, var, count, layer, group)


def group_norm(layer: nn.GroupNorm, mesh: Mesh, x: torch.Tensor, _layout: Layout) -> torch.Tensor:
    """Statistics of each sample and group of channels over the whole volume."""
    rows = (1, x.shape[0] * layer.num_groups, -1)
    mean, var, count = statistics(x.reshape(rows), mesh.group)
    return _normalised(x, rows, mean, var, count, layer, mesh.group)


def instance_norm(layer: Any, mesh: Mesh, x: torch.Tensor, _layout: Layout) -> torch.Tensor:
    """Statistics of each sample and channel over the whole volume."""
    if layer.track_running_stats:
        raise SpatialError("running statistics of single samples are not divided")
    rows = (1, x.shape[0] * x.shape[1], -1)
    mean, var, count = statistics(x.reshape(rows), mesh.group)
    return _normalised(x, rows, mean, var, count, layer, mesh.group)


def statistics(x: torch.Tensor, group: Any) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Mean, biased variance and count of each channel (dimension 1) over all ranks of `group`.

    Raises SpatialError, on all ranks alike, for a channel of one value, as the serial layer does.
    """
    with torch.no_grad():
        wide = x.detach() if x.dtype == torch.float64 else x.detach().float()
        mean, var = torch.ops.aten.batch_norm_update_stats(wide, None, None, 0.0)
        count = torch.full_like(mean, x.numel() / x.shape[1], dtype=torch.float64)
        counts, means, squares = _all([count, mean.double(), var.double() * count], group)
        total = counts.sum(0)
        if total[0] <= 1:
            raise SpatialError("one value has no variance; a mean wants more than one")
        whole = (counts * means).sum(0) / total
        spread = squares.sum(0) + (counts * (means - whole).square()).sum(0)
        return whole.to(mean.dtype), (spread / total).to(mean.dtype), float(total[0])


def _all(columns: list[torch.Tensor], group: Any) -> torch.Tensor:
    """Each column of all ranks: (column, rank, channel)."""
    own = torch.stack(columns)
    rows = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(rows, own, group=group)
    return torch.stack(rows, 1)


def _track(layer: BatchNorm, mean: torch.Tensor, var: torch.Tensor) -> None:
    """Running statistics, as the serial layer keeps them."""
    with torch.no_grad():
        share = layer.momentum
        if layer.num_batches_tracked is not None:
            layer.num_batches_tracked.add_(1)
            if share is None:
                share = 1.0 / float(layer.num_batches_tracked)
        for kept, new in ((layer.running_mean, mean), (layer.running_var, var)):
            if kept is not None:
                kept.mul_(1 - (share or 0.0)).add_(new.to(kept.dtype), alpha=share or 0.0)


def _normalised(
    x: torch.Tensor,
    rows: Any,
    mean: torch.Tensor,
    var: torch.Tensor,
    count: float,
    layer: Any,
    group: Any,
) -> torch.Tensor:
    about = (rows, mean, var, count, layer.eps, group)
    y: torch.Tensor = _Normalise.apply(x, layer.weight, layer.bias, about)  # type: ignore[no-untyped-call]  # torch's
    return y


class _Normalise(torch.autograd.Function):
    """Standardise each row of x, seen as (batch, row, ...), then scale and shift each channel.

    Where rows are channels, torch's kernel for evaluation does both. Keeps x, as torch does.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: Any, bias: Any, about: Any) -> torch.Tensor:
        rows, mean, var, count, eps, group = about
        ctx.save_for_backward(x, weight, mean, var)
        ctx.about = (rows, count, eps, group)
        if rows == x.shape:
            return _standard(x, mean, var, eps, weight, bias)
        y = _standard(x.reshape(rows), mean, var, eps).view(x.shape)
        if weight is None:
            return y.clone()  # a view could not be changed in place by the next layer
        return torch.addcmul(_channels(bias, x), y, _channels(weight, x))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        x, weight, mean, var = ctx.saved_tensors
        rows, count, eps, group = ctx.about
        values, by_channel = x.reshape(rows), rows == x.shape
        dweight = dbias = None
        if not by_channel and weight is not None:
            standard = _standard(values, mean, var, eps).view(x.shape)
            others = [d for d in range(x.dim()) if d != 1]
            dweight, dbias = (grad * standard).sum(others), grad.sum(others)
            grad = grad * _channels(weight, x)
        scale = weight if by_channel else None
        dx, along, sums = _own_part(grad.reshape(rows), values, scale, mean, var, eps)
        if by_channel and weight is not None:
            dweight, dbias = along, sums
        total = torch.stack([along, sums])
        dist.all_reduce(total, group=group)
        factor = torch.rsqrt(var + eps) if scale is None else torch.rsqrt(var + eps) * scale
        along, sums = (total * (-factor / count)).unbind()
        dx += _standard(values, mean, var, eps, along, sums)
        return dx.view(x.shape), dweight, dbias, None


def _standard(
    x: torch.Tensor,
    mean: torch.Tensor,
    var: torch.Tensor,
    eps: float,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    return torch.batch_norm(x, weight, bias, mean, var, False, 0.0, eps, False)


def _own_part(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: Any,
    mean: torch.Tensor,
    var: torch.Tensor,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradient with statistics held still; sums of grad * standardised x, and of grad.

    `grad` takes the strides of `x`: with one sample they may read as either memory format, and
    torch's kernel then takes channels of the one for voxels of the other.
    """
    ones = torch.ones_like(mean) if weight is None else weight
    dx, along, sums = torch.ops.aten.native_batch_norm_backward(
        torch.empty_like(x).copy_(grad),
        x,
        ones,
        mean,
        var,
        None,
        None,
        False,
        eps,
        [True, True, True],
    )
    return dx, along, sums


def _channels(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return values.view(1, -1, *[1] * (x.dim() - 2))
