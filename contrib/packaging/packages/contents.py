"""The three packages as data: what each is, needs and contains."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

ROOT = Path(__file__).parents[3]
PREFIX = PurePath("opt/dlqueue")
UNITS = PurePath("usr/lib/systemd/system")
_ROOMS_OF_THE_NODE = ("node", "probe", "__init__.py")
_PAGES = ("README.md", "INSTALL.md", "CHANGELOG.md", "SECURITY.md")
_OF_THE_ADMIN = ("site_config/grafana", "site_config/prometheus", "contrib/ondemand")
_UNITS_IN_THE_TREE = PurePath("site_config/systemd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One package. `{python}` stands for the version of Python that it is built for: 3.11."""

    name: str
    summary: str
    about: str
    depends: tuple[str, ...]  # deb
    recommends: tuple[str, ...] = ()
    requires: tuple[str, ...]  # rpm
    locked: tuple[str, ...] = ()  # requirement files of its Python packages
    program: bool = False  # brings an interpreter's environment, and the command

    @property
    def any_machine(self) -> bool:
        """True if the package is the same for every processor and Python."""
        return not self.locked


NODE = Package(
    name="dlqueue-node",
    summary="hooks and probe that measure deep-learning jobs on a Slurm node",
    about="Prolog, task prolog, sampler, epilog and the probe for PyTorch's data loaders. They "
    "need nothing but the standard library of Python 3.9 or newer, and do nothing until slurm.conf "
    "names them (dlqueue install hooks, on the controller).",
    depends=("python3 (>= 3.9)",),
    requires=(
        "(python3 >= 3.9 or python39 or python3.11 or python3.12)",
        "coreutils",
        "util-linux",
    ),
)
ADVISOR = Package(
    name="dlqueue-advisor",
    summary="right-sizes deep-learning jobs on Slurm from what earlier jobs measured",
    about="The command, the advisor that slurmctld asks, the control loops and their systemd "
    "units, with a Python environment of their own in /opt/dlqueue. Nothing is started and no file "
    "of Slurm is changed: dlqueue install does that, and shows it before.",
    depends=("dlqueue-node (= {version})", "python{python}", "libc6 (>= 2.28)", "libstdc++6"),
    recommends=("slurmctld", "slurm-wlm-basic-plugins", "munge", "lua-socket", "lua5.1"),
    requires=("dlqueue-node = {version}", "python(abi) = {python}", "libstdc++"),
    locked=("locked.txt", "locked-pairs.txt"),
    program=True,
)
ADMIN = Package(
    name="dlqueue-admin",
    summary="dlqueue's pages with plots, dashboards and alerts",
    about="What dlqueue report and other commands need to draw pages (matplotlib), a dashboard for "
    "Grafana, rules for Prometheus, and an app for Open OnDemand.",
    depends=("dlqueue-advisor (= {version})",),
    requires=("dlqueue-advisor = {version}",),
    locked=("locked-plots.txt",),
)
PACKAGES = {package.name.removeprefix("dlqueue-"): package for package in (NODE, ADVISOR, ADMIN)}


def version() -> str:
    """Version of the tree."""
    return str(_pyproject()["project"]["version"])


def files_of(package: Package) -> Iterator[tuple[Path, PurePath]]:
    """Each file of ours in the package: where it is now, and where it will lie below /."""
    for path, target in _sources():
        if _owner(PurePath(path.relative_to(ROOT))) is package:
            yield path, target
    documents = PurePath("usr/share/doc", package.name)
    yield ROOT / "LICENSE", documents / "copyright"
    yield from ((ROOT / name, documents / name) for name in _PAGES if package is ADVISOR)


def _sources() -> Iterator[tuple[Path, PurePath]]:
    for path in sorted((ROOT / "slurm_ext").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path, PREFIX / "lib" / path.relative_to(ROOT)
    for folder, patterns in _pyproject()["tool"]["setuptools"]["data-files"].items():
        for pattern in patterns:
            for path in sorted(ROOT.glob(pattern)):
                inside = PurePath(path.relative_to(ROOT))
                units = inside.parent == _UNITS_IN_THE_TREE
                yield path, (UNITS if units else PREFIX / folder) / path.name


def _owner(inside: PurePath) -> Package:
    """The package of a file, by its path in the tree."""
    if inside.parts[0] == "slurm_ext":
        return NODE if inside.parts[1] in _ROOMS_OF_THE_NODE else ADVISOR
    return ADMIN if str(inside).startswith(_OF_THE_ADMIN) else ADVISOR


def units() -> list[str]:
    """Names of the systemd units."""
    return sorted(path.name for path in (ROOT / _UNITS_IN_THE_TREE).glob("*.service"))


def _pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
