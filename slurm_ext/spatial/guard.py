"""Watch over the functions that a model calls between its layers: refused if they cross slabs.

Tensors carry a mark: a slab, or whole (all parts hold the same). What is made of slabs is a slab,
what is made of whole tensors alone is whole.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from slurm_ext.spatial.calls.arguments import Call, tensors
from slurm_ext.spatial.calls.harmless import OF_FIRST
from slurm_ext.spatial.calls.objections import objection
from slurm_ext.spatial.geometry.errors import SpatialError

MARK = "_dlqueue_part"  # an attribute of tensors
SLAB, WHOLE = "slab", "whole"
Values = TypeVar("Values")


def is_whole(x: torch.Tensor) -> bool:
    """True if all parts of a sample hold the same `x`, as after flattening or global pooling."""
    mark = getattr(x, MARK, None)
    return mark == WHOLE or (mark is None and x.dim() <= 2)


def marked(values: Values, mark: str) -> Values:
    """The values, whose tensors now carry the mark."""
    for tensor in tensors(values):
        setattr(tensor, MARK, mark)
    return values


class CallWatch(TorchFunctionMode):
    """Active while the model's forward runs, at rest inside the layers that have a rule."""

    def __init__(self, model: nn.Module, space: int) -> None:
        super().__init__()
        self.names = {id(module): name for name, module in model.named_modules()}
        self.space, self.rests = space, False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`, if it does the same on slabs; raises SpatialError where it does not."""
        named = kwargs or {}
        if self.rests:
            return func(*args, **named)
        call = Call(getattr(func, "__name__", str(func)), args, named, self.space)
        inputs = call.tensors[: 1 if call.name in OF_FIRST else None]
        marks = {id(tensor): getattr(tensor, MARK, None) for tensor in inputs}
        slabs = [key for key, mark in marks.items() if mark == SLAB]
        if slabs and (why := objection(call, slabs)):
            raise SpatialError(
                f"{self._caller()} calls {call.name}: {why}; use a layer of torch's, or a module"
                " that is `trusted` if it works voxel by voxel"
            )
        result = func(*args, **named)
        if slabs and not call.name.startswith("new_"):
            return marked(result, SLAB)
        return marked(result, WHOLE) if WHOLE in marks.values() else result

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """A layer works, and answers for itself."""
        before, self.rests = self.rests, True
        try:
            yield
        finally:
            self.rests = before

    def _caller(self) -> str:
        """The module whose forward is at work: the nearest one on the stack."""
        frame: Any = sys._getframe(1)  # noqa: SLF001  # the only way to it; when it fails, alone
        while frame is not None:
            module = frame.f_locals.get("self")
            if isinstance(module, nn.Module):
                return f"{self.names.get(id(module)) or 'model'} ({type(module).__name__})"
            frame = frame.f_back
        return "the model"
