"""What must not happen to a site, whatever files, words, disks and kills meet `install`."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.install import apply
from slurm_ext.install.backups import load
from slurm_ext.install.plan import make_plan
from slurm_ext.install.site_files import InstallRoot
from slurm_ext.install.steps import NAMES
from tests.install.image import CONF, Site

BAD: dict[str, tuple[str, str, str]] = {
    "no file": ("/etc/slurm/slurm.conf", "", "does not exist"),
    "twice": ("/etc/slurm/slurm.conf", "Prolog=/a\nProlog=/b\n", ":2: Prolog is set 2 times"),
    "continued": ("/etc/slurm/slurm.conf", "Prolog=/a \\\n Epilog=/b\n", "over several lines"),
    "relative": ("/etc/slurm/slurm.conf", "Prolog=a.sh\n", "no absolute path"),
    "pattern": ("/etc/slurm/slurm.conf", "Prolog=/etc/p.d/[0-8]*.sh\n", "matches none of"),
    "mark": ("/etc/slurm/slurm.conf", "# >>> dlqueue hooks\nProlog=/x\n", "slurm.conf:1: no line"),
    "lua syntax": ("/etc/slurm/job_submit.lua", "function (\n", "job_submit.lua"),
    "lua error": ("/etc/slurm/job_submit.lua", "error('at load')\n", "at load"),
    "lua, no function": ("/etc/slurm/job_submit.lua", "x = 1\n", "no function slurm_job_submit"),
    "lua, elsewhere": (
        "/etc/slurm/job_submit.lua",
        'x = pcall(dofile, "/old/dlqueue.lua")\n',
        "loads /old/",
    ),
    "settings": ("/etc/dlqueue/dlqueue.toml", "site.mode = 3\n", "site.mode = 3 is not valid"),
    "record": ("/etc/dlqueue/install/installed.json", "{", "is damaged"),
}


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

    def dies(place: InstallRoot, path: Path, content: object) -> None:
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
    with pytest.raises(Exception, match="another program"):
        apply.apply(plan, place, kept)
    assert site.text("/etc/slurm/slurm.conf") == "SlurmUser=root\n"


@pytest.mark.root
@pytest.mark.parametrize("fault", ["foreign file", "writable file", "link", "foreign folder"])
def test_a_record_that_others_may_have_written_is_not_obeyed(
    site: Site, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It tells root what to write and to remove: whoever else wrote it changes nothing."""
    assert site.run("install") == 0
    folder = site.path("/etc/dlqueue/install")
    record = folder / "installed.json"
    if fault == "link":
        record.rename(folder / "elsewhere")
        record.symlink_to(folder / "elsewhere")
        folder.chmod(0o777)
    elif fault == "writable file":
        record.chmod(0o666)
    else:
        os.chown(folder if "folder" in fault else record, 65534, 65534)
    before = site.tree()
    assert site.run("uninstall") == 1
    assert "install" in capsys.readouterr().err
    assert site.tree() == before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("files", {"etc/shadow": {"kind": "own", "before": None, "ours": []}}),
        ("files", {"/etc/../x": {"kind": "own", "before": None, "ours": []}}),
        ("folders", ["../x"]),
        ("links", {"/a": "b"}),
        ("slurm_conf", "x"),
    ],
)
def test_a_record_with_a_path_that_leads_elsewhere_is_damaged(
    site: Site, key: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """Paths are absolute and whole, so that each is below the site's root."""
    assert site.run("install") == 0
    record = site.path("/etc/dlqueue/install/installed.json")
    record.write_text(json.dumps({**json.loads(record.read_text()), key: value}))
    assert site.run("uninstall") == 1
    assert "is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(("user_id", "told"), [(1000, True), (0, False)])
def test_a_user_who_may_not_write_is_told_who_may(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    user_id: int,
    told: bool,
) -> None:
    """The system's reason, and that it is root's to do; root itself has other reasons."""

    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/etc/dlqueue")

    monkeypatch.setattr(apply, "_apply", refused)
    monkeypatch.setattr(os, "geteuid", lambda: user_id)
    assert site.run("install") == 1
    message = capsys.readouterr().err
    assert "/etc/dlqueue: Permission denied; everything is as it was before" in message
    assert ("only root can change a site's files" in message) == told
