"""`python -m contrib.packaging.packages deb|rpm|wheelhouse`: see the package's own words."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from contrib.packaging.packages import deb, libraries, rpm
from contrib.packaging.packages.contents import PACKAGES, ROOT, Package, version
from contrib.packaging.packages.stage import stage

EXTRAS = ("pairs", "plots")


def main() -> int:
    """Build, and print what was made."""
    args = _options()
    os.environ.setdefault("SOURCE_DATE_EPOCH", _time_of_the_tree())
    os.umask(0o022)
    args.out.mkdir(parents=True, exist_ok=True)
    if "wheelhouse" in args.what:
        libraries.download(args.python, args.extras.split(","), args.out)
        print(f"{args.out}: {len([*args.out.glob('*.whl')])} wheels for Python {args.python}")
        return 0
    with TemporaryDirectory(prefix="dlqueue-") as work:
        for made in _built(args, Path(work)):
            print(f"{made} ({made.stat().st_size / 1024:.0f} KiB)")
    return 0


def _built(args: argparse.Namespace, work: Path) -> Iterator[Path]:
    trees = {}
    for name in args.only or PACKAGES:
        package, tree = PACKAGES[name], work / PACKAGES[name].name
        stage(package, tree, args.python, _libraries(args, package))
        trees[package.name] = (package, tree)
    if "rpm" in args.what:
        yield from rpm.build(trees, args.version, args.python, work, args.out)
    if "deb" in args.what:
        for package, tree in trees.values():
            yield deb.build(package, tree, args.version, args.python, args.out)


def _libraries(args: argparse.Namespace, package: Package) -> Path | None:
    if not package.locked:
        return None
    if args.libraries is not None:
        return Path(args.libraries) if package.program else None
    return libraries.install(package, args.python, ROOT / "build" / "libraries")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="contrib.packaging.packages", description=__doc__)
    parser.add_argument("what", nargs="+", choices=("deb", "rpm", "wheelhouse"))
    parser.add_argument("--only", nargs="+", choices=PACKAGES, help="these packages (all)")
    parser.add_argument("--python", default=_python_here(), help="for this Python (the system's)")
    parser.add_argument("--version", default=version(), help="of the packages (the tree's)")
    parser.add_argument("--extras", default=",".join(EXTRAS), help="that a wheelhouse has")
    parser.add_argument("--out", type=Path, help="where to (build/packages, build/wheelhouse)")
    parser.add_argument(
        "--libraries", type=Path, metavar="DIR", help="Python packages that are there already"
    )
    args = parser.parse_args()
    folder = "wheelhouse" if "wheelhouse" in args.what else "packages"
    args.out = (args.out or ROOT / "build" / folder).absolute()
    return args


def _python_here() -> str:
    """Version of the system's Python."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run(
        ["/usr/bin/python3", "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def _time_of_the_tree() -> str:
    """Seconds of the last commit: a tree that is built twice gives the same bytes."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "0"


if __name__ == "__main__":
    sys.exit(main())
