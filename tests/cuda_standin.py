"""A C library in libcuda's place, built for a test; it knows the stand-in of MPS."""

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "node" / "mps" / "libcuda.c"


def install(folder: Path) -> dict[str, str]:
    """Build it into `folder`; the environment of a process that is to find it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in of libcuda")
    library = folder / "libcuda.so.1"
    named = "-Wl,-soname,libcuda.so.1"
    command = [compiler, "-shared", "-fPIC", named, "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True)
    return {"LD_LIBRARY_PATH": str(folder)}
