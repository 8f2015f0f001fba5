"""Tries a job_submit.lua that is to be changed, in the Lua of Slurm's own plugin."""

from collections.abc import Iterator
from pathlib import Path

from slurm_ext.core.settings.slurm_place import slurm_place
from slurm_ext.install import running
from slurm_ext.install.plan import InstallPlan
from slurm_ext.install.site_files import InstallRoot
from slurm_ext.install.submit_check import (
    check,
    find_lua,
    linked_version,
    lua_plugin,
    plugin_folders,
)


def tried(plan: InstallPlan, place: InstallRoot) -> Iterator[str]:
    """Yield warnings about a job_submit.lua that is to be changed. Raises InputError."""
    shim, lua = place.slurm_conf.with_name("job_submit.lua"), place.etc / "lua"
    ours = {change.path: change for change in plan.changes}.get(shim)
    if "submit" not in plan.steps or ours is None or ours.then is None or ours.then == ours.base:
        return
    if not any(change.path == shim or change.path.parent == lua for change in plan.real):
        return
    folders = plugin_folders(*_told(plan, place))
    plugin = lua_plugin(folders, place.root)
    before = None if ours.base is None else ours.base.text
    with_lua = find_lua(linked_version(plugin))
    yield from check(with_lua, shim, before, ours.then.text, plan.settings, lua)
    if plugin is None:
        yield f"Slurm's plugin job_submit_lua.so was not found in {', '.join(folders)}"


def _told(plan: InstallPlan, place: InstallRoot) -> Iterator[str]:
    """Folders of plugins that slurmctld names, and those beside Slurm's commands."""
    if place.root != Path("/"):
        return  # an image: what runs here is another Slurm
    config = running.config(plan.settings, place.slurm_conf) or {}
    yield from config.get("PluginDir", "").split(":")
    commands = slurm_place(plan.settings)
    if commands is not None:
        yield f"{Path(commands.folder).parent}/lib*/slurm*"
