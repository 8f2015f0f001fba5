"""Lays the files of a package out below a folder, as they will lie below / of a machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path, PurePath

from contrib.packaging.packages.contents import PREFIX, Package, files_of

_PROGRAM = f"""\
#!/{PREFIX}/bin/python3 -I
import sys

from slurm_ext.cli import main

sys.exit(main())
"""
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/dlqueue",
    "zsh": "usr/share/zsh/vendor-completions/_dlqueue",
    "fish": "usr/share/fish/vendor_completions.d/dlqueue.fish",
}
_MANUAL = """\
import ast, contextlib, site, sys

for path in ast.literal_eval(sys.argv[1]):
    site.addsitedir(path)
from slurm_ext.cli import main

for shell, path in ast.literal_eval(sys.argv[2]).items():
    with open(path, "w") as file, contextlib.redirect_stdout(file):
        main(["completion", shell])
with contextlib.redirect_stdout(None):
    main(["man", "--output", sys.argv[3]])
"""


def stage(package: Package, tree: Path, python: str, libraries: Path | None) -> None:
    """Fill `tree`; `libraries` is a folder of Python packages for `python` (3.11)."""
    for path, target in files_of(package):
        _put(tree, target, path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)
    if libraries is not None:
        _put_libraries(libraries, tree / site_packages(python))
    if package.program:
        _put_program(tree, python)
        _put_manual(tree, python)


def site_packages(python: str) -> PurePath:
    """Folder of the environment's Python packages."""
    return PREFIX / "lib" / f"python{python}" / "site-packages"


def _put(tree: Path, target: PurePath, data: bytes, mode: int) -> None:
    path = tree / target
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def _put_libraries(libraries: Path, folder: Path) -> None:
    """All but bytecode, which is made on the machine, and programs, which name a folder here."""
    ignored = shutil.ignore_patterns("__pycache__", "bin")
    shutil.copytree(libraries, folder, ignore=ignored, dirs_exist_ok=True)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def _put_program(tree: Path, python: str) -> None:
    """A virtual environment is three files: no tool makes it, and no Python of that version."""
    said = f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n"
    _put(tree, PREFIX / "pyvenv.cfg", said.encode(), 0o644)
    _put(tree, site_packages(python) / "dlqueue.pth", f"/{PREFIX}/lib\n".encode(), 0o644)
    _put(tree, PREFIX / "bin" / "dlqueue", _PROGRAM.encode(), 0o755)
    for name in ("python3", "python"):
        (tree / PREFIX / "bin" / name).symlink_to(f"/usr/bin/python{python}")
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/dlqueue").symlink_to(f"/{PREFIX}/bin/dlqueue")


def _put_manual(tree: Path, python: str) -> None:
    """Manual pages and completion, printed by the staged command if there is such a Python here."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    program = sys.executable if here == python else f"/usr/bin/python{python}"
    if not Path(program).exists():
        print(f"no manual pages and completion: there is no {program}", file=sys.stderr)
        return
    pages, scripts = tree / "usr/share/man", {}
    for shell, target in _COMPLETIONS.items():
        scripts[shell] = str(tree / target)
        (tree / target).parent.mkdir(parents=True)
    paths = [str(tree / PREFIX / "lib"), str(tree / site_packages(python))]
    words = [repr(paths), repr(scripts), str(pages)]
    subprocess.run([program, "-B", "-c", _MANUAL, *words], check=True, timeout=300)
    for page in [*pages.glob("*.[15]")]:
        folder = pages / f"man{page.suffix[1:]}"
        folder.mkdir(exist_ok=True)
        page.rename(folder / page.name)
