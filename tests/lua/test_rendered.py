"""What is rendered for the controller is what Lua reads back."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ext.core import records
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.render import render_lua_folder, render_lua_settings
from tests.lua.lua_process import Lua

LUA = Path(__file__).parent.parent.parent / "slurm_ext" / "lua"


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(path=st.text(st.characters(exclude_categories=["Cs"])).map(lambda text: f"/{text}"))
def test_any_path_survives(lua: Lua, path: str) -> None:
    """Quotes, newlines and code in a path stay text; numbers stay numbers."""
    values = {"paths.socket": path, "advisor.breaker_s": 7}
    text = render_lua_settings(Settings(values=values))
    found = lua.run("return (loadstring or load)(...)()", text.encode())
    assert found == {
        b"socket": path.encode(),
        b"kill_file": b"/etc/dlqueue/off",
        b"deadline_ms": 50,
        b"breaker_s": 7,
        b"prefer": b"",
    }


def test_the_shim_loads_from_the_folder_it_was_rendered_for(tmp_path: Path) -> None:
    """Every shipped file is there once, and job_submit.lua names this folder and no other."""
    texts = render_lua_folder(Settings(), tmp_path)
    assert set(texts) == {path.name for path in LUA.glob("*.lua")} | {"dlqueue_settings.lua"}
    assert f'pcall(dofile, "{tmp_path}/dlqueue.lua")' in texts["job_submit.lua"]
    assert "/etc/dlqueue" not in texts["job_submit.lua"]


@pytest.mark.parametrize("path", sorted(LUA.glob("*.lua")), ids=lambda path: path.name)
def test_nothing_is_forked(path: Path) -> None:
    """No Lua of ours can start a process under slurmctld's locks."""
    text = path.read_text()
    assert not any(call in text for call in ("os.execute", "io.popen", "os.exit"))


def test_both_sides_name_the_same_environment() -> None:
    """The variables that Lua shows are those that the wire promises."""
    text = (LUA / "request.lua").read_text()
    names = ", ".join(f'"{name}"' for name in records.ENV_NAMES)
    written = " ".join(text.split()).replace(", }", " }")
    assert f"local ENVIRONMENT = {{ {names} }}" in written
