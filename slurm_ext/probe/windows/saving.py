"""Saving in a profile run: counted, and not done.

Each function is replaced in its own module as soon as that is imported, so that a job which takes
it by name gets the one that only counts.
"""

from __future__ import annotations

import collections
import functools
import os
import sys
from typing import Any, Callable, Counter

counts: Counter[str] = collections.Counter()


class Left:
    """The thing that stands in for a file that is not saved."""

    stand_in: Callable[[Any], None] = staticmethod(lambda _: None)


# Module: functions of it, or methods of a class of it.
SAVERS = {
    "torch": ("save",),
    "torch.serialization": ("save",),
    "torch.jit": ("save",),
    "torch.jit._script": ("RecursiveScriptModule.save",),
    "torch.distributed.checkpoint.state_dict_saver": ("save", "save_state_dict"),
    "torch.distributed.checkpoint": ("save", "save_state_dict"),
    "safetensors.torch": ("save_file", "save_model"),
    "safetensors.numpy": ("save_file",),
    "transformers.trainer": ("Trainer.save_model", "Trainer._save_checkpoint"),
    "accelerate.accelerator": ("Accelerator.save_state", "Accelerator.save_model"),
    "lightning.pytorch.trainer.trainer": ("Trainer.save_checkpoint",),
    "pytorch_lightning.trainer.trainer": ("Trainer.save_checkpoint",),
    "lightning.fabric.fabric": ("Fabric.save",),
    "deepspeed.runtime.engine": ("DeepSpeedEngine.save_checkpoint",),
}
_WITHIN_TORCH = tuple(name for name in SAVERS if name.partition(".")[0] == "torch")
_FILES = ("torch.save", "safetensors.save_file", "safetensors.save_model")
_done: set[str] = set()


def replace_known() -> None:
    """Replace what torch itself has so far; the other modules are awaited (Awaiting)."""
    for module in _WITHIN_TORCH:
        if module in sys.modules:
            replace(sys.modules[module])


def replace(module: Any) -> None:
    """Replace the savers of a module that is imported; one that is not complete comes again."""
    for path in SAVERS[module.__name__]:
        label = f"{module.__name__}.{path}"
        told = f"{module.__name__.partition('.')[0]}.{path}"
        owner: Any = module
        *within, name = path.split(".")
        for part in within:
            owner = getattr(owner, part, None)
        original = getattr(owner, name, None)
        if original is not None and label not in _done:
            setattr(owner, name, _counting(told, original))
            _done.add(label)


def _counting(label: str, original: Callable[..., Any]) -> Callable[..., Any]:
    if getattr(original, "_dlqueue_counts", False):  # torch.save is torch.serialization's
        return original

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        target = args[1] if len(args) > 1 else kwargs.get("f", kwargs.get("filename"))
        if _is_buffer(target):
            return original(*args, **kwargs)  # in memory: to copy or to send
        counts[label] += 1
        if label in _FILES and isinstance(target, (str, os.PathLike)):
            Left.stand_in(target)
        return None

    save._dlqueue_counts = True  # type: ignore[attr-defined]  # a mark of ours
    return save


def _is_buffer(target: Any) -> bool:
    """True for a file in memory; any other has a name."""
    return hasattr(target, "write") and not isinstance(getattr(target, "name", None), str)


class Awaiting:
    """Sees the import of modules that save, and lets everybody else's finders do it."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        """The module's own spec, whose loader replaces its savers once it has run."""
        if name not in SAVERS:
            return None
        for finder in [other for other in sys.meta_path if other is not cls]:
            look = getattr(finder, "find_spec", None)
            spec = look(name, path, target) if look else None
            if spec is not None:
                _after(spec.loader)
                return spec
        return None


def _after(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        execute(module)
        replace(module)

    loader.exec_module = exec_module
