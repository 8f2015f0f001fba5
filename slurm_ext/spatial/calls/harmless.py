"""Functions that leave space alone whatever their arguments are."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# They tell of a tensor, make another of its kind, or change its format.
ANSWERS = _names(
    "__hash__ __len__ __repr__ __format__ dim ndimension element_size"
    " is_contiguous is_floating_point is_complex is_tensor get_device"
    " requires_grad_ register_hook retain_grad contiguous detach"
    " to type type_as float double half bfloat16 cuda cpu"
    " zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty new_tensor"
    # attributes
    " data device dtype grad grad_fn imag itemsize layout name names ndim output_nr real"
    " requires_grad retains_grad _backward_hooks _version"
    " is_cpu is_cuda is_leaf is_meta is_mkldnn is_mps is_nested is_quantized is_sparse is_xpu"
)
# Element by element, beside those that torch marks; and marked ones that are not (one number,
# random numbers).
POINTWISE = _names(
    "softsign tanhshrink logsigmoid log_sigmoid hardswish floor_divide copy_ fill_ zero_"
    " masked_fill_ expand_as __rsub__ __rdiv__ __rpow__ __rfloordiv__ __rmod__"
    " __and__ __or__ __xor__ __invert__"
)
NOT_POINTWISE = _names("equal rrelu")
OF_FIRST = _names("to type_as")  # a second tensor lends its type alone


@cache
def is_pointwise(name: str) -> bool:
    """True if torch says so of one of its forms, or of that which does not work in place."""
    kept = name.removesuffix("_")
    packets: list[Any] = [getattr(torch.ops.aten, packet, None) for packet in (name, kept)]
    forms = [getattr(packet, form) for packet in packets if packet for form in packet.overloads()]
    marked = any(torch.Tag.pointwise in form.tags for form in forms)
    return name in POINTWISE or (marked and kept not in NOT_POINTWISE)
