"""What is in the packages: each file of the tree in one of them, and what they ask of a machine."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.manual import ROOT
from tests.packages.building import build
from tests.wheel import SHARED, sources

NODE, ADVISOR, ADMIN = ("dlqueue-node", "dlqueue-advisor", "dlqueue-admin")
SHARE = "/opt/dlqueue/share/dlqueue/"


def printed(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def listed(deb: Path) -> set[str]:
    """Paths of the files in a deb."""
    lines = printed("dpkg-deb", "-c", str(deb)).splitlines()
    paths = [line.split(maxsplit=5)[5].removeprefix(".").split(" -> ")[0] for line in lines]
    return {path for path in paths if not path.endswith("/")}


def one(folder: Path, name: str, kind: str = "deb") -> Path:
    """A package's file."""
    (found,) = folder.glob(f"{name}[-_]*.{kind}")
    return found


@pytest.fixture(scope="module")
def files(packages: Path) -> dict[str, set[str]]:
    """Each deb's files."""
    return {name: listed(one(packages, name)) for name in (NODE, ADVISOR, ADMIN)}


def test_every_file_of_the_source_is_in_one_package(files: dict[str, set[str]]) -> None:
    """Code, and all that a site copies: units, dashboards, rules, templates, schemas, samples."""
    assert sum(map(len, files.values())) == len(set().union(*files.values()))
    code = {f"/opt/dlqueue/lib/{name}" for name in sources("slurm_ext")}
    shared = sources(*SHARED)
    units = {f"/usr/lib/systemd/system/{Path(name).name}" for name in shared if "systemd" in name}
    rest = {f"{SHARE}{name}" for name in shared if "systemd" not in name}
    assert len(units) == 6
    assert code | units | rest <= set().union(*files.values())


def test_the_nodes_part_is_kilobytes_for_any_python(
    packages: Path, files: dict[str, set[str]]
) -> None:
    """Hooks and probe, for the system's own Python; no environment, no package, no command."""
    deb = one(packages, NODE)
    assert deb.stat().st_size < 256 * 1024
    assert printed("dpkg-deb", "-f", str(deb), "Depends") == "python3 (>= 3.9)\n"
    inside = r"/opt/dlqueue/lib/slurm_ext/(__init__\.py|(node|probe)/.*)|/usr/share/doc/.*"
    assert [path for path in files[NODE] if not re.fullmatch(inside, path)] == []


def test_an_rpm_has_the_files_of_the_deb(packages: Path, files: dict[str, set[str]]) -> None:
    """The same trees are wrapped up; folders of dlqueue's own are rpm's, too."""
    for name, expected in files.items():
        paths = set(printed("rpm", "-qpl", str(one(packages, name, "rpm"))).splitlines())
        assert expected <= paths
        assert all("dlqueue" in path for path in paths - expected)


def test_what_an_rpm_asks_of_a_machine(packages: Path) -> None:
    """A Python for the hooks, whichever release brings it; the same version of each part."""
    asked = {
        name: set(printed("rpm", "-qp", "--requires", str(one(packages, name, "rpm"))).splitlines())
        for name in (NODE, ADVISOR, ADMIN)
    }
    own = {name: {need for need in asked[name] if "rpmlib" not in need} for name in asked}
    python = "(python3 >= 3.9 or python39 or python3.11 or python3.12)"
    assert own[NODE] == {python, "coreutils", "util-linux", "/bin/sh"}
    assert own[ADMIN] == {"dlqueue-advisor = 0.1.0", "/bin/sh"}
    assert {"dlqueue-node = 0.1.0", "/bin/sh"} < own[ADVISOR]


def test_scripts_are_shell_that_dash_reads(packages: Path, tmp_path: Path) -> None:
    """All that runs as root when a package comes or goes, of both kinds."""
    for deb in packages.glob("*.deb"):
        printed("dpkg-deb", "-e", str(deb), str(tmp_path / deb.stem))
    scripts = [path for path in tmp_path.rglob("p*") if path.is_file()]
    assert len(scripts) == 12
    for script in scripts:
        printed("sh", "-n", str(script))
    for rpm in packages.glob("*.rpm"):
        (tmp_path / "scripts").write_text(
            re.sub(
                r"^\w+ scriptlet .*",
                "",
                printed("rpm", "-qp", "--scripts", str(rpm)),
                flags=re.MULTILINE,
            )
        )
        printed("sh", "-n", str(tmp_path / "scripts"))


def test_two_builds_are_the_same_bytes(packages: Path, tmp_path: Path) -> None:
    """So that anybody can check where a package comes from."""
    build("deb", tmp_path, "--only", "node")
    (again,) = tmp_path.glob("*.deb")
    assert again.read_bytes() == one(packages, NODE).read_bytes()


def test_make_builds_them() -> None:
    """One command each."""
    for target in ("deb", "rpm", "wheelhouse"):
        made = printed("make", "-C", str(ROOT), "-n", target)
        assert f"-m contrib.packaging.packages {target}" in made
