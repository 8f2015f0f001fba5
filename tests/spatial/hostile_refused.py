"""Forwards that reach over space, lay the volume's numbers on a slab, or hide: refused in words."""

from typing import Any

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.spatial.hostile_exact import Between


def _window(_: Any, x: Any) -> Any:
    b, c, d, h, w = x.shape
    return x.view(b, c, d // 2, 2, h // 2, 2, w // 2, 2).mean((3, 5, 7))


def _by_position(_: Any, x: Any) -> Any:
    grid = torch.meshgrid(*[torch.arange(n) / n for n in x.shape[2:]], indexing="ij")
    return x + torch.stack(grid)[None, :1].to(x)


def _shuffled(_: Any, x: Any) -> Any:
    b, c, *sizes = x.shape
    return x.view(b, 2, c // 2, *sizes).transpose(1, 2).reshape(b, c, *sizes)


def _scaled(x: Any) -> Any:
    return _Scaled.apply(x)  # type: ignore[no-untyped-call]  # torch's


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * (1.0 / x.shape[2])

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * (1.0 / grad.shape[2])


REFUSED: dict[str, Between] = {
    "mean over space": lambda _, x: x - x.mean((2, 3, 4), keepdim=True),
    "sum over size": lambda _, x: x - x.sum((2, 3, 4), keepdim=True) / x[0, 0].numel(),
    "mean of all": lambda _, x: x - x.mean(),
    "torch.mean": lambda _, x: x - torch.mean(x, dim=[-1, -2, -3], keepdim=True),
    "largest of all": lambda _, x: x / x.abs().amax((2, 3, 4), keepdim=True),
    "standard deviation": lambda _, x: x / x.std(),
    "norm": lambda _, x: x / x.norm(),
    "linalg norm": lambda _, x: x / torch.linalg.vector_norm(x),
    "positions along": lambda _, x: x + torch.arange(x.size(2)).view(1, 1, -1, 1, 1).to(x),
    "grid of positions": _by_position,
    "buffer of positions": lambda net, x: x + net.place,
    "zeros of its shape": lambda _, x: x + torch.zeros(x.shape).to(x),
    "ones, concatenated": lambda _, x: torch.cat([x, x.new_ones(x.size(0), 1, *x.shape[2:])], 1),
    "rearranged windows": _window,
    "channel shuffle by view": _shuffled,
    "reshape by size": lambda _, x: x.reshape(x.shape[0], x.shape[1], -1).softmax(2).view(x.shape),
    "flatten": lambda _, x: x.flatten(2).cumsum(2).view_as(x),
    "interpolated to a size": lambda _, x: functional.interpolate(
        x, size=tuple(2 * n for n in x.shape[2:])
    ),
    "trilinear to a size": lambda _, x: functional.interpolate(
        x, size=x.shape[2:], mode="trilinear"
    ),
    "adaptive pool by function": lambda _, x: x - functional.adaptive_avg_pool3d(x, 1),
    "adaptive largest": lambda _, x: x - functional.adaptive_max_pool3d(x, 1),
    "average of the volume": lambda _, x: x - functional.avg_pool3d(x, x.shape[2:]),
    "unfold": lambda _, x: x.unfold(2, 2, 2).mean(-1),
    "roll": lambda _, x: x + x.roll(1, 2),
    "flip": lambda _, x: x + x.flip(2),
    "flip of all": lambda _, x: x + torch.flip(x, (-1, -2, -3)),
    "cumsum": lambda _, x: x.cumsum(2),
    "difference": lambda _, x: functional.pad(x.diff(dim=2), (0, 0, 0, 0, 1, 0)),
    "gradient": lambda _, x: torch.gradient(x, dim=2)[0],
    "planes": lambda _, x: x[:, :, ::2],
    "planes by position": lambda _, x: x * (torch.arange(x.shape[2]) < 4).view(1, 1, -1, 1, 1),
    "first plane": lambda _, x: x - x[:, :, :1],
    "cropped to its size": lambda _, x: x[:, :, : x.shape[2] // 2],
    "transposed": lambda _, x: x.transpose(2, 4),
    "permuted": lambda _, x: x.permute(0, 1, 4, 3, 2),
    "turned": lambda _, x: torch.rot90(x, 1, (2, 3)),
    "matrix transpose": lambda _, x: x + x.mT,
    "einsum over space": lambda _, x: torch.einsum("bcdhw,bcehw->bcdhw", x, x),
    "matmul": lambda _, x: x @ x,
    "sorted": lambda _, x: x.sort(2)[0],
    "grid sample": lambda _, x: functional.grid_sample(
        x, torch.zeros(x.size(0), *x.shape[2:], 3).to(x)
    ),
    "random of its shape": lambda _, x: x + torch.rand_like(x),
    "numpy": lambda _, x: x * float(x.detach().numpy().mean()),
    "number of one voxel": lambda _, x: x * float(x[:, :, :1, :1, :1].sum()),
    "stride": lambda _, x: x / x.stride(1),
    "checkpointed function": lambda _, x: checkpoint(
        lambda y: y.sin() / y.shape[2], x, use_reentrant=False
    ),
    "checkpointed function, reentrant": lambda _, x: checkpoint(
        lambda y: y.sin() / y.shape[2], x, use_reentrant=True
    ),
    "block, checkpointed, reentrant": lambda net, x: checkpoint(net.block, x, use_reentrant=True),
    "mapped": lambda _, x: torch.vmap(lambda v: v / v.shape[1])(x),
    "mapped, summed": lambda net, x: x + net.pool(torch.vmap(lambda v: v / v.shape[1])(x)),
    "a layer on ones of its shape": lambda net, x: (
        net.pool(net.block.layer(torch.ones_like(x[:1]).new_ones(x.shape))) + x
    ),
    "expanded to its shape": lambda _, x: x + torch.ones(1, 1, 1, 1, 1).to(x).expand(x.shape),
    "own function, sizes of its gradient": lambda _, x: _scaled(x),
    "convolution by function": lambda _, x: functional.conv3d(
        x, torch.ones(4, 4, 3, 3, 3).to(x), padding=1
    ),
    "taken apart": lambda _, x: torch.stack(x.unbind(2), 2),
    "plane by plane": lambda _, x: torch.stack([x.select(2, n) for n in range(x.shape[2])], 2),
    "laid out anew": lambda _, x: x.as_strided(x.shape, x.stride()),
    "storage": lambda _, x: x / x.untyped_storage().nbytes(),
    "instance norm by function": lambda _, x: functional.instance_norm(x),
    "layer norm by size": lambda _, x: functional.layer_norm(x, x.shape[1:]),
    "softmax over space": lambda _, x: x.softmax(2),
    "sizes compared with a whole": lambda net, x: x / (1 + torch.is_same_size(x, net.place)),
}
