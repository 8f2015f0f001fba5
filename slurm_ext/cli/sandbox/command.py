"""`dlqueue sandbox up|status|run|down`."""

import argparse
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_ext.core.errors import InputError, SandboxError, UsageError

if TYPE_CHECKING:
    from slurm_ext.sandbox import Sandbox, SandboxSpec

HELP = "A private, real Slurm, without root and without touching any other: to try things in."
COMMAND_MISSING, COMMAND_UNUSABLE = 127, 126  # as shells say it


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the four verbs."""
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="the sandbox's folder (default: dlqueue-sandbox in $XDG_RUNTIME_DIR, else a new"
        " folder in /tmp, which the other verbs find again)",
    )
    # After the verb too; SUPPRESS keeps what was said before it.
    where.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print one JSON document instead",
    )
    where.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="up: a dlqueue.toml whose keys go into the sandbox's",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="up|status|run|down")
    _configure_up(verbs.add_parser("up", parents=[where], help="build and start it"))
    verbs.add_parser("status", parents=[where], help="what is running")
    run_parser = verbs.add_parser("run", parents=[where], help="a command inside it")
    run_parser.add_argument("command", nargs="+", metavar="-- COMMAND")
    down = verbs.add_parser("down", parents=[where], help="stop it and remove its folder")
    down.add_argument("--keep", action="store_true", help="keep the folder with its logs")


def _configure_up(up: argparse.ArgumentParser) -> None:
    up.add_argument("--nodes", type=int, default=1, help="slurmd processes")
    up.add_argument("--cpus", type=int, default=4, help="CPUs a node (need not exist)")
    up.add_argument("--memory", default="8G", help="memory a node, as Slurm writes it")
    up.add_argument("--gpus", type=int, default=0, help="pretended GPUs a node")
    up.add_argument("--share", choices=("mps", "shard"), help="how GPUs may be shared")
    flags = {
        "dlqueue": "all of dlqueue, ready to play: --hooks --lua --advisor, acting, with the probe",
        "hooks": "dlqueue's prolog, task prolog and epilog",
        "lua": "dlqueue's job_submit.lua",
        "advisor": "`dlqueue serve`",
        "control": "`dlqueue control` on every node (root; control.mode by --config)",
        "accounting": "slurmdbd on a private MariaDB",
        "cgroup": "cgroup v1 limits and accounting (root)",
        "namespaces": "each node a host of its own on the network (root)",
        "backup": "a second slurmctld, with an advisor, on a host of its own (with --namespaces)",
        "tmpfs": "slurmctld's state in memory",
        "for-all": "other users of this machine may submit to it (root)",
    }
    for name, text in flags.items():
        up.add_argument(f"--{name}", action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    """The exit status; of `run`, the command's own."""
    verb = {"up": _up, "status": _status, "run": _run, "down": _down}[args.verb]
    return verb(args)


def _root(args: argparse.Namespace) -> Path:
    """Folder that was named, else of this user's sandbox. Raises SandboxError if there is none."""
    from slurm_ext.sandbox.folder import default_root

    root: Path | None = args.root or default_root()
    if root is None:
        raise SandboxError("you have no sandbox: `dlqueue sandbox up` makes one")
    return root


def _up(args: argparse.Namespace) -> int:
    from slurm_ext.cli.sandbox import play
    from slurm_ext.sandbox import Sandbox
    from slurm_ext.sandbox.folder import default_root, new_default_root

    spec, before = _spec(args), args.root or default_root()
    sandbox = Sandbox(before or new_default_root(), spec, owned=False)
    sandbox.report = lambda text: print(f"sandbox: {text}", file=sys.stderr)
    try:
        sandbox.up()
    finally:
        if before is None:
            with suppress(OSError):  # all but an empty folder: nothing of it came to be
                sandbox.layout.root.rmdir()
    work = play.put_examples(sandbox.layout.root) if args.dlqueue else None
    status = _show(sandbox, args.json)
    if args.dlqueue and not args.json:
        _print_lines("", "try:", *play.to_try(_inside(sandbox), work))
    return status


