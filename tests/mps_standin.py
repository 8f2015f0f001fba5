"""Puts the stand-in for NVIDIA's MPS (`tests/mps_program.py`) in place, and plays CUDA programs."""

import json
import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mps_program import CONTROL, SERVER, SMI, conduct

PROGRAM = Path(__file__).with_name("mps_program.py")


def install(folder: Path, cards: Sequence[str] = ()) -> Path:
    """Write the three programs into `folder`; where the control program is.

    `cards` are nvidia-smi's lines by index: "UUID, MiB, MIG mode, compute mode".
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (CONTROL, SERVER, SMI):
        with (folder / name).open("w", encoding="utf-8") as file, PROGRAM.open() as source:
            file.write("#!/usr/bin/python3 -IS\n")
            shutil.copyfileobj(source, file)
        (folder / name).chmod(0o755)
    misbehave(folder, cards=list(cards))
    return folder / CONTROL


def misbehave(folder: Path, **faults: Any) -> None:
    """Change what the programs in `folder` do from now on."""
    known = {**conduct(str(folder)), **faults}
    new = folder / "standin.new"
    new.write_text(json.dumps(known))
    new.rename(folder / "standin.json")


class Client:
    """A process that uses the GPU through MPS, as far as the daemon sees it."""

    def __init__(self, pipe: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(f"{pipe}/control")
        self.socket.sendall(b"client %d\n" % os.getpid())
        self.answer = self.socket.recv(64).decode().strip()

    def fault(self) -> None:
        """A kernel of this client reads where it must not: its server ends, for all."""
        self.socket.sendall(b"fault\n")
        self.socket.recv(64)

    def close(self) -> None:
        """The program ends."""
        self.socket.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
