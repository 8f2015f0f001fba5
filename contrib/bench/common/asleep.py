"""A layer that computes by sleeping, so that a busy machine changes little."""

import time
from typing import Any

import torch


class Asleep(torch.autograd.Function):
    """The identity, which takes its time in both directions."""

    @staticmethod
    def forward(ctx: Any, data: Any, forward_s: float, backward_s: float) -> Any:
        """Sleep, then hand on."""
        ctx.backward_s = backward_s
        time.sleep(forward_s)
        return data.view_as(data)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Sleep, then hand back."""
        time.sleep(ctx.backward_s)
        return grads[0], None, None
