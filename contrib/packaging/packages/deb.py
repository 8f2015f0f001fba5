"""Wraps a staged tree up as a deb, with dpkg-deb."""

import subprocess
from pathlib import Path

from contrib.packaging.packages.contents import Package
from contrib.packaging.packages.scripts_of import deb_scripts

_CONTROL = """\
Package: {name}
Version: {version}
Architecture: {machine}
Maintainer: dlqueue maintainers <root@localhost>
Section: admin
Priority: optional
Installed-Size: {kib}
Depends: {depends}
{recommends}Description: {summary}
{about}
"""


def build(package: Package, tree: Path, version: str, python: str, out: Path) -> Path:
    """Write the deb into `out`."""
    control = tree / "DEBIAN"
    control.mkdir()
    machine = "all" if package.any_machine else _machine()
    text = _control(package, tree, machine, {"version": version, "python": python})
    (control / "control").write_text(text, encoding="utf-8")
    for name, script in deb_scripts(package, tree).items():
        (control / name).write_text(script, encoding="utf-8")
        (control / name).chmod(0o755)
    made = out / f"{package.name}_{version}_{machine}.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(made)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return made


def _control(package: Package, tree: Path, machine: str, known: dict[str, str]) -> str:
    size = sum(path.lstat().st_size for path in tree.rglob("*") if not path.is_dir())
    recommends = ", ".join(package.recommends)
    return _CONTROL.format(
        name=package.name,
        machine=machine,
        kib=-(-size // 1024),
        depends=", ".join(need.format(**known) for need in package.depends),
        recommends=f"Recommends: {recommends}\n" if recommends else "",
        summary=package.summary,
        about=f" {package.about}",
        **known,
    )


def _machine() -> str:
    command = ["dpkg", "--print-architecture"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
