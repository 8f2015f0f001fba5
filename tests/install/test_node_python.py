"""EL8's python3 is 3.6: hooks end well with it, and it is told before a job finds out."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.render import NODE_PROGRAM, render_folder
from slurm_ext.install.node_python import OLDEST, version_of, warnings

OLD = """\
#!/bin/sh
exec {python} -c '
import runpy, sys
sys.version_info = (3, 6, 8)
sys.argv = [word for word in sys.argv[1:] if word not in ("-I", "-S")]
if sys.argv[0] == "-c":
    exec(sys.argv[1])
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
' "$@"
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """An interpreter that says it is of 3.6."""
    path = tmp_path / "python3"
    path.write_text(OLD.format(python=sys.executable))
    path.chmod(0o755)
    return path


def test_the_first_file_of_the_hooks_is_read_by_any_python() -> None:
    """It looks at the version before another file of ours is read."""
    text = NODE_PROGRAM.read_text()
    ast.parse(text, feature_version=(3, 6))
    assert text.index(f"sys.version_info < {OLDEST}") < text.index("slurm_ext.node")


@pytest.mark.parametrize("hook", ["prolog", "task_prolog", "epilog"])
def test_a_hook_ends_well_with_an_old_python(tmp_path: Path, old: Path, hook: str) -> None:
    """It prints nothing that a task prolog would hand on, and leaves no file behind."""
    spool = tmp_path / "spool"
    settings = Settings("x", {"node.python": str(old), "node.spool_dir": str(spool)})
    for name, text, mode in render_folder(settings, tmp_path / "etc"):
        path = tmp_path / "etc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
    run = [str(old), "-I", "-S", str(NODE_PROGRAM), hook, str(tmp_path / "etc" / "node.json")]
    assert subprocess.run(run).returncode == 3
    launched = subprocess.run([tmp_path / "etc" / "hooks" / hook], env={}, capture_output=True)
    assert (launched.returncode, launched.stdout) == (0, b"")
    assert not spool.exists()


def test_an_old_python_is_told_when_hooks_are_installed(old: Path) -> None:
    """By its version; one that is absent, too, and one that will do is not."""
    assert version_of(str(old)) == (3, 6)
    (told,) = warnings(Settings("x", {"node.python": str(old)}))
    assert f"{old} is Python 3.6 here, too old for the hooks" in told
    (told,) = warnings(Settings("x", {"node.python": "/nowhere/python3"}))
    assert "/nowhere/python3 does not run here" in told
    assert list(warnings(Settings("x", {"node.python": sys.executable}))) == []
