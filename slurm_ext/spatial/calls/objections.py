"""Reasons against a call on slabs.

Functions that torch marks as working element by element pass, beside tensors that are the same all
over space; so do those that work along batch or channels. All others are named: none is trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from slurm_ext.spatial.calls.harmless import ANSWERS, is_pointwise

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from slurm_ext.spatial.calls.arguments import Call

    Rule = Callable[[Call], str | None]


def objection(call: Call, slabs: Collection[int]) -> str | None:
    """The reason against the call; None if it does on slabs the same as on volumes.

    `slabs` are the ids of those of its tensors that are slabs.
    """
    if call.name in ANSWERS:
        return None
    if call.name in RULES:
        return RULES[call.name](call) or (_beside(call, slabs) if call.name in SEVERAL else None)
    if is_pointwise(call.name):
        return _beside(call, slabs)
    return "it may reach over space"


def _beside(call: Call, slabs: Collection[int]) -> str | None:
    """Other tensors must be the same for all voxels."""
    own = [x.shape[-call.space :] for x in call.tensors if id(x) in slabs]
    largest = [max(sizes) for sizes in zip(*own, strict=True)]
    for other in call.tensors:
        sides = [*zip(other.shape, other.stride(), strict=True)][-call.space :]
        expanded = [
            (size, 0) for size in largest[call.space - len(sides) :]
        ]  # one number, so laid out
        fits = all(s == e or s[0] == 1 for s, e in zip(sides, expanded, strict=True))
        if id(other) not in slabs and not fits:
            return f"with a tensor of {tuple(other.shape)}, which is no slab"
    return None


def _along(position: int, default: int | None = None, *, drops: bool = False) -> Rule:
    """A rule: the function works along dimensions, which must be those of batch or channels."""

    def rule(call: Call) -> str | None:
        if not call.axes(call.argument(position, "dim", "dims", "axis", default=default)) <= {0, 1}:
            return "over dimensions of space"
        if drops and not call.argument(position + 1, "keepdim", default=False):
            return "without keepdim=True, dimensions of space move"
        return None

    return rule


def _largest(call: Call) -> str | None:
    of_two = isinstance(call.argument(1, "other"), torch.Tensor)
    return None if of_two else _along(1, drops=True)(call)


def _flip(call: Call) -> str | None:
    dims = call.args[1:] if isinstance(call.argument(1), int) else call.argument(1, "dims")
    return None if call.axes(dims) <= {0, 1} else "over dimensions of space"


def _where(call: Call) -> str | None:
    return None if len(call.args) + len(call.named) == 3 else "it lists places"


def _index(call: Call) -> str | None:
    """Batch and channels may be cut, and stay dimensions; space stays whole."""
    index = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    gap = next((at for at, part in enumerate(index) if part is Ellipsis), None)
    if gap is not None:
        full = [slice(None)] * (call.space + 3 - len(index))
        index = (*index[:gap], *full, *index[gap + 1 :])
    kept = all(isinstance(part, (slice, list)) for part in index[:2])
    if kept and all(isinstance(part, slice) and part == slice(None) for part in index[2:]):
        return None
    return "its index cuts space, or takes a dimension away"


def _padding(call: Call) -> str | None:
    sides = call.argument(1, "pad", default=[1])
    return "it pads space" if any(sides[: 2 * call.space]) else None


def _resizing(call: Call) -> str | None:
    """By a whole factor, nearest neighbours of a slab are its own."""
    factor = call.argument(2, "scale_factor")
    if call.argument(3, "mode", default="nearest") not in {"nearest", "nearest-exact"}:
        return "only nearest neighbours are divided"
    if factor is None:
        return "a size may be that of the volume; give a whole scale_factor"
    factors = [factor] if isinstance(factor, (int, float)) else factor
    return None if all(factor == int(factor) for factor in factors) else "not by whole factors"


def _dropping(call: Call) -> str | None:
    drops = call.argument(1, "p", default=0.5) and call.argument(2, "training", default=True)
    return "each part would draw its own mask; use a layer" if drops else None


def _anyhow(_call: Call) -> str | None:
    return None


SEVERAL = {"cat", "concat", "concatenate", "max", "min", "where", "__setitem__"}
RULES: dict[str, Rule] = {
    **dict.fromkeys(("cat", "concat", "concatenate"), _along(1, 0)),
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "cumsum"), _along(1)),
    **dict.fromkeys(("narrow", "index_select"), _along(1)),
    **dict.fromkeys(("split", "chunk", "tensor_split"), _along(2, 0)),
    **dict.fromkeys(("sum", "mean", "prod", "logsumexp"), _along(1, drops=True)),
    **dict.fromkeys(("amax", "amin", "argmax", "argmin"), _along(1, drops=True)),
    "flip": _flip,
    "glu": _along(1, -1),
    "normalize": _along(2, 1),
    "roll": _along(2),
    "max": _largest,
    "min": _largest,
    "where": _where,
    "__getitem__": _index,
    "__setitem__": _index,
    "pad": _padding,
    "interpolate": _resizing,
    "prelu": _anyhow,
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), _dropping),
    **dict.fromkeys(("alpha_dropout", "feature_alpha_dropout"), _dropping),
}
