"""As the job's user, before each task: export what the job's processes need. Slurm reads stdout.

Runs for the batch script and again for every step with the environment of before, so that each
line must be right a second time too.
"""

from __future__ import annotations

import os
import sys

from slurm_ext.node.common.files import FOLDER
from slurm_ext.node.common.job import PROBE_SITE, is_token, job_id, restart_count
from slurm_ext.node.common.spool_layout import Spool, key_of
from slurm_ext.node.hooks.inherited import TOLD, is_told_another, unset_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurm_ext.node.common.config import NodeConfig

MAX_CURVE = 256  # characters; the longest value that the submission may set


def task_prolog(config: NodeConfig, env: Mapping[str, str]) -> None:
    """Print the exports of this task, and note the submission's token in the run folder."""
    spool = Spool(config.spool_dir)
    run_dir = spool.run_dir(key_of(job_id(env), restart_count(env)))
    if env.get("DLQUEUE") == "off" or not os.path.isdir(run_dir):
        _say(unset_lines(env, spool.run, None))
        return
    token = "" if is_told_another(env, run_dir) else env.get("DLQUEUE_DECISION", "")
    lines = [*unset_lines(env, spool.run, run_dir), f"export DLQUEUE_RUN_DIR={run_dir}"]
    lines += [*_python_path(config, env, token), *_headroom(config), *_mps(run_dir, env)]
    lines += [f"export {TOLD}={token}"] if is_token(token) else []
    _say(lines)
    note_decision(run_dir, token)
    if env.get("DLQUEUE_LEND") in ("0", "1"):
        note(run_dir, "lend", env["DLQUEUE_LEND"])
    curve = env.get("DLQUEUE_CURVE", "")
    if config.max_workers and len(curve) <= MAX_CURVE and curve.isprintable() and curve.isascii():
        note(run_dir, "curve", curve)


def _say(lines: list[str]) -> None:
    if not any(ord(char) < 32 for line in lines for char in line):
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()


def _mps(run_dir: str, env: Mapping[str, str]) -> list[str]:
    """The MPS daemon that the prolog has ready for the job, where it has one."""
    path = os.path.join(run_dir, "mps")
    if not os.path.exists(path):
        return []
    from slurm_ext.node.mps.task import export_lines

    return export_lines(path, env)


def _headroom(config: NodeConfig) -> list[str]:
    """Export how many workers the probe may start ahead, or that some may be lent to it."""
    if config.lends:
        return ["export DLQUEUE_LENT=1"]
    return [f"export DLQUEUE_MAX_WORKERS={config.max_workers}"] if config.max_workers else []


def _python_path(config: NodeConfig, env: Mapping[str, str], token: str) -> list[str]:
    """Put the probe's folder first on PYTHONPATH; nothing if it is there or unprintable.

    Where the submission of this token runs an image of Apptainer, none stays none: the image has
    one of its own, which holds only so.
    """
    before = env.get("PYTHONPATH", "")
    if not config.probe or not os.path.isdir(PROBE_SITE) or any(ord(char) < 32 for char in before):
        return []
    if before in ("", PROBE_SITE) and token and env.get("DLQUEUE_IMAGE") == token:
        return ["unset PYTHONPATH"] if before else []
    if before.partition(":")[0] == PROBE_SITE:
        return []
    rest = [part for part in before.split(":") if part != PROBE_SITE] if before else []
    return [f"export PYTHONPATH={':'.join([PROBE_SITE, *rest])}"]


def note_decision(run_dir: str, token: str) -> None:
    """Write the token for the epilog; a text that is no token is left out."""
    if is_token(token):
        note(run_dir, "decision", token)


def note(run_dir: str, name: str, text: str) -> None:
    """Write a text into the job's own folder; an empty one is left out."""
    if not text:
        return
    folder = os.open(run_dir, FOLDER)
    temporary = f".{name}.{os.getpid()}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(temporary, flags, 0o600, dir_fd=folder)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)
