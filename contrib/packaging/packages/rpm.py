"""Wraps staged trees up as rpms, with rpmbuild."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from contrib.packaging.packages.contents import Package
from contrib.packaging.packages.scripts_of import rpm_scripts

# Nothing is compiled, stripped or looked through here: the trees are what is to be installed.
_HEAD = """\
%global debug_package %{{nil}}
%global _build_id_links none
%global __os_install_post %{{nil}}
%global __brp_mangle_shebangs %{{nil}}
Name: dlqueue
Version: {version}
Release: 1
Summary: Right-sizes deep-learning jobs on Slurm
License: MIT
%description
%install
cp -a {trees}/. %{{buildroot}}/
"""
_PART = """
%package -n {name}
Summary: {summary}
AutoReqProv: no
{machine}{requires}
%description -n {name}
{about}
{scripts}%files -n {name} -f {files}
"""


def build(
    trees: Mapping[str, tuple[Package, Path]], version: str, python: str, work: Path, out: Path
) -> Iterator[Path]:
    """Write the rpms into `out`; `trees` are the packages and their staged trees, by name."""
    merged = work / "merged"
    parts = []
    for package, tree in trees.values():
        shutil.copytree(tree, merged, symlinks=True, dirs_exist_ok=True)
        parts.append(_part(package, tree, work, {"version": version, "python": python}))
    spec = work / "dlqueue.spec"
    spec.write_text(_HEAD.format(version=version, trees=merged) + "".join(parts), encoding="utf-8")
    where = {
        "_topdir": work / "rpmbuild",
        "_rpmdir": out,
        "_rpmfilename": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
    }
    defines = [word for name, value in where.items() for word in ("--define", f"{name} {value}")]
    subprocess.run(["rpmbuild", "--quiet", "-bb", *defines, str(spec)], check=True)
    yield from (next(out.glob(f"{name}-{version}-1.*.rpm")) for name in trees)


def _part(package: Package, tree: Path, work: Path, known: dict[str, str]) -> str:
    files = work / f"{package.name}.files"
    files.write_text("".join(f"{line}\n" for line in _files(tree)), encoding="utf-8")
    scripts = []
    for name, text in rpm_scripts(package, tree).items():
        (work / f"{package.name}.{name}").write_text(text, encoding="utf-8")
        scripts.append(f"%{name} -n {package.name} -f {work / f'{package.name}.{name}'}\n")
    return _PART.format(
        name=package.name,
        summary=package.summary,
        about=package.about,
        machine="BuildArch: noarch\n" if package.any_machine else "",
        requires="".join(f"Requires: {need.format(**known)}\n" for need in package.requires),
        scripts="".join(scripts),
        files=files,
    )


def _files(tree: Path) -> Iterator[str]:
    """Every file; of folders those of dlqueue's own: /usr/bin and its like are the system's."""
    for path in sorted(tree.rglob("*")):
        inside = path.relative_to(tree)
        if path.is_symlink() or not path.is_dir():
            yield f'%attr(-, root, root) "/{inside}"'
        elif "dlqueue" in str(inside):
            yield f'%dir %attr(-, root, root) "/{inside}"'
