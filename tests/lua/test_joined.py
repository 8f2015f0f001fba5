"""dlqueue behind a site's own slurm_job_submit: the site's word is the last, whatever happens."""

from pathlib import Path

import pytest

from slurm_ext.core.settings.document import Settings
from tests.lua.lua_process import Lua, LuaError, install


@pytest.fixture
def joined(lua: Lua, tmp_path: Path) -> Lua:
    """`ask(answer)` submits to a site's function that answers so, with dlqueue joined."""
    install(tmp_path, Settings(values={"paths.kill_file": str(tmp_path / "off")}))
    lua.run("dlqueue = dofile(...)", str(tmp_path / "dlqueue.lua").encode())
    lua.run(
        "function ask(theirs) looked = 0 local open = io.open"
        " io.open = function(...) looked = looked + 1 return open(...) end"
        " local ran, answer = pcall(dlqueue.after(theirs), mock_job({}, {}, {}), {}, 1000)"
        " io.open = open return { ran = ran, answer = tostring(answer), looked = looked } end"
    )
    return lua


@pytest.mark.parametrize(
    ("theirs", "answer", "looked"),
    [
        ("return slurm.SUCCESS", b"0", 1),
        ("return -1", b"-1", 0),
        ("return 2034", b"2034", 0),
        ("", b"nil", 1),
        ('return "yes"', b"yes", 1),
    ],
)
def test_dlqueue_looks_at_what_the_site_lets_through(
    joined: Lua, theirs: str, answer: bytes, looked: int
) -> None:
    """And at nothing that it refuses; Slurm takes an answer that is no number as SUCCESS."""
    found = joined.run(f"return ask(function() {theirs} end)")
    assert (found[b"ran"], found[b"answer"].removesuffix(b".0")) == (True, answer)
    assert found[b"looked"] == looked


def test_an_error_of_the_sites_stays_one(joined: Lua) -> None:
    """Slurm hears of it as it would without us."""
    found = joined.run('return ask(function() error("theirs", 0) end)')
    assert (found[b"ran"], found[b"answer"], found[b"looked"]) == (False, b"theirs", 0)


def test_there_has_to_be_something_to_join(joined: Lua) -> None:
    """Without a function of the site's nothing is put in its place."""
    with pytest.raises(LuaError, match="no slurm_job_submit"):
        joined.run("dlqueue.after(nil)")
