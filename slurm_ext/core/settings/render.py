"""Render the small files that nodes and slurmctld read instead of dlqueue.toml."""

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from slurm_ext.core.settings.document import TABLE, Settings

_LUA = Path(__file__).parents[2] / "lua"
NODE_PROGRAM = Path(__file__).parents[2] / "node" / "__main__.py"
_LUA_KEYS = (
    "paths.socket",
    "paths.kill_file",
    "advisor.deadline_ms",
    "advisor.breaker_s",
    "sharing.prefer",
)
_NODE_KEYS = ("site.cluster", "paths.kill_file", "paths.slurm_bin", "paths.slurm_conf")
_STATUSES = "(3: node.python is older than 3.9; 124: it was late; 127: no node.python)"
HOOKS = ("prolog", "task_prolog", "epilog")
_SHIPPED_PATH = "/etc/dlqueue/lua/dlqueue.lua"  # as it stands in job_submit.lua

# These variables ask for the whole GPU, of which the job was given a part: its steps would ask
# again. The submission emptied them; the shell unsets them even where our Python fails.
_UNSET = """\
for name in SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK; do
  eval "[ -z \\"\\${$name-set}\\" ]" && echo "unset $name"
done
[ -n "$DLQUEUE_SHARED" ] && [ -n "$SLURM_TRES_BIND" ] && echo "unset SLURM_TRES_BIND"
"""


def render_folder(settings: Settings, folder: Path) -> Iterator[tuple[str, str, int]]:
    """Yield name below `folder` (/etc/dlqueue), text and permission bits of every file."""
    yield "node.json", render_node_config(settings), 0o644
    for hook in HOOKS:
        yield f"hooks/{hook}", render_hook(settings, hook, str(folder / "node.json")), 0o755
    for name, text in render_lua_folder(settings, folder / "lua").items():
        yield f"lua/{name}", text, 0o644


def render_node_config(settings: Settings) -> str:
    """Return node.json: the settings of the hooks, by their keys in dlqueue.toml."""
    keys = [*_NODE_KEYS, *(s.key for s in TABLE if s.key.startswith(("node.", "mps.")))]
    runs, lends = settings["control.mode"] != "off", settings["control.allocator"] == "lend"
    headroom = settings["control.max_workers"] if runs and not lends else 0
    values = {
        **{key: settings[key] for key in keys},
        "control.max_workers": headroom,
        "control.lends": runs and lends,
    }
    return json.dumps(values, indent=1) + "\n"


def render_lua_settings(settings: Settings) -> str:
    """Return dlqueue_settings.lua, which stands beside dlqueue.lua."""
    lines = [f"  {key.partition('.')[2]} = {lua_literal(settings[key])}," for key in _LUA_KEYS]
    return "\n".join(["-- Rendered from dlqueue.toml.", "return {", *lines, "}", ""])


def render_lua_folder(settings: Settings, folder: Path) -> Mapping[str, str]:
    """Return file name → text of all files of `folder` on the controller.

    job_submit.lua among them belongs into Slurm's own folder; it names `folder` by its path.
    """
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(_LUA.glob("*.lua"))}
    shim = texts["job_submit.lua"]
    texts["job_submit.lua"] = shim.replace(
        f'"{_SHIPPED_PATH}"', lua_literal(str(folder / "dlqueue.lua"))
    )
    return {**texts, "dlqueue_settings.lua": render_lua_settings(settings)}


def render_hook(settings: Settings, hook: str, node_config: str) -> str:
    """Return the launcher that slurm.conf names as Prolog, Epilog or TaskProlog.

    `hook` is its name in lower case. slurmd gives its scripts no PATH, and drains the node for any
    exit status but 0 (slurm.conf(5)). `node_config` stands in double quotes: it may name
    $SLURMD_NODENAME. The hook itself always ends with 0: any other status means that it never ran
    (no interpreter) or was stopped at its time limit.
    """
    budget_s = settings["node.epilog_budget_s" if hook == "epilog" else "node.prolog_budget_s"]
    run = f"{shlex.quote(settings['node.python'])} -I -S {shlex.quote(str(NODE_PROGRAM))}"
    first = _UNSET if hook == "task_prolog" else ""
    return (
        f"#!/bin/sh\n# dlqueue's {hook}. It may be late or fail; the job and the node go on.\n"
        f"{first}"
        f'/usr/bin/timeout -k 1 {budget_s:g} {run} {hook} "{node_config}" 2>/dev/null ||\n'
        f'  /usr/bin/logger -t dlqueue "{hook} did not run: status $? {_STATUSES}" 2>/dev/null\n'
        "exit 0\n"
    )


def lua_literal(value: str | int) -> str:
    """Return a Lua literal; bytes that could end the string are decimal escapes."""
    if isinstance(value, int):
        return str(value)
    plain = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03d}" for b in value.encode())
    return f'"{"".join(plain)}"'
