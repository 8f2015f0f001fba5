"""Scripts of a package, for dpkg and for rpm: what comes first, and which of its functions runs."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

from contrib.packaging.packages.contents import PREFIX, Package, units

_HERE = Path(__file__).with_name("scripts")
# dpkg's own words: deb-postinst(5) and its like.
_DEB = {
    "preinst": '[ "$1" = upgrade ] || installing',
    "postinst": '[ "$1" != configure ] || installed "${2-}"',
    "prerm": "case $1 in remove) leaving ;; upgrade) clean ;; esac",
    "postrm": '[ "$1" != purge ] || purged',
}
# rpm says how many of the package there will be.
_RPM = {
    "pre": '[ "$1" -gt 1 ] || installing',
    "post": 'if [ "$1" -gt 1 ]; then installed upgrade; else installed; fi',
    "preun": '[ "$1" -gt 0 ] || leaving',
}


def deb_scripts(package: Package, tree: Path) -> Mapping[str, str]:
    """Name of each of dpkg's maintainer scripts → its text."""
    return {name: _script(package, tree, last) for name, last in _DEB.items()}


def rpm_scripts(package: Package, tree: Path) -> Mapping[str, str]:
    """Name of each of rpm's scriptlets → its text."""
    return {name: _script(package, tree, last) for name, last in _RPM.items()}


def _script(package: Package, tree: Path, last: str) -> str:
    common, own = (
        (_HERE / f"{name}.sh").read_text(encoding="utf-8") for name in ("common", package.name)
    )
    folders = " ".join(f"/{folder}" for folder in _python_folders(tree))
    head = f'NAME={package.name}\nUNITS="{" ".join(units())}"\nFOLDERS="{folders}"\n'
    return f"#!/bin/sh\nset -e\n{head}{common}\n{own}\n{last}\n"


def _python_folders(tree: Path) -> Iterator[PurePath]:
    """Folders of the package's modules, and those where bytecode of lone modules comes to lie."""
    lib = tree / PREFIX / "lib"
    for parent in (lib / "slurm_ext", *lib.glob("python*/site-packages")):
        yield PurePath(parent.relative_to(tree)) / "__pycache__"
        for child in sorted(path for path in parent.glob("*") if path.is_dir()):
            if next(child.rglob("*.py"), None):
                yield PurePath(child.relative_to(tree))
