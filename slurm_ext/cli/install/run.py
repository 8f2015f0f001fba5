"""Shared by `install` and `uninstall`: a plan is made, shown, checked, carried out."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.install.backups import InstallRecord
    from slurm_ext.install.plan import InstallPlan
    from slurm_ext.install.site_files import InstallRoot

Steps = frozenset[str]
CONF = Path("/etc/slurm/slurm.conf")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of both commands."""
    from slurm_ext.install.steps import STEPS

    steps = "; ".join(f"{step.name}: {step.what}" for step in STEPS)
    parser.add_argument(
        "steps", nargs="*", metavar="STEP", help=f"{steps}. All where none is named"
    )
    parser.add_argument("--dry-run", action="store_true", help="show every file's diff, do nothing")
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="put DIR before every path, for an image; asks no running Slurm",
    )
    parser.add_argument("--slurm-conf", type=Path, metavar="FILE", help="slurm.conf of the site")
    parser.add_argument(
        "--units",
        type=Path,
        metavar="DIR",
        help="where systemd's units are (/etc/systemd/system, or as given before)",
    )
    parser.add_argument(
        "--reconfigure",
        action="store_true",
        help="then `scontrol reconfigure`; what Slurm does not take is put back",
    )


def run(args: argparse.Namespace, wanted: Callable[[Steps, Steps], Steps]) -> int:
    """Have exactly the steps that `wanted` says, of those installed and those named."""
    from slurm_ext.cli.install.show import show
    from slurm_ext.install.backups import load
    from slurm_ext.install.plan import make_plan

    place, settings = _place(args)
    before = load(place)
    steps = wanted(before.steps, _named(args))
    in_use = frozenset() if "hooks" in steps else _in_use(args, place, settings, before)
    plan = make_plan(steps, place, place.read, before, in_use)
    warnings = [*_tried(plan, place), *_too_old(plan, args)]
    if not args.dry_run:
        warnings += _carry_out(plan, place, before)
        if args.reconfigure:
            in_use = _reconfigure(plan, place, settings, before)
    show(plan, place, in_use, warnings, args)
    return 0


def _named(args: argparse.Namespace) -> Steps:
    """The steps on the command line; all where there is none. Raises UsageError."""
    from slurm_ext.core.errors import UsageError
    from slurm_ext.install.steps import NAMES

    unknown = [name for name in args.steps if name not in NAMES]
    if unknown:
        raise UsageError(f"no step {unknown[0]!r}; there are {', '.join(NAMES)}")
    if args.reconfigure and args.root != Path("/"):
        raise UsageError(
            "--reconfigure is for the Slurm that runs here, --root for another's files"
        )
    return frozenset(args.steps or NAMES)


def _place(args: argparse.Namespace) -> "tuple[InstallRoot, Settings]":
    """Return where the site's files are, and its settings as they are now."""
    from dataclasses import replace

    from slurm_ext.core.errors import UsageError
    from slurm_ext.core.settings.document import DEFAULT_PATH
    from slurm_ext.core.settings.slurm_conf import slurm_conf
    from slurm_ext.install.backups import load
    from slurm_ext.install.draft import site_settings
    from slurm_ext.install.site_files import InstallRoot

    config = Path(args.config or os.environ.get("DLQUEUE_CONFIG") or DEFAULT_PATH).absolute()
    if config.name != DEFAULT_PATH.name:
        raise UsageError(f"--config {config}: hooks look for a file that is called dlqueue.toml")
    place = InstallRoot(args.root.absolute(), config.parent, CONF)
    own = place.read(config)
    settings = site_settings(place, own.text if own else "", place.read)
    manifest = load(place)
    named = args.slurm_conf or manifest.slurm_conf or settings["paths.slurm_conf"]
    here = slurm_conf(settings) if args.root == Path("/") else None
    conf = Path(named or os.environ.get("SLURM_CONF") or here or CONF).absolute()
    units = (args.units or manifest.units or place.units).absolute()
    return replace(place, slurm_conf=conf, units=units), settings


def _in_use(
    args: argparse.Namespace, place: "InstallRoot", settings: "Settings", before: "InstallRecord"
) -> frozenset[Path]:
    """Launchers that must stay because Slurm may run them: without them it would drain nodes."""
    from slurm_ext.install.running import config, named_in

    folder = place.etc / "hooks"
    launchers = frozenset(path for path in before.files if path.parent == folder)
    if not launchers or args.root != Path("/") or getattr(args, "now", False):
        return frozenset()
    running = config(settings, place.slurm_conf)
    return launchers if running is None or named_in(running, folder) else frozenset()


def _too_old(plan: "InstallPlan", args: argparse.Namespace) -> list[str]:
    """Warnings about the interpreter of the hooks; that of an image is not here to be asked."""
    from slurm_ext.install import node_python

    asks = "hooks" in plan.steps and args.root == Path("/")
    return list(node_python.warnings(plan.settings)) if asks else []


def _tried(plan: "InstallPlan", place: "InstallRoot") -> list[str]:
    """Warnings about a job_submit.lua that is to be changed, after trying it. Raises InputError."""
    from slurm_ext.install.submit_check import check, find_lua, linked_version

    shim, lua = place.slurm_conf.with_name("job_submit.lua"), place.etc / "lua"
    files = {change.path: change for change in plan.changes}
    ours = files.get(shim)
    if "submit" not in plan.steps or ours is None or ours.then is None or ours.then == ours.base:
        return []
    if not any(change.path == shim or change.path.parent == lua for change in plan.real):
        return []
    before = None if ours.base is None else ours.base.text
    version = linked_version(place.root)
    faults = list(check(find_lua(version), shim, before, ours.then.text, plan.settings, lua))
    missing = "Slurm's plugin job_submit_lua.so is not here: slurmctld will not start with it"
    return faults if version else [*faults, missing]


def _carry_out(plan: "InstallPlan", place: "InstallRoot", before: "InstallRecord") -> list[str]:
    """The plan; slurmctld watches job_submit.lua only, so that is touched for what it loads.

    Warnings about labels that could not be given.
    """
    from slurm_ext.install.apply import apply, touch
    from slurm_ext.install.selinux import relabelled

    apply(plan, place, before)
    warned = list(relabelled(plan, place))
    if any(change.path.parent == place.etc / "lua" for change in plan.real):
        touch(place, place.slurm_conf.with_name("job_submit.lua"))
    return warned


def _reconfigure(
    plan: "InstallPlan", place: "InstallRoot", settings: "Settings", before: "InstallRecord"
) -> frozenset[Path]:
    """Have Slurm take it; what it does not take is put back. Launchers that are still in use."""
    from slurm_ext.core.errors import DlqueueError, SlurmError
    from slurm_ext.install.backups import load
    from slurm_ext.install.plan import make_plan
    from slurm_ext.install.running import reconfigure, wanted_of

    try:
        reconfigure(settings, place.slurm_conf, wanted_of(plan))
    except DlqueueError as error:
        now = load(place)
        launchers = frozenset(path for path in now.files if path.parent == place.etc / "hooks")
        _carry_out(make_plan(before.steps, place, place.read, now, launchers), place, now)
        what = f"{error}; the files were put back: run `scontrol reconfigure` once more"
        raise SlurmError("scontrol reconfigure", getattr(error, "status", None), what) from None
    if "hooks" not in plan.steps:
        now = load(place)
        _carry_out(make_plan(plan.steps, place, place.read, now), place, now)
    return frozenset()
