"""A second word of all ranks, before a module's first pass: its buckets stay, or are torch's own.

At its construction nobody knows yet whether the program registers a communication hook, which may
make something else of other buckets, or asks for the same bits in each run. And a rank whose store
failed after its vote did not hear that the others took the caps. So all ranks agree once more, when
gradients are first asked for, and where they do not, each builds the buckets anew that it would
have without a submission's word. From then on nothing changes: what a program asks for later is
told in its record, and its next runs are left alone.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from typing import Any, Callable

from .agreement import Agreement, UnheardError, store_of
from .construction import DISAGREEING, Construction, why_exact
from .own_buckets import Registered, restore


class FirstPass:
    """A hook on a module's forward pass; it is gone after the first one that asks for gradients."""

    def __init__(self, module: Any, made: Construction, agreement: Agreement) -> None:
        self._module, self._made, self._agreement = weakref.ref(module), made, agreement
        self._handle: Any = module.register_forward_pre_hook(self)
        self._hooks: list[Registered] = []

    def __call__(self, _module: Any, _args: Any) -> None:
        """Agree, if this pass asks for gradients."""
        if sys.modules["torch"].is_grad_enabled():
            self.settle()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of the module has no such hook: `{}.get(module, args)` hands on what it gets."""
        return getattr, ({}, "get")

    def hooked(self, register: Callable[..., Any], args: Any, options: Any) -> None:
        """Note a communication hook, and how it was registered."""
        if self._handle is not None:
            self._hooks.append((register, args, options))

    def settle(self) -> None:
        """Keep the buckets if all ranks keep theirs; or build torch's own."""
        handle, self._handle = self._handle, None
        module = self._module()
        if handle is not None and module is not None:
            handle.remove()
            hooks, self._hooks = self._hooks, []
            with contextlib.suppress(Exception):
                self._settle(module, hooks)

    def _settle(self, module: Any, hooks: list[Registered]) -> None:
        made = self._made
        why = "it has a communication hook" if _is_hooked(module, hooks) else why_exact()
        if not self._kept(module, "" if why else made.caps) and made.caps:
            restore(module, hooks)
            made.caps, made.left_alone = "", why or DISAGREEING

    def _kept(self, module: Any, vote: str) -> bool:
        """The verdict; where it is not heard, that of the ranks that have voted as this one did."""
        try:
            store, _ = store_of(module.process_group)
            key = f"{self._made.key}/kept"
            return self._agreement.reached(store, key, self._made.ranks, vote)
        except UnheardError:
            return True
        except Exception:  # it has not voted: the others wait in vain, and build theirs anew
            return False


def _is_hooked(module: Any, hooks: list[Registered]) -> bool:
    """True too where torch will register one itself: optimisers that step in the backward pass."""
    steps_early = any(hasattr(p, "_in_backward_optimizers") for p in module.parameters())
    return bool(hooks) or steps_early
