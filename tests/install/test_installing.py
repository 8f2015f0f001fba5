"""Files before, after, and as they were: what `install` and `uninstall` do to a site."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ext.cli import main
from slurm_ext.install import apply, slurm_conf, submit_lua
from slurm_ext.install.kept import load
from slurm_ext.install.place import Place
from slurm_ext.install.plan import make_plan
from slurm_ext.install.steps import NAMES

CONF = """\
ClusterName=Trial
SlurmUser=nobody
Prolog=/etc/slurm/prolog.sh # the site's
Epilog=/etc/slurm/epilog.d/*
PrologFlags=Serial
NodeName=n1"""
LUA = """\
function slurm_job_submit(job, parts, uid)
  if job.name == "bad" then return slurm.ERROR end
  return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
return slurm.SUCCESS
"""

Tree = dict[str, tuple[bytes, int]]


class Site:
    """An image of a site under a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, text in {"slurm.conf": CONF, "job_submit.lua": LUA}.items():
            self.write(f"/etc/slurm/{name}", text)
        (root / "etc/slurm/epilog.d").mkdir()

    def path(self, name: str) -> Path:
        """A path of the site as this machine sees it."""
        return self.root / name.lstrip("/")

    def write(self, name: str, text: str) -> None:
        """A file of the site's."""
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text)

    def text(self, name: str) -> str:
        """What a file says."""
        return self.path(name).read_text()

    def tree(self) -> Tree:
        """Every file and folder: bytes and mode."""
        return {
            str(each.relative_to(self.root)): (
                each.read_bytes() if each.is_file() else b"",
                each.lstat().st_mode,
            )
            for each in sorted(self.root.rglob("*"))
        }

    def run(self, *words: str) -> int:
        """The command's exit status."""
        return main([words[0], "--root", str(self.root), *words[1:]])

    @property
    def place(self) -> Place:
        """The site as the room knows it."""
        return Place(self.root, Path("/etc/dlqueue"), Path("/etc/slurm/slurm.conf"))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """With a prolog, a folder of epilogs and a job_submit.lua of its own."""
    return Site(tmp_path / "root")


# -- forwards and backwards -------------------------------------------------------------------


def test_a_dry_run_shows_every_file_and_touches_none(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its diffs are those of what the run then does."""
    before = site.tree()
    assert site.run("install", "--dry-run", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert site.tree() == before
    paths = {change["path"]: change for change in told["changes"]}
    diff = paths["/etc/slurm/slurm.conf"]["diff"]
    assert "+Prolog=/etc/dlqueue/hooks/site_prolog # the site's" in diff
    assert "\\ No newline at end of file" in diff
    assert site.run("install") == 0
    capsys.readouterr()
    assert {path for path in paths if site.path(path).exists()} == set(paths)
    assert site.run("install", "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["changes"] == []


def test_what_was_there_is_joined_and_comes_back_to_the_last_byte(site: Site) -> None:
    """Installed twice, taken out once: files, folders and modes are those of before."""
    site.path("/etc/slurm/job_submit.lua").chmod(0o640)
    before = site.tree()
    assert [site.run("install"), site.run("install")] == [0, 0]
    launcher = site.text("/etc/dlqueue/hooks/site_prolog")
    assert 'exec /etc/slurm/prolog.sh "$@"' in launcher
    assert "\n/etc/dlqueue/hooks/prolog\n" in launcher
    assert site.path("/etc/slurm/epilog.d/zz-dlqueue").stat().st_mode & 0o777 == 0o755
    assert site.text("/etc/slurm/job_submit.lua").count("-- dlqueue install") == 2
    assert 'cluster = "Trial"' in site.text("/etc/dlqueue/dlqueue.toml")
    assert "PrologFlags=Serial,Alloc" in site.text("/etc/slurm/slurm.conf")
    assert site.run("uninstall") == 0
    assert site.tree() == before


def test_steps_come_and_go_in_any_order(site: Site) -> None:
    """What is left after each is what a fresh installation of the rest would be."""
    before = site.tree()
    assert site.run("install", "submit") == 0
    only_submit = site.text("/etc/slurm/slurm.conf")
    assert site.run("install", "hooks", "service") == 0
    assert "User=nobody" in site.text("/etc/systemd/system/dlqueue.service")
    assert site.run("uninstall", "service") == 0
    assert site.run("uninstall", "hooks") == 0
    assert site.text("/etc/slurm/slurm.conf") == only_submit
    assert site.run("uninstall", "submit") == 0
    assert site.run("uninstall", "files") == 0
    assert site.tree() == before


def test_what_somebody_changed_since_stays(site: Site) -> None:
    """Of a file that was edited only our marked lines go; settings that were edited stay."""
    assert site.run("install") == 0
    for name in ("/etc/slurm/slurm.conf", "/etc/slurm/job_submit.lua"):
        site.write(name, ("# theirs\n" if "conf" in name else "-- theirs\n") + site.text(name))
    site.write("/etc/dlqueue/dlqueue.toml", '[site]\nmode = "off"\n')
    assert site.run("install") == 0
    assert site.run("uninstall") == 0
    assert site.text("/etc/slurm/slurm.conf") == "# theirs\n" + CONF
    assert site.text("/etc/slurm/job_submit.lua") == "-- theirs\n" + LUA
    assert [path.name for path in site.path("/etc/dlqueue").rglob("*")] == ["dlqueue.toml"]


def test_a_site_without_scripts_and_one_that_joined_by_hand(site: Site) -> None:
    """The first gets ours alone; of the second nothing is touched."""
    site.write("/etc/slurm/slurm.conf", "SlurmUser=nobody\n")
    site.path("/etc/slurm/job_submit.lua").unlink()
    assert site.run("install") == 0
    conf = site.text("/etc/slurm/slurm.conf")
    for line in ("Prolog=/etc/dlqueue/hooks/prolog", "PrologFlags=Alloc", "JobSubmitPlugins=lua"):
        assert f"\n{line}\n" in conf
    shim = site.text("/etc/slurm/job_submit.lua")
    assert site.run("uninstall") == 0
    site.write(
        "/etc/slurm/slurm.conf",
        "".join(f"{line}\n" for line in conf.splitlines() if line[0] != "#"),
    )
    site.write("/etc/slurm/job_submit.lua", shim)
    by_hand = site.tree()
    assert site.run("install") == 0
    assert {name: site.tree()[name] for name in by_hand} == by_hand


def test_keys_of_included_files_are_changed_where_they_stand(site: Site) -> None:
    """And taken back there."""
    site.write("/etc/slurm/slurm.conf", "SlurmUser=nobody\nInclude hooks.conf\n")
    site.write("/etc/slurm/hooks.conf", "prolog = /etc/slurm/p\nJobSubmitPlugins=all_partitions\n")
    before = site.tree()
    assert site.run("install") == 0
    assert "prolog = /etc/dlqueue/hooks/site_prolog\n" in site.text("/etc/slurm/hooks.conf")
    assert "JobSubmitPlugins=all_partitions,lua\n" in site.text("/etc/slurm/hooks.conf")
    assert site.run("uninstall") == 0
    assert site.tree() == before


# -- what must not happen ---------------------------------------------------------------------


BAD: dict[str, tuple[str, str, str]] = {
    "no file": ("/etc/slurm/slurm.conf", "", "does not exist"),
    "twice": ("/etc/slurm/slurm.conf", "Prolog=/a\nProlog=/b\n", ":2: Prolog is set 2 times"),
    "continued": ("/etc/slurm/slurm.conf", "Prolog=/a \\\n Epilog=/b\n", "continued over lines"),
    "relative": ("/etc/slurm/slurm.conf", "Prolog=a.sh\n", "no absolute path"),
    "pattern": ("/etc/slurm/slurm.conf", "Prolog=/etc/p.d/[0-8]*.sh\n", "matches no name"),
    "mark": ("/etc/slurm/slurm.conf", "# >>> dlqueue hooks\nProlog=/x\n", "slurm.conf:1: no line"),
    "lua syntax": ("/etc/slurm/job_submit.lua", "function (\n", "job_submit.lua"),
    "lua error": ("/etc/slurm/job_submit.lua", "error('at load')\n", "at load"),
    "lua, no function": ("/etc/slurm/job_submit.lua", "x = 1\n", "no function slurm_job_submit"),
    "lua, elsewhere": (
        "/etc/slurm/job_submit.lua", 'x = pcall(dofile, "/old/dlqueue.lua")\n', "loads /old/"
    ),
    "settings": ("/etc/dlqueue/dlqueue.toml", "site.mode = 3\n", "site.mode = 3 is not valid"),
    "record": ("/etc/dlqueue/install/installed.json", "{", "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("fault", BAD)
def test_bad_files_are_named_and_nothing_is_touched(
    site: Site, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    """One line that names file and fault; not a byte is written."""
    name, text, said = BAD[fault]
    site.write(name, text)
    if fault == "no file":
        site.path(name).unlink()
    before = site.tree()
    assert site.run("install") == 1
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert site.tree() == before


def test_a_way_out_of_the_root_is_not_taken(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """An absolute link in an image would lead to this machine's own files."""
    site.path("/etc/slurm").rename(site.path("/etc/real"))
    site.path("/etc/slurm").symlink_to(site.root.parent)
    (site.root.parent / "slurm.conf").write_text(CONF)
    assert site.run("install") == 1
    assert "leads out of" in capsys.readouterr().err
    assert (site.root.parent / "slurm.conf").read_text() == CONF


@pytest.mark.parametrize("words", [["nonsense"], ["hooks", "--reconfigure"]])
def test_wrong_words(site: Site, words: list[str]) -> None:
    """A step that there is not, or a running Slurm for an image, is wrong usage."""
    assert site.run("install", *words) == 2


def _failing(at: int) -> Callable[[int], None]:
    """An fsync that fails the `at`th time, as on a full disk, and from then on a while."""
    calls = iter(range(10_000))

    def fsync(_: int) -> None:
        if next(calls) == at:
            raise OSError(errno.ENOSPC, "No space left on device")

    return fsync


@pytest.mark.parametrize("at", [0, 1, 5, 20, 31, 36])
def test_a_disk_that_fills_half_way(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], at: int
) -> None:
    """Whatever was done is taken back, and said so."""
    before = site.tree()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _failing(at))
        assert site.run("install") == 1
    assert "everything is as it was before" in capsys.readouterr().err
    assert site.tree() == before
    assert site.run("install") == 0
    installed = site.tree()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _failing(at % 8))
        assert site.run("uninstall") == 1
    assert site.tree() == installed
    assert site.run("uninstall") == 0
    assert site.tree() == before


class Killed(BaseException):
    """As SIGKILL: nothing is put back."""


@pytest.mark.parametrize("at", [0, 3, 8, 13, 14, 15])
def test_an_end_half_way_is_mended_by_the_next_run(
    site: Site, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Backups were there before the first change: going on, and going back, still work."""
    before, put = site.tree(), apply._put
    left = iter(range(at, -1, -1))

    def dies(place: Place, path: Path, content: object) -> None:
        if "install" not in path.parts and next(left) == 0:
            raise Killed
        put(place, path, content)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(apply, "_put", dies)
        with pytest.raises(Killed):
            site.run("install")
    assert site.run("install") == 0
    assert site.run("uninstall") == 0
    changed = {name: each for name, each in site.tree().items() if name not in before}
    assert all(name.startswith(("etc/dlqueue", "etc/systemd", "var")) for name in changed)
    assert {name: site.tree()[name] for name in before} == before


def test_a_file_that_changes_meanwhile_is_not_lost(site: Site) -> None:
    """A plan is for the files that it was made from."""
    place, kept = site.place, load(site.place)
    plan = make_plan(NAMES, place, place.read, kept)
    site.write("/etc/slurm/slurm.conf", "SlurmUser=root\n")
    with pytest.raises(Exception, match="somebody else"):
        apply.carry_out(plan, place, kept)
    assert site.text("/etc/slurm/slurm.conf") == "SlurmUser=root\n"


# -- a Slurm that runs ------------------------------------------------------------------------

SCONTROL = """\
#!/bin/sh
if [ "$1" = show ]; then
  for key in Prolog Epilog TaskProlog; do
    grep -q "^$key=" {folder}/running || echo "$key = (null)"
  done
  exec sed s/=/\\ =\\ / {folder}/running
fi
[ -e {folder}/fails ] && {{ echo 'scontrol: error: no contact' >&2; exit 1; }}
[ -e {folder}/deaf ] || grep -v '^#' {folder}/slurm.conf > {folder}/running
"""


class Running:
    """A Slurm of which only scontrol is there: it takes up slurm.conf when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.conf = folder, folder / "slurm.conf"
        self.launcher = folder / "dlqueue" / "hooks" / "site_prolog"
        self.conf.write_text("Prolog=/site/prolog\nPrologFlags=Alloc\n")
        (folder / "running").write_text(self.conf.read_text())
        command = folder / "scontrol"
        command.write_text(SCONTROL.format(folder=folder))
        command.chmod(0o755)
        (folder / "dlqueue").mkdir()
        values = {"slurm_bin": folder, "slurm_conf": self.conf, "state_dir": folder / "state"}
        text = "".join(f'paths.{key} = "{value}"\n' for key, value in values.items())
        (folder / "dlqueue" / "dlqueue.toml").write_text(text)

    def run(self, *words: str) -> int:
        """The command's exit status."""
        return main([*words, "--config", str(self.folder / "dlqueue" / "dlqueue.toml")])


@pytest.fixture
def running(tmp_path: Path) -> Running:
    """With a prolog of its own."""
    return Running(tmp_path)


def test_a_launcher_that_slurm_still_runs_stays(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its prolog a node is drained: it goes when Slurm has read slurm.conf again."""
    before = running.conf.read_bytes()
    assert running.run("install", "hooks", "--reconfigure") == 0
    assert running.run("uninstall") == 0
    assert running.conf.read_bytes() == before
    assert running.launcher.exists()
    assert "`dlqueue uninstall` again" in capsys.readouterr().out
    (running.folder / "running").write_bytes(before)  # somebody ran `scontrol reconfigure`
    assert running.run("uninstall") == 0
    assert not running.launcher.exists()


def test_a_launcher_goes_at_once_where_slurm_was_told(running: Running) -> None:
    """`--reconfigure` has Slurm forget it first."""
    assert running.run("install", "hooks", "--reconfigure") == 0
    assert str(running.launcher) in (running.folder / "running").read_text()
    assert running.run("uninstall", "--reconfigure") == 0
    assert not running.launcher.parent.exists()


@pytest.mark.parametrize("fault", ["fails", "deaf"])
def test_what_slurm_does_not_take_is_put_back(
    running: Running, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    """It refuses, or says afterwards that nothing changed: slurm.conf is as it was before."""
    before = running.conf.read_bytes()
    (running.folder / fault).touch()
    assert running.run("install", "hooks", "--reconfigure") == 1
    assert "put back" in capsys.readouterr().err
    assert running.conf.read_bytes() == before
    assert running.launcher.exists()
    assert running.run("uninstall") == 0
    assert not running.launcher.exists()


# -- texts ------------------------------------------------------------------------------------

KEYS = ("Prolog", "PrologFlags", "JobSubmitPlugins")
LINES = st.lists(
    st.sampled_from(["Prolog=/a", " prolog = /a # x", "JobSubmitPlugins=lua", "#Prolog=/b", "",
                     "X=1",
                     "NodeName=n Prologs=3", 'Prolog="/a b"', "y\r", "SrunProlog=/c", "é=1"]),
    max_size=6,
)  # fmt: skip
QUICK = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(lines=LINES, end=st.sampled_from(["", "\n", "\n\n"]))
def test_marked_lines_go_without_a_trace(lines: list[str], end: str) -> None:
    """Whatever was replaced and added, the text of before comes back to the last byte."""
    before = text = "\n".join(lines) + end
    for key in KEYS:
        found = slurm_conf.said(text, key)
        if found:
            text = slurm_conf.replaced(text, found[-1], "/new", "hooks", "x")
        else:
            text = slurm_conf.added(text, [f"{key}=/new"], "submit")
        assert slurm_conf.said(text, key)[-1].value == "/new"
    assert slurm_conf.without(text, "x") == before


@QUICK
@given(lines=st.lists(st.sampled_from(["f()", "-- return", "return 0", "  return x end", ""])),
       end=st.sampled_from(["", "\n"]))  # fmt: skip
def test_two_lines_of_lua_go_without_a_trace(lines: list[str], end: str) -> None:
    """Joined and taken out again is as it was."""
    before = "\n".join(lines) + end
    assert submit_lua.without(submit_lua.joined(before, "/x/dlqueue.lua")) == before


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the environment names a site."""
    for name in ("DLQUEUE_CONFIG", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)