def _status(args: argparse.Namespace) -> int:
    from slurm_ext.sandbox import Sandbox

    return _show(Sandbox.attach(_root(args)), args.json)


def _run(args: argparse.Namespace) -> int:
    from slurm_ext.cli.sandbox.play import with_our_commands
    from slurm_ext.sandbox import Sandbox

    sandbox = Sandbox.attach(root := _root(args))
    if not sandbox.status()["up"]:
        raise SandboxError(f"the sandbox in {root} is not (wholly) up: see `sandbox status`")
    argv = args.command
    try:
        os.execvpe(argv[0], argv, with_our_commands(sandbox.env))  # noqa: S606 - no shell is the point
    except FileNotFoundError:
        print(f"dlqueue sandbox run: {argv[0]}: no such command", file=sys.stderr)
        return COMMAND_MISSING
    except OSError as error:
        print(f"dlqueue sandbox run: {argv[0]}: {error.strerror}", file=sys.stderr)
        return COMMAND_UNUSABLE


def _down(args: argparse.Namespace) -> int:
    from slurm_ext.sandbox import Sandbox

    root = _root(args)
    Sandbox.attach(root).down(remove=not args.keep)
    if args.json:
        print(json.dumps({"root": str(root), "up": False}))
    else:
        print(
            f"sandbox: {root} is down{'; its logs are kept' if args.keep else ''}",
            file=sys.stderr,
        )
    return 0


def _spec(args: argparse.Namespace) -> "SandboxSpec":
    from slurm_ext.cli.sandbox import play
    from slurm_ext.core.units import parse_memory
    from slurm_ext.sandbox import SandboxSpec

    overrides = settings_of(args.config)
    try:
        mem_mib = parse_memory(args.memory) // 2**20
    except ValueError as error:
        raise UsageError(f"--memory: {error}") from None
    return SandboxSpec(
        nodes=args.nodes,
        cpus=args.cpus,
        mem_mib=mem_mib,
        gpus=args.gpus,
        sharing=args.share,
        hooks=args.hooks or args.dlqueue,
        lua=args.lua or args.dlqueue,
        advisor=args.advisor or args.dlqueue,
        control=args.control,
        accounting=args.accounting,
        cgroup=args.cgroup,
        namespaces=args.namespaces,
        backup=args.backup,
        state_on_tmpfs=args.tmpfs,
        private=not args.for_all,
        settings=play.settings(overrides) if args.dlqueue else overrides,
    )


def settings_of(path: Path | None) -> dict[str, Any]:
    """The keys that a dlqueue.toml sets, checked. Raises SettingsError or InputError."""
    if path is None:
        return {}
    from slurm_ext.core.settings import document as settings_document

    if not path.exists():
        raise InputError(str(path), "does not exist")
    loaded = settings_document.load(path)
    return {
        **loaded.values,
        **{f"mode.partition.{name}": str(mode) for name, mode in loaded.partition_modes.items()},
        **{f"mode.account.{name}": str(mode) for name, mode in loaded.account_modes.items()},
    }


def _show(sandbox: "Sandbox", as_json: bool) -> int:
    """The status; exit status 1 where something of it is not running."""
    status = sandbox.status()
    if as_json:
        print(json.dumps(status))
    else:
        _print_status(status, _inside(sandbox))
    return 0 if status["up"] else 1


def _print_status(status: dict[str, Any], inside: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("part", "pid", "state", box=None)
    for name, pid in status["daemons"].items():
        state = status["nodes"].get(name) or ("up" if pid else "down")
        table.add_row(name, str(pid or "-"), state)
    Console().print(table)
    _print_lines(f"export SLURM_CONF={status['slurm_conf']}", f"{inside} sbatch job.sh")


def _inside(sandbox: "Sandbox") -> str:
    """The words that run what follows them in this sandbox."""
    from slurm_ext.sandbox.folder import default_root

    root = sandbox.layout.root
    named = "" if root == default_root() else f" --root {root}"
    return f"dlqueue sandbox run{named} --"


def _print_lines(*lines: str) -> None:
    """Lines to copy, never broken."""
    from rich.console import Console

    for line in lines:
        Console().print(line, soft_wrap=True, highlight=False, markup=False)
