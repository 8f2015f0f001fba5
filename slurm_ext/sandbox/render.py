"""Writes a sandbox's files: Slurm's configuration, the munge key, dlqueue's own files."""

import json
import os
import secrets
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_ext.core.files import write_new
from slurm_ext.core.settings.document import Settings, parse
from slurm_ext.core.settings.render import render_hook, render_lua_folder, render_node_config
from slurm_ext.sandbox.control import MARK
from slurm_ext.sandbox.plan import BACKUP, SandboxPlan

if TYPE_CHECKING:
    from jinja2 import Environment

SHARES_A_GPU = {"mps": 100, "shard": 4}
HOOKS = ("prolog", "epilog", "task_prolog")


def write_files(plan: SandboxPlan) -> None:
    """Write every file and folder that the daemons need."""
    layout, spec = plan.layout, plan.spec
    for folder in (layout.etc, layout.run, layout.log, layout.dlqueue / "spool"):
        folder.mkdir(parents=True)
        folder.chmod(0o755)
    _write(layout.etc / "munge.key", secrets.token_bytes(64), 0o400)
    for name in ("slurm.conf", "gres.conf", "cgroup.conf"):
        _write(layout.etc / name, render(name, plan))
    if spec.accounting:
        _write(layout.etc / "slurmdbd.conf", render("slurmdbd.conf", plan), 0o600)
    if spec.power_saving:
        _write_power(plan)
    _write_gpus(plan)
    _write_dlqueue(plan)
    if plan.backup:
        _write_backup(plan)


def render(name: str, plan: SandboxPlan, controller: str = "slurmctld") -> str:
    """Render one configuration file; `controller` names the daemon that reads it."""
    spec, layout = plan.spec, plan.layout
    return (
        _templates()
        .get_template(f"{name}.jinja")
        .render(
            plan=plan,
            controller=controller,
            spec=spec,
            layout=layout,
            cluster=f"sandbox{layout.tag}",
            host=plan.host,
            address=plan.address,
            user=plan.user,
            nodes=plan.nodes,
            controller_port=plan.controller_port,
            database_port=plan.database_port,
            slurm_version=plan.slurm_version,
            mem_per_cpu_mib=spec.mem_mib // spec.cpus,
            shares=spec.gpus * (spec.shares_per_gpu or SHARES_A_GPU.get(spec.sharing or "", 0)),
            gpu_files=f"{layout.root}/dev/nvidia[0-{spec.gpus - 1}]",
        )
    )


@cache
def _templates() -> "Environment":
    """Environment of the templates; an unknown name in one is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("slurm_ext.sandbox"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - configuration files of daemons, not HTML
    )


def settings_of(plan: SandboxPlan, node: str | None = None) -> dict[str, Any]:
    """Settings of dlqueue.toml by dotted key; with `node`, those of that node."""
    layout = plan.layout
    stream = f"{plan.address}:{plan.stream_port}"
    streams = plan.spec.settings.get("node.transport") == "stream"
    values = {
        "site.cluster": f"sandbox{layout.tag}",
        "paths.state_dir": str(layout.dlqueue),
        "paths.socket": str(layout.run / "advisor.sock"),
        "paths.kill_file": str(layout.etc / "off"),
        "paths.slurm_conf": str(layout.slurm_conf),
        "advisor.trusted_uids": sorted({0, os.geteuid()}),
        "advisor.reconcile_s": 1.0,
        "node.folder": str(layout.dlqueue / "spool"),
        "node.munge_socket": str(layout.munge_socket),
        **({"advisor.listen": stream, "node.address": stream} if streams else {}),
        **plan.spec.settings,
    }
    return values | ({"node.spool_dir": str(layout.node(node) / "dlqueue")} if node else {})


def _toml(values: Mapping[str, Any]) -> str:
    """Write dotted keys at the top of the file; JSON's strings, numbers and lists are TOML's."""
    return "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items()
    )


def _checked_settings(plan: SandboxPlan, node: str | None = None) -> Settings:
    source = str(plan.layout.settings)
    return parse(_toml(settings_of(plan, node)), source)


def _write_dlqueue(plan: SandboxPlan) -> None:
    layout, settings = plan.layout, _checked_settings(plan)
    _write(layout.settings, _toml(settings_of(plan)))
    _write_lua(layout.etc, settings)
    for hook in HOOKS:
        node_json = f"{layout.root}/nodes/$SLURMD_NODENAME/node.json"
        text = render_hook(settings, hook, node_json)
        _write(layout.etc / hook, _marked(text, layout.root), 0o755)
    for node in plan.nodes:
        folder = layout.node(node.name)
        (folder / "slurmd").mkdir(parents=True)
        _write(folder / "dlqueue.toml", _toml(settings_of(plan, node.name)))
        _write(folder / "node.json", render_node_config(_checked_settings(plan, node.name)))


def _write_lua(etc: Path, settings: Settings) -> None:
    lua = etc / "lua"
    lua.mkdir()
    for name, text in render_lua_folder(settings, lua).items():
        # slurmctld looks for job_submit.lua beside slurm.conf.
        _write((etc if name == "job_submit.lua" else lua) / name, text)


def _write_backup(plan: SandboxPlan) -> None:
    """Write files of the second controller: its own but for the state, which is one for both."""
    etc, run = plan.layout.backup / "etc", plan.layout.backup / "run"
    for folder in (etc, run):
        folder.mkdir(parents=True)
    for name in ("slurm.conf", "gres.conf", "cgroup.conf"):
        _write(etc / name, render(name, plan, BACKUP))
    own = {"paths.socket": str(run / "advisor.sock"), "paths.slurm_conf": str(etc / "slurm.conf")}
    text = _toml({**settings_of(plan), **own})
    _write(etc / "dlqueue.toml", text)
    _write_lua(etc, parse(text, str(etc / "dlqueue.toml")))


def _marked(script: str, root: Path) -> str:
    """The script with the sandbox's mark for what it starts: slurmd hands on no environment.

    So the sampler of a job is found where no supervisor is left to end it.
    """
    head, _, rest = script.partition("\n")
    return f"{head}\nexport {MARK}={root}\n{rest}"


def _write_power(plan: SandboxPlan) -> None:
    """Write SuspendProgram and ResumeProgram: a node's power is its slurmd."""
    for name, verb in (("suspend", "stop"), ("resume", "start")):
        command = f"{sys.executable} -m slurm_ext.sandbox.power {verb} {plan.layout.root}"
        log = plan.layout.log / "power.log"
        text = (
            f'#!/bin/sh\necho "$(date +%s) {name} $1" >>{log}\nexec {command} "$1" >>{log} 2>&1\n'
        )
        _write(plan.layout.etc / name, text, 0o755)


def _write_gpus(plan: SandboxPlan) -> None:
    devices = plan.layout.root / "dev"
    devices.mkdir()
    for number in range(plan.spec.gpus):
        (devices / f"nvidia{number}").symlink_to(os.devnull)


def _write(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    write_new(path, content if isinstance(content, bytes) else content.encode(), mode=mode)
