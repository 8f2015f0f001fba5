"""What a site installs is whole."""

import zipfile
from pathlib import Path

from tests.wheel import build, sources


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    """Lua, templates and the probe's site folder travel with the Python files; tests do not."""
    names = zipfile.ZipFile(build(tmp_path)).namelist()
    assert set(sources("slurm_ext")) <= set(names)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"slurm_ext", "dlqueue"}
