"""Checks of `doctor`: Slurm's own settings that dlqueue needs."""

import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from slurm_ext.cli.doctor.access import clock
from slurm_ext.cli.doctor.cores import cores
from slurm_ext.cli.doctor.finding import FAIL, OK, WARN, Finding, judged, output
from slurm_ext.cli.doctor.hooks import hooks, text_of, values
from slurm_ext.cli.doctor.lua import lua_files, lua_libraries
from slurm_ext.cli.doctor.munge import silent_munge
from slurm_ext.cli.doctor.room import may_write
from slurm_ext.cli.doctor.sharing import sharing
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.slurm_place import slurm_bin

_MAY_KILL = ("Epilog", "Prolog", "TaskEpilog", "EpilogSlurmctld")
_BEHIND = re.compile(r'^exec (/\S+) "\$@"$', re.MULTILINE)  # as our launcher calls a site's script
_FOREVER = 65534  # Slurm's word for "not set"
_BY_USER = re.compile(r"^[^#\n]*\b(?:pkill|killall|skill|slay)\b[^\n]*\s-{1,2}[uU]", re.MULTILINE)


def slurm(settings: Settings) -> Iterator[Finding]:
    """Everything that the running slurmctld tells; without one, only what lies on the disk."""
    config = _config(settings)
    needs_lua = config is not None and _is_controller(config) and _loads_lua(config)
    yield from lua_libraries((config or {}).get("PluginDir", ""), needed=needs_lua)
    if config is None:
        yield from silent_munge(settings)
        advice = "`scontrol show config` says why; start slurmctld, or set paths.slurm_conf"
        yield Finding("slurmctld", WARN, "not reached", advice)
        return
    yield Finding("slurmctld", OK, config.get("SLURM_VERSION", "unknown version"))
    yield from clock(config, time.time())
    yield from _named(settings, config)
    yield from _submit(settings, config)
    yield from _controllers(config)
    yield from hooks(settings, config)
    yield from _prolog_flags(config)
    yield from _kills(config)
    yield from _patience(settings, config)
    yield from _rest(settings, config)
    yield cores(config)
    yield from sharing(settings, config)


def _named(settings: Settings, config: Mapping[str, str]) -> Iterator[Finding]:
    """Accounting names jobs by Slurm's name of the cluster, records by that of the settings."""
    named, own = config.get("ClusterName"), settings["site.cluster"]
    if named and settings.source != "defaults":
        advice = f"name it {named} here and on the nodes: `history import` takes jobs twice else"
        yield judged("site.cluster", own.lower() == named.lower(), own, advice)


def _submit(settings: Settings, config: Mapping[str, str]) -> Iterator[Finding]:
    """The plugin, and on the controller the files that it needs: slurmctld says nothing of them."""
    plugins = config.get("JobSubmitPlugins", "(null)")
    named = _loads_lua(config)
    yield judged(
        "JobSubmitPlugins", named, plugins, "`dlqueue install submit` adds lua (INSTALL.md, 4)"
    )
    if named and _is_controller(config):
        conf = Path(config.get("SLURM_CONF", "/etc/slurm/slurm.conf"))
        yield from lua_files(settings, conf, config.get("PluginDir", ""))


def _loads_lua(config: Mapping[str, str]) -> bool:
    return "lua" in config.get("JobSubmitPlugins", "").split(",")


def _controllers(config: Mapping[str, str]) -> Iterator[Finding]:
    """A backup controller that takes over reads the same job_submit.lua, from its own disk."""
    hosts = [v.partition("(")[0] for k, v in config.items() if k.startswith("SlurmctldHost[")]
    if len(hosts) > 1 and _loads_lua(config):
        state = f"{', '.join(hosts)}: each needs job_submit.lua and luasocket; run doctor on each"
        yield Finding("controllers", OK, state)


def _prolog_flags(config: Mapping[str, str]) -> Iterator[Finding]:
    """The prolog is to run before the job's first step, and outside the job."""
    flags = config.get("PrologFlags", "(null)")
    named = set(flags.lower().split(","))
    advice = "add Alloc: without it the prolog runs only with a node's first step"
    yield judged("PrologFlags", bool({"alloc", "contain"} & named), flags, advice)
    if "runinjob" in named:
        state = "the sampler is part of the job, dies with it before its last sample; no MPS"
        advice = "take RunInJob out of PrologFlags; Contain may stay"
        yield Finding("PrologFlags, RunInJob", WARN, state, advice)


