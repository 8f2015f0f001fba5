"""Pure decisions about NVIDIA MPS: for which job, with which limits, and faults in its logs.

Commands, variables and limits are those of NVIDIA's manual (docs.nvidia.com/deploy/mps).
"""

from __future__ import annotations

import re

from slurm_ext.node.common import job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

PIPE, LOG = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
PERCENT, MEMORY = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
DEVICES = "CUDA_VISIBLE_DEVICES"
LONGEST_SOCKET = 107  # bytes of a unix socket's path, unix(7)
LONGEST_NAME = "/control_privileged"  # the longest socket in a pipe folder
LONGEST_UUID = 64
MIB = 1024 * 1024
MAX_EVENTS = 3
_UNITS = {"": 1, "K": 1024, "M": MIB, "G": 1024 * MIB}
_LIMIT = re.compile(r"0=([0-9]{1,15})([KMG]?)B?", re.IGNORECASE)
_LINE = re.compile(r"\[([0-9-]{10} [0-9:.]{8,15}) ([^]]{1,40})\] (.{1,400})")
# Not "fault" alone: set_default_active_thread_percentage is an ordinary line.
_FAULT = re.compile(
    r"\bfatal\b|\bexception\b|\bfault(s|ed)?\b|exited with status [1-9]|failed to start",
    re.IGNORECASE,
)


class SmiGpu:
    """One GPU as nvidia-smi describes it; None and "" for what it does not say."""

    def __init__(
        self, uuid: str | None = None, mib: int | None = None, mig: bool = False, mode: str = ""
    ) -> None:
        self.uuid, self.mib, self.mig, self.mode = uuid, mib, mig, mode


def is_uuid(gpu: str) -> bool:
    """True for a GPU's UUID, as nvidia-smi and CUDA write it; no part of a divided one has it."""
    plain = gpu.isascii() and gpu.replace("-", "").isalnum()
    return plain and gpu.startswith("GPU-") and len(gpu) <= LONGEST_UUID


def shared_gpu(env: Mapping[str, str], jobs: str) -> str | None:
    """The one GPU that a job of the setting's kind (mps, all) has; None: not concerned.

    A prolog cannot distinguish the gres shard from a whole GPU (Slurm 22.05): both are in `all`.
    """
    gpus = job.gpus(env)
    if len(gpus) != 1:
        return None
    return gpus[0] if jobs == "all" or percent_of(env) is not None else None


def percent_of(env: Mapping[str, str]) -> float | None:
    """The thread percentage that Slurm gave the job; None if it gave none that is one."""
    text = env.get(PERCENT, "")
    try:
        value = float(text) if len(text) < 16 else 0.0
    except ValueError:
        return None
    return value if 0 < value <= 100 else None


def refusal(gpu: str, card: SmiGpu, folder: str, foreign: Iterable[int]) -> str | None:
    """The reason why this GPU gets no MPS of ours, in a clause; None if there is none.

    `folder` is the pipe folder to be, `foreign` the pids of other tools' control daemons on it.
    """
    others = sorted(foreign)
    if card.mig or gpu.startswith("MIG-"):
        return "MIG is on"
    if others:
        return f"another MPS control daemon serves it (pid {', '.join(map(str, others))})"
    if card.mode.lower() == "prohibited":
        return "its compute mode is Prohibited"
    if card.uuid is None and gpu != "0":
        # A client that fails to reach the daemon falls back to CUDA_VISIBLE_DEVICES, and the
        # daemon counts its GPUs from 0: an index would name another GPU for one of them.
        return "nvidia-smi does not tell its UUID, without which a job could reach another GPU"
    if len((folder + LONGEST_NAME).encode()) > LONGEST_SOCKET:
        return f"{folder} is too long for a socket: shorten node.spool_dir"
    return None


def limits(
    env: Mapping[str, str], card: SmiGpu, most_percent: float, memory_share: float
) -> dict[str, Any]:
    """Thread percentage and pinned bytes of a job by its share; None: no limit.

    A job with the whole GPU is not limited, nor one without a known share.
    """
    share = percent_of(env)
    percent = min(100.0 if share is None else share, most_percent)
    whole = share is None or share >= 100 or card.mib is None or memory_share <= 0
    bytes_ = None if whole else int((card.mib or 0) * MIB * (share or 0) / 100 * memory_share)
    return {"percent": percent if percent < 100 else None, "mem_bytes": bytes_}


def exports(daemon: Mapping[str, Any], env: Mapping[str, str]) -> list[tuple[str, str]]:
    """Environment variables for a task of the job; none if the user runs an MPS of their own.

    `daemon` is the prolog's file. Limits in the task's environment are only ever tightened.
    """
    if env.get(PIPE, daemon["pipe"]) != daemon["pipe"]:
        return []
    variables = [(PIPE, daemon["pipe"]), (LOG, daemon["log"]), (DEVICES, daemon["gpu"])]
    percent, own = daemon.get("percent"), percent_of(env)
    if percent is not None and (own is None or own > percent):
        variables.append((PERCENT, f"{percent:g}"))
    most, already = daemon.get("mem_bytes"), _bytes(env.get(MEMORY, ""))
    if most is not None and (already is None or already > most):
        variables.append((MEMORY, f"0={most // MIB}M"))
    return variables


def _bytes(text: str) -> int | None:
    """Bytes of a limit such as `0=8G` on the one device; None if it is anything else."""
    match = _LIMIT.fullmatch(text)
    return int(match[1]) * _UNITS[match[2].upper()] if match else None


def faults(text: str) -> list[tuple[str, str]]:
    """Times and texts of the first few log lines that report a fault."""
    matches = [match for line in text.splitlines() if (match := _LINE.match(line))]
    events = [(match[1], f"{match[2].partition(' ')[0]}: {match[3]}") for match in matches]
    first: dict[str, tuple[str, str]] = {}  # of each second: what follows is its consequence
    for when, what in events:
        if _FAULT.search(what):
            first.setdefault(when[:19], (when, what))
    return list(first.values())[:MAX_EVENTS]


def fault_message(gpu: str, when: str, what: str, others: Iterable[str]) -> str:
    """A fault as a sentence for the record; no log says which client it was."""
    shared = ", ".join(sorted(others))
    whose = f"a fault of this job or of a neighbour's ({shared})" if shared else "a fault"
    return f"MPS: {whose} on GPU {gpu} ended the MPS server at {when}: {what}"
