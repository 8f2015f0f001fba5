"""Identity and allocation of a job, from the environment that slurmd gives to prolog and epilog.

Measured on Slurm 22.05 to 26.05: job name, array ids and times are not there (see `squeue`).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TEXT = 1024
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROBE_SITE = os.path.join(_PACKAGE, "probe", "site")  # first on the PYTHONPATH of each task
_HEX = set("0123456789abcdef")


class NotAJobError(Exception):
    """The environment names no job: the hook was not started by Slurm."""


def number(env: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    """A decimal integer of the environment; `default` where it is absent or anything else."""
    text = env.get(name, "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 19 else default


def text(env: Mapping[str, str], *names: str) -> str | None:
    """The first of `names` that is set, as harmless data: valid UTF-8 of bounded length."""
    for name in names:
        if env.get(name):
            return clean(env[name])
    return None


def clean(value: str) -> str:
    """`value` as text that JSON and UTF-8 can carry; bytes of another encoding become marks."""
    raw = value[:MAX_TEXT].encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace")


def is_token(text: str) -> bool:
    """True if `text` is a submission's token: `d1-` and 16 hexadecimal digits in lower case."""
    digits = text[3:]
    return text[:3] == "d1-" and len(digits) == 16 and set(digits) <= _HEX


def opted_out(env: Mapping[str, str]) -> bool:
    """True if the job's comment asks dlqueue to stay away."""
    return "dlqueue=off" in _words(env)


def lends_share(env: Mapping[str, str]) -> bool:
    """True if the job's comment lets others use the part of its share that helps them more."""
    return "dlqueue=lend" in _words(env)


def keeps_cores(env: Mapping[str, str]) -> bool:
    """True if the job's comment says that its idle cores are nobody else's, nor others' its own."""
    return "dlqueue=keep" in _words(env)


def _words(env: Mapping[str, str]) -> list[str]:
    return env.get("SLURM_JOB_COMMENT", "").replace(",", " ").replace(";", " ").split()


def job_id(env: Mapping[str, str]) -> int:
    """The job's id. Raises NotAJobError."""
    job_number = number(env, "SLURM_JOB_ID")
    if job_number is None:
        raise NotAJobError("SLURM_JOB_ID is not set: only Slurm runs this")
    return job_number


def restart_count(env: Mapping[str, str]) -> int:
    """Number of earlier requeues; prolog and task prolog have it under different names."""
    return number(env, "SLURM_JOB_RESTART_COUNT", number(env, "SLURM_RESTART_COUNT", 0)) or 0


def identity(env: Mapping[str, str], cluster: str, restart: int) -> dict[str, object]:
    """The record's `identity`; array ids and the job's name come from squeue later."""
    return {
        "cluster": cluster,
        "job_id": job_id(env),
        "restart": restart,
        "node": text(env, "SLURMD_NODENAME") or "node",
        "user": text(env, "SLURM_JOB_USER"),
        "uid": number(env, "SLURM_JOB_UID"),
        "account": text(env, "SLURM_JOB_ACCOUNT"),
        "partition": text(env, "SLURM_JOB_PARTITION"),
        "job_name": text(env, "SLURM_JOB_NAME"),
        "work_dir": text(env, "SLURM_JOB_WORK_DIR"),
        "array_job_id": number(env, "SLURM_ARRAY_JOB_ID"),
        "array_task_id": number(env, "SLURM_ARRAY_TASK_ID"),
    }


def allocation(env: Mapping[str, str]) -> dict[str, object]:
    """The record's `allocation` from slurmd's environment; squeue fills the rest in."""
    from slurm_ext.node.common.cpus_here import cpus_here

    return {
        "of_node": True,
        "cpus": cpus_here(env),
        "cpus_per_task": None,
        "num_tasks": number(env, "SLURM_JOB_NTASKS"),
        "num_nodes": number(env, "SLURM_JOB_NUM_NODES"),
        "mem_bytes": None,
        "gpus": gpus(env),
        "time_limit_s": None,
    }


def gpus(env: Mapping[str, str]) -> list[str]:
    """The job's GPUs on this node, by index or UUID."""
    listed = text(env, "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES") or ""
    return [gpu for gpu in listed.split(",") if gpu and gpu != "NoDevFiles"]


def is_head_node(env: Mapping[str, str]) -> bool:
    """True on the job's first node, the only one that asks the controller anything."""
    listed = env.get("SLURM_JOB_NODELIST") or env.get("SLURM_NODELIST") or ""
    return first_host(listed) == env.get("SLURMD_NODENAME", "")


def first_host(listed: str) -> str:
    """The first name of a host list. Twin of slurm/hostlist.first, which no hook can import."""
    name, rest = "", listed
    while rest:
        plain, bracket, rest = rest.partition("[")
        if not bracket or "," in plain:
            return name + plain.partition(",")[0]
        inside, _, rest = rest.partition("]")
        name += plain + inside.partition(",")[0].partition("-")[0]
    return name
