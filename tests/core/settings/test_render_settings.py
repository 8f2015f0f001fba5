"""Files rendered from the settings: to the last byte, since nodes and slurmctld read them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import slurm_ext
from slurm_ext.core.settings.document import Settings, parse, sample
from slurm_ext.core.settings.render import (
    lua_literal,
    render_folder,
    render_hook,
    render_lua_folder,
    render_lua_settings,
    render_node_config,
)

PACKAGE = Path(slurm_ext.__file__).parent
SITE = parse(
    """
[site]
cluster = "hpc"
[paths]
kill_file = "/etc/dlqueue/off"
socket = "/run/a b.sock"
slurm_bin = "/opt/slurm/bin"
slurm_conf = "/etc/slurm.conf"
[advisor]
deadline_ms = 20
breaker_s = 7
[node]
python = "/opt/my python/bin/python3"
prolog_budget_s = 2.5
epilog_budget_s = 10.0
probe = true
[mps]
mode = "act"
[control]
max_workers = 5
""",
    "site.toml",
)
LENDS = Settings(values={**SITE.values, "control.mode": "shadow"})
ON = Settings(values={**LENDS.values, "control.allocator": "divide"})
MAIN = PACKAGE / "node" / "__main__.py"
RUN = f"/usr/bin/timeout -k 1 {{budget}} '/opt/my python/bin/python3' -I -S {MAIN}"


def test_the_sample_is_shipped() -> None:
    """The site's fragment is what `dlqueue config --sample` prints."""
    shipped = PACKAGE.parent / "site_config" / "dlqueue.toml"
    assert sample() == shipped.read_text()


@pytest.mark.parametrize(
    ("settings", "headroom", "lends"), [(SITE, 0, False), (LENDS, 0, True), (ON, 5, False)]
)
def test_node_json_holds_what_hooks_need(settings: Settings, headroom: int, lends: bool) -> None:
    """Workers start ahead only where the divider runs; other rooms' keys stay away."""
    text = render_node_config(settings)
    config = json.loads(text)
    assert text == json.dumps(config, indent=1) + "\n"
    assert list(config)[:4] == [
        "site.cluster",
        "paths.kill_file",
        "paths.slurm_bin",
        "paths.slurm_conf",
    ]
    assert list(config)[-2:] == ["control.max_workers", "control.lends"]
    assert {key.partition(".")[0] for key in list(config)[4:-2]} == {"node", "mps"}
    assert (config["site.cluster"], config["node.probe"], config["mps.mode"]) == (
        "hpc",
        True,
        "act",
    )
    assert (config["control.max_workers"], config["control.lends"]) == (headroom, lends)


def test_lua_settings_are_a_table() -> None:
    """dlqueue.lua reads just these keys, without their section."""
    assert render_lua_settings(SITE) == (
        "-- Rendered from dlqueue.toml.\n"
        "return {\n"
        '  socket = "/run/a b.sock",\n'
        '  kill_file = "/etc/dlqueue/off",\n'
        "  deadline_ms = 20,\n"
        "  breaker_s = 7,\n"
        '  prefer = "",\n'
        "}\n"
    )


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (7, "7"),
        ("plain /.~ ", '"plain /.~ "'),
        ('a"b\\c', '"a\\034b\\092c"'),
        ("\n\x00\x1f\x7f", '"\\010\\000\\031\\127"'),
        ("ä", '"\\195\\164"'),
    ],
)
def test_no_text_ends_a_lua_literal(value: str | int, literal: str) -> None:
    """Quotes, backslashes, control and non-ASCII bytes are decimal escapes of three digits."""
    assert lua_literal(value) == literal


def test_the_lua_folder_is_our_lua_and_the_settings() -> None:
    """job_submit.lua names the folder of the others, wherever that is."""
    texts = render_lua_folder(SITE, Path('/opt/"odd"/lua'))
    shipped = {path.name: path.read_text() for path in (PACKAGE / "lua").glob("*.lua")}
    assert set(texts) == {*shipped, "dlqueue_settings.lua"}
    assert texts["dlqueue_settings.lua"] == render_lua_settings(SITE)
    assert '"/opt/\\034odd\\034/lua/dlqueue.lua"' in texts["job_submit.lua"]
    assert "/etc/dlqueue" not in texts["job_submit.lua"]
    unchanged = {name: text for name, text in shipped.items() if name != "job_submit.lua"}
    assert unchanged.items() <= texts.items()


