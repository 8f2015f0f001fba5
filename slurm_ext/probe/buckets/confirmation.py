"""Modules of this process that had no pass yet, and what a program asks of them until then."""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable

from .agreement import Agreement
from .construction import Construction
from .first_pass import FirstPass

_REGISTERING = ("register_comm_hook", "_register_builtin_comm_hook")
_JOINING = "join_hook"  # a rank without any data has no pass, and takes part in others'


class Confirmations:
    """The first pass of each module that has the submission's buckets."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._waiting: Any = weakref.WeakKeyDictionary()

    def expect(self, module: Any, made: Construction) -> None:
        """Agree before the first pass of a module that has the submission's buckets, or may."""
        if made.caps or made.is_unheard:
            self._waiting[module] = FirstPass(module, made, self._agreement)

    def follow(self, kind: Any) -> None:
        """Notice hooks that are registered for a `kind`, and ranks that join without a pass."""
        for name in filter(functools.partial(hasattr, kind), _REGISTERING):
            setattr(kind, name, self._noting(getattr(kind, name)))
        if hasattr(kind, _JOINING):
            setattr(kind, _JOINING, self._settling(getattr(kind, _JOINING)))

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def register(module: Any, *args: Any, **options: Any) -> Any:
            done = original(module, *args, **options)
            waiting = self._waiting.get(module)
            if waiting is not None:
                waiting.hooked(original, args, options)
            return done

        return register

    def _settling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def join_hook(module: Any, *args: Any, **options: Any) -> Any:
            waiting = self._waiting.get(module)
            if waiting is not None:
                waiting.settle()
            return original(module, *args, **options)

        return join_hook
