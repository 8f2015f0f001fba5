"""A batch script on the disk as the submission that `sbatch` would make of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.core.records import Submission

MAX_SCRIPT_BYTES = 4 * 1024 * 1024  # slurm.conf(5), max_script_size


def submission(script: str, args: tuple[str, ...]) -> "Submission":
    """Return the submission of `sbatch SCRIPT ARGS` by this user; a SCRIPT `sbatch` is the command.

    Raises InputError, UsageError.
    """
    if script != "sbatch":
        return _submission(_text(script), script, args)
    from slurm_ext.cli.predict.sbatch_line import WRAPPED, read_line

    line = read_line(args)
    if line.script is not None:
        return _submission(_text(line.script), line.script, line.args, line.options)
    options = ("--job-name=wrap", "--ignore-pbs", *line.options)  # it reads no lines of a command
    return _submission(f"{WRAPPED}{line.wrap}\n", "wrap", (), options)


def _submission(
    text: str, script: str, args: tuple[str, ...], typed: Sequence[str] = ()
) -> "Submission":
    import os
    import pwd
    from dataclasses import replace

    from slurm_ext.advisor.pipeline.sbatch_options import environment_options
    from slurm_ext.advisor.pipeline.script import read_script
    from slurm_ext.core.job_keys import seen_script
    from slurm_ext.core.records import ENV_NAMES

    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    env = {name: os.environ[name] for name in ENV_NAMES if name in os.environ}
    job = read_script(
        text,
        script,
        args=args,
        user_name=user,
        user_id=uid,
        work_dir=os.getcwd(),  # noqa: PTH109 (pathlib is not needed for anything else)
        env=env,
        typed=typed,
        exported=environment_options(os.environ),
    )
    head, cut = seen_script(text)
    return replace(job, script=head, script_truncated=cut)


def _text(script: str) -> str:
    from slurm_ext.core.errors import InputError

    try:
        with open(script, "rb") as file:  # noqa: PTH123 (pathlib is not needed for anything else)
            raw = file.read(MAX_SCRIPT_BYTES + 1)
    except OSError as error:
        raise InputError(script, f"cannot be read: {error.strerror}{_if_program(script)}") from None
    except ValueError as error:
        raise InputError(repr(script), f"cannot be read: {error}") from None
    if len(raw) > MAX_SCRIPT_BYTES:
        raise InputError(script, f"is larger than {MAX_SCRIPT_BYTES} bytes, Slurm's own limit")
    if b"\0" in raw:
        raise InputError(script, "holds a NUL byte, which sbatch refuses")
    if b"\r\n" in raw:
        raise InputError(
            script, "has DOS line breaks, which sbatch refuses: sed -i 's/\\r$//' takes them out"
        )
    return raw.decode("utf-8", "surrogateescape")


def _if_program(name: str) -> str:
    """Advice for a program named in place of a batch script; "" for anything else."""
    import shutil

    if "/" in name or shutil.which(name) is None:
        return ""
    return f"; it is a program: `dlqueue run {name} ...` measures one, predict takes a batch script"
