"""Watch over the functions that a model calls between its layers: refused if they cross slabs.

Tensors carry a mark: a slab, or whole (all parts hold the same). What is made of slabs is a slab,
what is made of whole tensors alone is whole.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from slurm_ext.spatial.calls.arguments import Call, name_of
from slurm_ext.spatial.calls.harmless import OF_FIRST
from slurm_ext.spatial.calls.hints import hint
from slurm_ext.spatial.calls.marks import MARK, WHOLE, is_slab, marked, refuse_unwatched
from slurm_ext.spatial.calls.objections import objection
from slurm_ext.spatial.calls.sizes import READING, mark_slabs, size_read
from slurm_ext.spatial.geometry.errors import SpatialError


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
        call = Call(name_of(func), args, named, self.space)
        inputs = call.tensors[: 1 if call.name in OF_FIRST else None]
        slabs = [tensor for tensor in inputs if is_slab(tensor)]
        try:
            for slab in slabs:
                refuse_unwatched(slab)
            if slabs and call.name in READING:
                return size_read(call)
            if slabs and (why := objection(call, {id(slab) for slab in slabs})):
                raise SpatialError(f"{why}; {hint(call, why)}")
            result = func(*args, **named)
            if slabs and not call.name.startswith("new_"):
                return mark_slabs(result, slabs, self.space)
        except SpatialError as error:
            raise SpatialError(f"{self._caller()} calls {call.name}: {error}") from None
        is_made_of_whole = any(getattr(tensor, MARK, None) == WHOLE for tensor in inputs)
        return marked(result, WHOLE) if is_made_of_whole else result

    @property
    def is_active(self) -> bool:
        """True while it watches this thread."""
        return self in _get_current_function_mode_stack()  # type: ignore[no-untyped-call]  # torch's

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
