"""Hints: layers that work on slabs instead of a function that does not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.spatial.calls.arguments import Call

OTHERWISE = "use a layer of torch's, or a module that is `trusted` if it works voxel by voxel"
_MEAN = "nn.AdaptiveAvgPool{n}d(1) takes the mean of the volume"
_MOMENTS = _MEAN + ", as of x and of x * x, of which variance and norm are made"
_GATHERED = "nn.Flatten gathers the whole volume's features"
_CHANNELS = "of channels, x[:, :2] is a slab"
_RESIZED = "nn.Upsample(scale_factor=N), nearest or linear without align_corners, is divided"
_RANDOM = "nn.Dropout draws the masks of parts"
_PLACED = (
    "what is other at each voxel comes into the model as a volume, a second input, and"
    " torch.zeros_like(x) is a slab as x is"
)
HINTS: dict[str, str] = {
    "mean": _MEAN,
    "sum": _MEAN + ", and math.prod(x.shape[2:]) times that is the sum",
    **dict.fromkeys(("std", "var", "var_mean", "std_mean", "norm"), _MOMENTS),
    **dict.fromkeys(("linalg_vector_norm", "linalg_norm"), _MOMENTS),
    **dict.fromkeys(("flatten", "view", "reshape"), _GATHERED),
    "__getitem__": _CHANNELS,
    "interpolate": _RESIZED,
    "pad": "nn.Conv{n}d and pools pad the volume themselves",
    **dict.fromkeys(("rand_like", "randn_like", "bernoulli", "dropout"), _RANDOM),
    **dict.fromkeys(("numel", "stride"), "x.shape and x.numel() are those of the volume"),
}
_LAYERS = {
    "conv": "Conv",
    "conv_transpose": "ConvTranspose",
    "max_pool": "MaxPool",
    "avg_pool": "AvgPool",
    "adaptive_avg_pool": "AdaptiveAvgPool",
    "batch_norm": "BatchNorm",
    "instance_norm": "InstanceNorm",
}


def hint(call: Call, why: str) -> str:
    """The words that say which layer or input to use instead."""
    if "which is no slab" in why:
        return _PLACED
    stem = re.sub(r"\dd$", "", call.name)
    if stem in _LAYERS:
        return f"as a layer, nn.{_LAYERS[stem]}{call.space}d, it is divided"
    if call.name == "group_norm":
        return "as a layer, nn.GroupNorm, it is divided"
    return HINTS.get(call.name, OTHERWISE).format(n=call.space)
