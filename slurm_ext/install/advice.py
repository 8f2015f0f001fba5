"""Next steps for the administrator after an installation: dlqueue restarts nothing by itself."""

from collections.abc import Iterator
from pathlib import Path

from slurm_ext.install.plan import InstallPlan
from slurm_ext.install.site_files import InstallRoot


def next_steps(plan: InstallPlan, place: InstallRoot, held: frozenset[Path]) -> Iterator[str]:
    """Yield one line a step, in their order."""
    real = {change.path: change for change in plan.real}
    conf = [change for change in plan.real if change.kind == "conf"]
    if place.unit in real:
        begin = "systemctl daemon-reload"
        made = real[place.unit].then is not None
        yield (
            f"{begin}; systemctl enable --now dlqueue"
            if made
            else (f"systemctl disable --now dlqueue; {begin}")
        )
    on_nodes = [p for p in real if p.is_relative_to(place.etc / "hooks") or p.suffix == ".json"]
    if on_nodes and plan.steps & {"hooks"}:
        yield f"copy {place.etc} (and {_program_folder()}) to every node, unless it is shared"
    dropped = [c.path for c in plan.real if c.path.name.removesuffix(".sh").endswith("-dlqueue")]
    for path in dropped:
        what = "copy {} to every node" if real[path].then else "remove {} on every node"
        yield what.format(path)
    if conf:
        files = ", ".join(str(change.path) for change in conf)
        yield f"copy {files} to every node and controller, then: scontrol reconfigure"
    if any("JobSubmitPlugins" in change.diff() for change in conf):
        yield "systemctl restart slurmctld: it loads job_submit plugins only when it starts"
    if held:
        names = ", ".join(sorted(path.name for path in held))
        yield f"then `dlqueue uninstall` again: Slurm still runs {names}"


def _program_folder() -> str:
    import sys

    return sys.prefix
