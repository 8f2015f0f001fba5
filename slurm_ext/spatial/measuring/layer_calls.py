"""Layers that a forward pass calls: their inputs' shapes, and their share of its time."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from slurm_ext.spatial.layers.rules import rule_of

WARM = 2  # passes, of which each layer's quickest counts


@dataclass(frozen=True)
class LayerCall:
    """A call of a layer that has a rule, or no children."""

    name: str
    layer: nn.Module
    input: torch.Tensor  # without data
    seconds: float


def layer_calls(model: nn.Module, x: torch.Tensor) -> list[LayerCall]:
    """The calls of a forward pass, in order."""
    passes = [_pass(model, x) for _ in range(1 + WARM)][1:]
    rows = zip(*passes, strict=True)
    return [replace(row[0], seconds=min(call.seconds for call in row)) for row in rows]


def shares(calls: list[LayerCall]) -> list[float]:
    """Of each call in the time of all."""
    total = sum(call.seconds for call in calls) or 1.0
    return [call.seconds / total for call in calls]


def _pass(model: nn.Module, x: torch.Tensor) -> list[LayerCall]:
    calls: list[LayerCall] = []
    names = {module: name for name, module in model.named_modules()}

    def begin(layer: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], torch.Tensor):
            sizes = args[0].detach().to("meta")
            calls.append(LayerCall(names[layer], layer, sizes, -_now(x)))

    def end(_layer: nn.Module, args: tuple[Any, ...], _result: Any) -> None:
        if args and isinstance(args[0], torch.Tensor):
            calls[-1] = replace(calls[-1], seconds=calls[-1].seconds + _now(x))

    leaves = _leaves(model)
    hooks = [leaf.register_forward_pre_hook(begin) for leaf in leaves]
    hooks += [leaf.register_forward_hook(end) for leaf in leaves]
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    return calls


def _leaves(model: nn.Module) -> list[nn.Module]:
    """Layers without what computes their weights, which is not over space."""
    ruled = {module for module in model.modules() if rule_of(type(module)) is not None}
    inside = {part for layer in ruled for part in layer.modules() if part is not layer}
    every = [module for module in model.modules() if module not in inside]
    return [module for module in every if module in ruled or not [*module.children()]]


def _now(x: torch.Tensor) -> float:
    if x.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()