STATUSES = "(3: node.python is older than 3.9; 124: it was late; 127: no node.python)"


@pytest.mark.parametrize(("hook", "budget"), [("prolog", "2.5"), ("epilog", "10")])
def test_a_hook_has_a_time_limit_and_ends_well(hook: str, budget: str) -> None:
    """The epilog has its own budget; a failure is one line of the system's log."""
    assert render_hook(SITE, hook, "/etc/dlqueue/node.json") == (
        f"#!/bin/sh\n# dlqueue's {hook}. It may be late or fail; the job and the node go on.\n"
        f'{RUN.format(budget=budget)} {hook} "/etc/dlqueue/node.json" 2>/dev/null ||\n'
        f'  /usr/bin/logger -t dlqueue "{hook} did not run: status $? {STATUSES}" 2>/dev/null\n'
        "exit 0\n"
    )


@pytest.mark.parametrize(
    ("variables", "printed"),
    [
        ({}, []),
        (
            {"SLURM_GPUS": "1", "SLURM_GPUS_PER_NODE": "", "SLURM_GPUS_PER_TASK": "2"},
            ["unset SLURM_GPUS_PER_NODE"],
        ),
        ({"SLURM_GPUS": ""}, ["unset SLURM_GPUS"]),
        ({"SLURM_GPUS_PER_TASK": ""}, ["unset SLURM_GPUS_PER_TASK"]),
        ({"SLURM_TRES_BIND": "x"}, []),
        ({"DLQUEUE_SHARED": "1"}, []),
        ({"DLQUEUE_SHARED": "1", "SLURM_TRES_BIND": "x"}, ["unset SLURM_TRES_BIND"]),
    ],
)
def test_the_task_prolog_unsets_what_asks_for_the_whole_gpu(
    variables: dict[str, str], printed: list[str]
) -> None:
    """Emptied variables, and the binding of a job that shares; by the shell alone."""
    text = render_hook(SITE, "task_prolog", "/none")
    assert text.count(RUN.format(budget="2.5")) == 1
    done = subprocess.run(
        ["/bin/sh", "-c", text], env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n") == [*printed, ""]


def test_a_hook_names_its_node(tmp_path: Path) -> None:
    """The configuration's path may hold a variable of slurmd, which the shell fills in."""
    said = tmp_path / "said"
    python = tmp_path / "python"
    python.write_text(
        f'#!{sys.executable} -S\nimport sys\nopen("{said}", "w").write(str(sys.argv[3:]))\n'
    )
    python.chmod(0o755)
    settings = Settings(values={**SITE.values, "node.python": str(python)})
    text = render_hook(settings, "prolog", f"{tmp_path}/$SLURMD_NODENAME/node.json")
    subprocess.run(["/bin/sh", "-c", text], env={**os.environ, "SLURMD_NODENAME": "n7"}, check=True)
    assert said.read_text() == str([str(MAIN), "prolog", f"{tmp_path}/n7/node.json"])


def test_the_folder_has_every_file_with_its_mode() -> None:
    """Hooks can be run by everybody; nothing of it is secret."""
    folder = Path("/etc/site")
    files = {name: (text, mode) for name, text, mode in render_folder(SITE, folder)}
    lua = render_lua_folder(SITE, folder / "lua")
    hooks = ("prolog", "task_prolog", "epilog")
    assert set(files) == {"node.json", *(f"hooks/{h}" for h in hooks), *(f"lua/{n}" for n in lua)}
    assert files["node.json"] == (render_node_config(SITE), 0o644)
    for hook in hooks:
        assert files[f"hooks/{hook}"] == (render_hook(SITE, hook, "/etc/site/node.json"), 0o755)
    for name, text in lua.items():
        assert files[f"lua/{name}"] == (text, 0o644)
