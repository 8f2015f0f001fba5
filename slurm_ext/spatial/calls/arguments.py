"""Arguments of a call, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Call:
    """A call of one of torch's functions, as a TorchFunctionMode sees it."""

    name: str
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    space: int  # dimensions of space

    def argument(self, position: int, *names: str, default: Any = None) -> Any:
        """The argument at `position`, or by one of its names."""
        values = [self.named[name] for name in names if name in self.named]
        return values[0] if values else (*self.args, *[default] * 9)[position]

    @property
    def slab(self) -> Any:
        """The first argument, which the function changes or reads."""
        return self.argument(0, "input", "tensors")

    @property
    def tensors(self) -> list[torch.Tensor]:
        """All tensors of the call."""
        return [*tensors(self.args), *tensors(tuple(self.named.values()))]

    def axes(self, dims: Any) -> set[int]:
        """Numbers of dimensions from the front; -1 for one that is not given."""
        rank = self.space + 2
        listed = [dims] if isinstance(dims, int) or dims is None else [*dims]
        return {-1 if dim is None else dim % rank for dim in listed}


def name_of(function: Any) -> str:
    """The name of one of torch's functions; of an attribute that is read, its own."""
    name: str = getattr(function, "__name__", str(function))
    if name != "__get__":
        return name
    attribute = function.__self__
    return str(getattr(attribute, "__name__", None) or attribute.fget.__name__)


def tensors(values: Any) -> Iterator[torch.Tensor]:
    """All tensors in nested lists, tuples and mappings."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from tensors(value)
    elif isinstance(values, Mapping):
        yield from tensors([*values.values()])
