"""Memory of a GPU for as many jobs as may be on it, and for one of them under MPS. Pure."""

from collections.abc import Sequence

from slurm_ext.advisor.sharing.context import SharingContext, rules_of
from slurm_ext.policy.colocation.choose_pairs import Candidate
from slurm_ext.policy.colocation.why_apart import lacking


def lacking_memory(
    me: Candidate, others: Sequence[Candidate], context: SharingContext, count: int
) -> str | None:
    """Reason if the GPU, or the `count` shares of it that the job gets, have too little memory.

    Slurm may fill the GPU with jobs like the largest of the others; without others, with its twins.
    """
    rules = rules_of(context.settings)
    largest = max(others or [me], key=_gpu_mem_bytes)
    why = lacking([me, *[largest] * (rules.most_together - 1)], rules)
    return why or _above_limit(me, context, count)


def _above_limit(me: Candidate, context: SharingContext, count: int) -> str | None:
    """Reason if it needs more than the prolog will let it have (node/mps/rules.py)."""
    settings = context.settings
    served = settings["sharing.gres"] == "mps" and settings["mps.mode"] == "act"
    if not served or not settings["mps.memory_share"] or context.pool is None:
        return None
    percent = 100 * count // context.pool.shares["mps"]  # Slurm writes no fraction
    gpu_bytes = rules_of(settings).gpu_mem_bytes or 0.0
    part, need = gpu_bytes * percent / 100 * settings["mps.memory_share"], _gpu_mem_bytes(me)
    if need <= part:
        return None
    return f"it needs {need / 2**30:.1f} GiB of GPU memory, MPS lets it have {part / 2**30:.1f} GiB"


def _gpu_mem_bytes(candidate: Candidate) -> float:
    return candidate.solo.gpu_mem_bytes or 0.0
