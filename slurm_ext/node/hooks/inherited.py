"""Variables that a job has from the job that submitted it, and that were meant for that one.

sbatch hands its whole environment on. The advisor empties them for the jobs that it looks at; a job
that opted out, an array, or one that came while the advisor was away has them as they were.
"""

from __future__ import annotations

from slurm_ext.node.common.job import PROBE_SITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TOLD = "DLQUEUE_TOLD"  # the token of the job for which the folder was exported
_DIRECTIVE = ("DECISION", "NUM_WORKERS", "NUM_THREADS", "BUCKETS", "AUTOTUNE", "CURVE")
_OF_THE_RUN = ("RUN_DIR", "LENT", "MAX_WORKERS", "TOLD")


def unset_lines(env: Mapping[str, str], runs: str, run_dir: str | None) -> list[str]:
    """Lines that take them out; of an environment of the job's own only CPUs that it has lost.

    `runs`: the folder of all run folders; `run_dir`: the job's own, None if it is left alone.
    """
    inherited = env.get("DLQUEUE_RUN_DIR", "")
    if not inherited.startswith(f"{runs}/") or inherited == run_dir:
        return ["unset SRUN_CPUS_PER_TASK"] if run_dir and _has_lost_cpus(env) else []
    ours = _OF_THE_RUN if run_dir is None else ()
    names = [
        f"DLQUEUE_{name}"
        for name in (*ours, *(_DIRECTIVE if is_told_another(env, run_dir) else ()))
    ]
    names += ["SRUN_CPUS_PER_TASK"] if _is_too_wide(env) else []
    path = _path_lines(env.get("PYTHONPATH", "")) if run_dir is None else []
    return [*(f"unset {name}" for name in names if name in env), *path]


def is_told_another(env: Mapping[str, str], run_dir: str | None) -> bool:
    """True if the decision in the environment is the one of the job that submitted this one.

    A step has the folder and the token of its own job, on each of its nodes.
    """
    told = env.get(TOLD) if env.get("DLQUEUE_RUN_DIR") != run_dir else None
    return bool(told) and told == env.get("DLQUEUE_DECISION")


def _is_too_wide(env: Mapping[str, str]) -> bool:
    """True if srun would ask for CPUs of the other job: it would fail, or wait for ever."""
    wanted, own = env.get("SRUN_CPUS_PER_TASK", ""), env.get("SLURM_CPUS_PER_TASK")
    return bool(wanted) and (wanted != own or _is_beyond(env))


def _has_lost_cpus(env: Mapping[str, str]) -> bool:
    """True if `scontrol update` took CPUs from the waiting job: no srun of its script would start.

    A step may have fewer than its job on purpose, and a variable of its own for what it starts.
    """
    return "SLURM_STEP_ID" not in env and _is_beyond(env)


def _is_beyond(env: Mapping[str, str]) -> bool:
    """True if srun would ask for more CPUs than the job has here."""
    wanted, there = env.get("SRUN_CPUS_PER_TASK", ""), env.get("SLURM_CPUS_ON_NODE", "")
    return wanted.isdecimal() and there.isdecimal() and int(wanted) > int(there)


def _path_lines(before: str) -> list[str]:
    parts = before.split(":")
    if PROBE_SITE not in parts or any(ord(char) < 32 for char in before):
        return []
    rest = ":".join(part for part in parts if part != PROBE_SITE)
    return [f"export PYTHONPATH={rest}" if rest else "unset PYTHONPATH"]
