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


def configure(parser: argparse.ArgumentParser, unnamed: str) -> None:
    """Options of both commands; `unnamed` says which steps are meant where none is named."""
    from slurm_ext.install.steps import STEPS

    steps = "; ".join(f"{step.name}: {step.what}" for step in STEPS)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"{steps}. {unnamed}")
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


def run(args: argparse.Namespace, wanted: Callable[[Steps, Steps], Steps]) -> frozenset[Path]:
    """Have exactly the steps that `wanted` says, of those installed and those named.

    Returns launchers that were to be removed and stay: Slurm may run them.
    """
    from slurm_ext.cli.install.show import show
    from slurm_ext.cli.install.trial import tried
    from slurm_ext.install.backups import load
    from slurm_ext.install.conf_files import foreign_steps
    from slurm_ext.install.plan import make_plan

    place, settings = _place(args)
    before, named = load(place), _named(args)
    steps = wanted(before.steps, named)
    foreign = foreign_steps(place, before.steps | steps) - named if steps else frozenset()
    stays, asked = "hooks" in steps | foreign, "hooks" in named or not steps
    in_use = frozenset() if stays else _in_use(args, place, settings, before, asked=asked)
    plan = make_plan(steps, place, place.read, before, in_use, foreign)
    warnings, held = [*tried(plan, place), *_too_old(plan, args)], plan.held
    if not args.dry_run:
        warnings += _carry_out(plan, place, before)
        if args.reconfigure:
            held = _reconfigure(plan, place, settings, before)
    show(plan, place, held, warnings, args)
    return held


def _named(args: argparse.Namespace) -> Steps:
    """The steps on the command line. Raises UsageError."""
    from slurm_ext.core.errors import UsageError
    from slurm_ext.install.steps import NAMES

    unknown = [name for name in args.steps if name not in NAMES]
    if unknown:
        raise UsageError(f"no step {unknown[0]!r}; there are {', '.join(NAMES)}")
    if args.reconfigure and args.root != Path("/"):
        raise UsageError(
            "--reconfigure is for the Slurm that runs here, --root for another's files"
        )
    return frozenset(args.steps)


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
    args: argparse.Namespace,
    place: "InstallRoot",
    settings: "Settings",
    before: "InstallRecord",
    *,
    asked: bool,
) -> frozenset[Path]:
    """Launchers that must stay because Slurm may run them: without them it would drain nodes.

    Where they stayed before, they go only if it is `asked` that hooks go.
    """
    from slurm_ext.install.running import config, named_in

    launchers = _launchers(place, before)
    if not launchers or args.root != Path("/") or getattr(args, "now", False):
        return frozenset()
    running = config(settings, place.slurm_conf) if asked else None
    if running is None or named_in(running, place.etc / "hooks"):
        return launchers
    return frozenset()


def _launchers(place: "InstallRoot", record: "InstallRecord") -> frozenset[Path]:
    return frozenset(path for path in record.files if path.parent == place.etc / "hooks")


def _too_old(plan: "InstallPlan", args: argparse.Namespace) -> list[str]:
    """Warnings about the interpreter of the hooks; that of an image is not here to be asked."""
    from slurm_ext.install import node_python

    asks = "hooks" in plan.steps and args.root == Path("/")
    return list(node_python.warnings(plan.settings)) if asks else []


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
    """Have Slurm take it; what it does not take is put back. Launchers that may be in use."""
    from slurm_ext.core.errors import DlqueueError, SlurmError
    from slurm_ext.install.backups import load
    from slurm_ext.install.plan import make_plan
    from slurm_ext.install.running import nodes_read_it, reconfigure, wanted_of

    ours, foreign = plan.kept.steps, plan.steps - plan.kept.steps
    try:
        reconfigure(settings, place.slurm_conf, wanted_of(plan))
    except DlqueueError as error:
        now = load(place)
        back = make_plan(before.steps, place, place.read, now, _launchers(place, now), foreign)
        _carry_out(back, place, now)
        what = f"{error}; the files were put back: run `scontrol reconfigure` once more"
        raise SlurmError("scontrol reconfigure", getattr(error, "status", None), what) from None
    if "hooks" in plan.steps:
        return frozenset()
    now = load(place)
    kept = frozenset() if nodes_read_it(settings, place.slurm_conf) else _launchers(place, now)
    rest = make_plan(ours, place, place.read, now, kept, foreign)
    _carry_out(rest, place, now)
    return rest.held
