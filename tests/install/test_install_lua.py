"""Which Lua tries a job_submit.lua: that of Slurm's own plugin, wherever Slurm lies."""

import shutil
from pathlib import Path

import pytest

from tests.install.image import LUA, Site
from tests.install.test_install_running import Running

PLUGIN = b"\x7fELF\0liblua5.4.so.0\0"
NEWER = f"local half = 7 // 2\n{LUA}"  # no syntax of Lua 5.1


@pytest.fixture(autouse=True)
def _with_lua() -> None:
    """The version that the plugin names."""
    if shutil.which("lua5.4") is None:
        pytest.skip("lua5.4 is not installed")


def _plugin(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "job_submit_lua.so").write_bytes(PLUGIN)


def test_a_slurm_in_a_folder_of_its_own_is_tried_with_its_lua(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under /opt/slurm the plugin is found: no warning, and what its Lua reads is not refused."""
    _plugin(site.path("/opt/slurm/lib/slurm"))
    site.write("/etc/slurm/job_submit.lua", NEWER)
    assert site.run("install", "submit") == 0
    assert capsys.readouterr().err == ""
    assert site.text("/etc/slurm/job_submit.lua").startswith("local half = 7 // 2\n")


@pytest.mark.parametrize("place", ["plugins", "lib/slurm"])
def test_a_slurm_that_runs_tells_where_its_plugins_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """By its PluginDir, else by the folder of its commands, beside which they are."""
    (tmp_path / "bin").mkdir()
    running = Running(tmp_path / "bin")
    _plugin(tmp_path / place)
    if place == "plugins":
        (running.folder / "running").write_text(f"PluginDir=/nowhere:{tmp_path / place}\n")
    running.conf.with_name("job_submit.lua").write_text(NEWER)
    assert running.run("install", "submit") == 0
    assert capsys.readouterr().err == ""


def test_a_plugin_that_is_nowhere_is_told_with_the_folders(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may lie elsewhere: nothing is said of what slurmctld will do."""
    assert site.run("install", "submit") == 0
    told = capsys.readouterr().err
    assert "job_submit_lua.so was not found in /usr/lib/*/slurm*, " in told
    assert "/opt/slurm/lib*/slurm*\n" in told
    assert "will not start" not in told
