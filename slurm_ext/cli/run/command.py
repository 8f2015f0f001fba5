"""`dlqueue run COMMAND...`: run a program under the probe, and keep what it measured.

It needs no root, no Slurm and no configuration: the history is the user's own (own_history.py).
The program keeps its exit status, signals, streams and files. Start and end have to be quick:
everything is imported where it is used, and what a long program's end needs while it runs.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

HELP = (
    "Run a program under dlqueue's probe and keep what it measured in a history of your own: no"
    " root, no Slurm, no configuration. Its exit status, signals and output stay its own."
)
_FLAGS = ("--off", "--quiet", "--json")
_IMAGES = ("apptainer", "singularity")  # an image's own variables hold where there are none


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options; all that follows the program is the program's."""
    import argparse

    parser.add_argument("--off", action="store_true", help="run it bare: nothing is measured")
    parser.add_argument("--quiet", action="store_true", help="say nothing at its end")
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run")


def run(args: argparse.Namespace) -> int:
    """Run it; returns its exit status. Raises UsageError."""
    return _run(args.argv, [name for name in _FLAGS if getattr(args, name[2:])])


def run_plain(words: list[str]) -> int | None:
    """Run what needs no argparse, whose import costs as much as Python's own start.

    None: its words are for argparse: another option than _FLAGS, or a part of one. Raises
    UsageError.
    """
    flags: list[str] = []
    for word in words:
        if word not in _FLAGS:
            break
        flags.append(word)
    argv = words[len(flags) :]
    if argv and argv[0].startswith("-") and argv[0] != "--":
        return None
    return _run(argv, flags)


def _run(argv: list[str], flags: list[str]) -> int:
    argv = argv[1:] if argv[:1] == ["--"] else argv
    if not argv:
        from slurm_ext.core.errors import UsageError

        raise UsageError("name the program to run: dlqueue run python train.py")
    if "--off" in flags or _measured_by_site(os.environ.get("DLQUEUE_RUN_DIR")):
        from slurm_ext.cli.run.child import become

        return become(argv)
    if os.path.basename(argv[0]) in _IMAGES and not os.environ.get("PYTHONPATH"):
        from slurm_ext.cli.run.child import become

        if "--quiet" not in flags:
            _say("dlqueue run: not measured, or the image lost its PYTHONPATH; set one to measure")
        return become(argv)
    return _probed(argv, flags)


def _measured_by_site(run_dir: str | None) -> bool:
    """True if the site's own probe is on, or the user has sent it away: a run counts once."""
    return os.environ.get("DLQUEUE") == "off" or bool(run_dir and os.path.isdir(run_dir))


def _probed(argv: list[str], flags: list[str]) -> int:
    from slurm_ext.advisor.own_runs import own_history, settled
    from slurm_ext.cli.run.child import Child, become, leave_as, not_started
    from slurm_ext.cli.run.probed import Watched

    try:
        own, work_dir = own_history.folder(), os.getcwd()
        watched = Watched(argv, work_dir, settled.settled_workers(own, argv, work_dir))
    except OSError as error:  # a program is not kept from running by our disk
        print(f"dlqueue run: {error.filename}: {error.strerror}; not measured", file=sys.stderr)
        return become(argv)
    try:
        child = Child(argv, watched.env)
    except OSError as error:
        with watched:
            return not_started(argv[0], error)
    status = child.wait(_prepare_end, _prepare_training_end)
    try:
        with watched:
            document = watched.ended(status, child.cpu_s())
        number = own_history.keep(own, document)
        settled.remember(own, argv, work_dir, document["record"]["probe"]["summaries"])
        if "--quiet" not in flags:
            _tell(own, number, document, as_json="--json" in flags)
    except Exception as error:  # the status is the program's, whatever fails here
        if "--quiet" not in flags:
            _say(f"dlqueue run: {error!r}")
    return leave_as(status)


def _prepare_end() -> None:
    """Import what each program's end needs, while this one starts."""
    import pwd  # noqa: F401 (for the time that it takes, as all below)
    import shlex  # noqa: F401

    from slurm_ext.cli.run import advice, end_line  # noqa: F401
    from slurm_ext.node.common import removal  # noqa: F401
    from slurm_ext.node.record import fields, summaries  # noqa: F401
    from slurm_ext.questions.explain import probe  # noqa: F401


def _prepare_training_end() -> None:
    """Import what a training's end needs besides, when the program has run for a while."""
    from slurm_ext.core.stalls import step_split  # noqa: F401 (for the time that it takes)
    from slurm_ext.node.record import reader  # noqa: F401 (as above)
    from slurm_ext.report import formatting  # noqa: F401 (as above)


def _tell(own: str, number: int | str, document: dict[str, Any], *, as_json: bool) -> None:
    """One line on standard error; the program's own output and status stay as they are."""
    from slurm_ext.cli.run.advice import advice, first_of
    from slurm_ext.cli.run.end_line import end_json, end_line

    causes = first_of(document)
    clause = advice(own, document, causes)
    end = end_json(number, document, clause, causes) if as_json else None
    _say(end or end_line(number, document, clause))


def _say(line: str) -> None:
    try:
        os.write(2, f"{line}\n".encode(sys.stderr.encoding or "utf-8", "backslashreplace"))
    except OSError:
        pass  # nobody can read it
