"""Interpreters for the tests, of every installed Lua version."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.core.settings.document import Settings
from tests.lua.lua_controller import Controller
from tests.lua.lua_process import Lua, install

INTERPRETERS = ("lua5.1", "lua5.3", "lua5.4")


@pytest.fixture(scope="session", params=INTERPRETERS)
def interpreter(request: pytest.FixtureRequest) -> str:
    """Every Lua that is installed; 5.1 is the one that Debian's slurmctld runs."""
    name = str(request.param)
    if shutil.which(name) is None and name != "lua5.1":
        pytest.skip(f"{name} is not installed")
    return name


@pytest.fixture(scope="session")
def lua(interpreter: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lua]:
    """An interpreter with our parts as globals `json`, `edits` and `request`."""
    folder = tmp_path_factory.mktemp("parts")
    install(folder, Settings())
    running = Lua(interpreter)
    running.run(
        "json = dofile(... .. '/json.lua')"
        " edits = loadfile(... .. '/edits.lua')(json)"
        " request = dofile(... .. '/request.lua')",
        str(folder).encode(),
    )
    yield running
    running.close()


@pytest.fixture
def controller(lua: Lua, tmp_path: Path) -> Controller:
    """A controller with a deadline that a busy machine keeps."""
    return Controller(lua, tmp_path, deadline_ms=1000)
