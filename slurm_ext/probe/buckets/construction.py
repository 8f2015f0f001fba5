"""Arguments of a DistributedDataParallel that is being constructed, with the submission's buckets.

They stay the user's where the user says anything about buckets, where results must be the same bit
for bit, where torch cannot build such buckets (unused parameters, its reducer in Python, sparse
gradients), where the submission means another model or other ranks, and where ranks do not agree.
A list of caps also shapes the buckets of the first backward pass; from the second one on, torch
builds them in the order in which gradients are ready.
"""

from __future__ import annotations

import inspect
import sys
from hashlib import blake2b
from typing import Any, Callable

from .agreement import Agreement, UnheardError, store_of
from .request import BucketRequest

ONE, LIST = "bucket_cap_mb", "bucket_cap_mb_list"
DISAGREEING = "its ranks do not agree on buckets"
_KIB_PER_MIB = 1024
# Arguments that stand for a reduction of another kind.
_OTHERS = (
    "delay_all_reduce_named_params",
    "param_to_hook_all_reduce",
    "find_unused_parameters",
    "mixed_precision",
    "device_mesh",
)


class Construction:
    """One construction: the model's signature, its ranks, the caps in force, and why those."""

    def __init__(self) -> None:
        self.signature = ""
        self.ranks = self.rank = 0
        self.takes_lists = False
        self.caps = ""  # of the submission; empty: torch's own or the user's
        self.user_caps = False
        self.left_alone = ""  # why no caps are taken; empty too where others were meant
        self.key = ""  # of the agreement on the caps
        self.is_unheard = False  # the verdict of that agreement

    def row(self) -> dict[str, Any]:
        """The summary's part."""
        return {
            "signature": self.signature,
            "ranks": self.ranks,
            "takes_lists": self.takes_lists,
            "caps": self.caps or None,
            "user_caps": self.user_caps,
            "left_alone": self.left_alone or why_exact() or None,
        }


class Constructions:
    """Every construction of this process, in turn."""

    def __init__(
        self, request: BucketRequest | None = None, agreement: Agreement | None = None
    ) -> None:
        self.request = request or BucketRequest()
        self.agreement = agreement or Agreement()

    def arranged(
        self, init: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], Construction | None]:
        """The arguments to construct with, and what is noted of it; None: nothing is asked for."""
        if not self.request.measures:
            return args, options, None
        try:
            signature = inspect.signature(init)
            bound = signature.bind(*args, **options)
            made = _looked_at(bound.arguments, signature)
            if self._agreed(bound.arguments, made):
                _set(bound.arguments, self.request.caps_kib)
                made.caps = self.request.text
                return bound.args, bound.kwargs, made
        except Exception:  # an error of the user's own comes again, from torch itself
            return args, options, None
        return args, options, made

    def _agreed(self, given: dict[str, Any], made: Construction) -> bool:
        """True if the submission's caps hold for this model, in all ranks alike."""
        request = self.request
        made.left_alone = why_not(given, made, request)
        if not request.caps_kib:
            return False
        store, group = store_of(given.get("process_group"))
        made.key = self.agreement.key(group)
        is_meant = (made.signature, made.ranks) == (request.signature, request.ranks)
        votes = is_meant and not made.left_alone
        vote = f"{request.signature}/{request.text}" if votes else ""
        agreed = False
        try:
            agreed = self.agreement.reached(store, made.key, made.ranks, vote)
        except UnheardError:
            made.is_unheard = True
        if votes and not agreed:
            made.left_alone = DISAGREEING
        return agreed


def _looked_at(given: dict[str, Any], signature: inspect.Signature) -> Construction:
    made = Construction()
    distributed = sys.modules["torch.distributed"]
    group = given.get("process_group")
    made.ranks, made.rank = distributed.get_world_size(group), distributed.get_rank(group)
    made.takes_lists = LIST in signature.parameters
    made.user_caps = any(given.get(name) is not None for name in (ONE, LIST))
    made.signature = signature_of(given["module"])
    return made


def signature_of(module: Any) -> str:
    """Twelve hexadecimal digits that stand for the gradients' sizes and types, in their order."""
    ignored = frozenset(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
    sizes = [
        (parameter.numel(), str(parameter.dtype))
        for name, parameter in module.named_parameters()
        if parameter.requires_grad and name not in ignored
    ]
    return blake2b(repr(sizes).encode(), digest_size=6).hexdigest()


def why_not(given: dict[str, Any], made: Construction, request: BucketRequest) -> str:
    """The reason to leave such a module's buckets alone; empty: they may be set."""
    if made.user_caps:
        return "the program sets its own bucket size"
    other = next((name for name in _OTHERS if _is_set(given.get(name))), "")
    if other:
        return f"it has {other}"
    if len(request.caps_kib) > 1 and not made.takes_lists:
        return "this torch takes one bucket size only"
    if exact := why_exact():
        return exact
    if _has_own_reducer(given["module"]):
        return "its gradients are sparse, or reduced by torch's reducer in Python"
    return ""


def _is_set(value: Any) -> bool:
    return value is not None and value is not False  # a tensor is neither true nor false


def why_exact() -> str:
    """The reason where this process asks torch for the same bits in each run, or nothing."""
    torch = sys.modules["torch"]
    asks = torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic
    return "its results must be the same bit for bit" if asks else ""


def _has_own_reducer(module: Any) -> bool:
    config = sys.modules.get("torch._dynamo.config")
    in_python = getattr(config, "optimize_ddp", True) == "python_reducer"
    return in_python or any(getattr(one, "sparse", False) is True for one in module.modules())


def _set(given: dict[str, Any], caps_kib: tuple[int, ...]) -> None:
    """One cap for all buckets, as every torch takes it; several as a list."""
    caps = [kib / _KIB_PER_MIB for kib in caps_kib]
    if len(caps) == 1:
        given[ONE] = caps[0]
    else:
        given[LIST] = caps