def _kills(config: Mapping[str, str]) -> Iterator[Finding]:
    """Scripts that end every process of a user, by themselves or behind our launcher."""
    advice = (
        "it ends the user's other jobs on the node too; leave the killing to"
        " ProctrackType=proctrack/cgroup"
    )
    for key in _MAY_KILL:
        named = values(config, key)
        behind = [script for launcher in named for script in _BEHIND.findall(text_of(launcher))]
        for script in (*named, *behind):
            if match := _BY_USER.search(text_of(script)):
                yield Finding(f"{key} kills", WARN, f"{script}: {match[0].strip()}", advice)


def _patience(settings: Settings, config: Mapping[str, str]) -> Iterator[Finding]:
    """Slurm kills a prolog or epilog after its timeout, and drains the node."""
    for hook, budget in (("Prolog", "node.prolog_budget_s"), ("Epilog", "node.epilog_budget_s")):
        for key in (f"{hook}Timeout", "PrologEpilogTimeout"):
            number = re.match(r"\d+", config.get(key, ""))
            if number and 0 < int(number[0]) < _FOREVER:
                enough = int(number[0]) > settings[budget] + 1
                advice = f"make it longer than {budget} ({settings[budget]:g} s) and a second"
                yield judged(f"{key}, {hook}", enough, config[key], advice, FAIL)


def _rest(settings: Settings, config: Mapping[str, str]) -> Iterator[Finding]:
    gres = config.get("GresTypes", "(null)")
    both = {"mps", "shard"} <= set(gres.split(","))
    advice = "choose mps or shard: with both, Slurm sets no CUDA_VISIBLE_DEVICES"
    yield judged("GresTypes", not both, gres, advice, FAIL)
    yield Finding("AccountingStorageEnforce", OK, config.get("AccountingStorageEnforce", "none"))
    age, every_s = config.get("MinJobAge", ""), settings["advisor.reconcile_s"]
    long_enough = not age[:1].isdecimal() or int(age.split()[0]) > every_s
    advice = f"make it longer than advisor.reconcile_s ({every_s:g} s), or ended jobs are missed"
    yield judged("MinJobAge", long_enough, age or "unknown", advice)
    yield from _trusted(settings, config)


def _trusted(settings: Settings, config: Mapping[str, str]) -> Iterator[Finding]:
    """Check that the advisor accepts slurmctld's user: root, its own, or a named one."""
    user = re.fullmatch(r".*\((\d+)\)", config.get("SlurmUser", ""))
    path = Path(settings["paths.socket"])
    if user and path.exists():
        trusted = {0, path.stat().st_uid, *settings["advisor.trusted_uids"]}
        advice = "add its uid to advisor.trusted_uids, or every submission is refused advice"
        yield judged("SlurmUser", int(user[1]) in trusted, config["SlurmUser"], advice, FAIL)
    if user and settings.state_dir.is_dir() and _is_controller(config):
        writer = path.stat().st_uid if path.exists() else int(user[1])
        yield may_write("state_dir owner", settings.state_dir, writer)


def _is_controller(config: Mapping[str, str]) -> bool:
    hosts = {v.partition("(")[0] for k, v in config.items() if k.startswith("SlurmctldHost")}
    name = socket.gethostname()
    return bool(hosts & {name, name.partition(".")[0]})


def _config(settings: Settings) -> dict[str, str] | None:
    """`scontrol show config` as key → value; None where there is no controller."""
    scontrol = shutil.which("scontrol", path=slurm_bin(settings) or None)
    if scontrol is None:
        return None
    conf = settings["paths.slurm_conf"]
    if conf and not Path(conf).exists():
        return None  # scontrol would look for one in the network, for ten seconds
    text = output([scontrol, "show", "config"], {"SLURM_CONF": conf} if conf else {})
    pairs = (line.partition("=") for line in (text or "").splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs} if text else None
