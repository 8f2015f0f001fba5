"""A long-lived Lua interpreter that is asked by lines of code."""

import ast
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.render import render_lua_folder

DRIVER = Path(__file__).parent / "driver.lua"


class Lua:
    """A running interpreter; `run` sends a chunk and gives what it returned, strings as bytes."""

    def __init__(self, interpreter: str, user: int | None = None) -> None:
        with DRIVER.open("rb") as driver:  # handed over open: `user` may not see the folder
            self._process = subprocess.Popen(
                [interpreter, f"/dev/fd/{driver.fileno()}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                user=user,
                pass_fds=[driver.fileno()],
            )

    def run(self, chunk: str, *arguments: bytes) -> Any:
        """The chunk's return value; `...` in it are `arguments`. Raises LuaError."""
        line = b" ".join(text.hex().encode() or b"-" for text in (chunk.encode(), *arguments))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()
        ran, value = ast.literal_eval(self._process.stdout.readline().decode())
        if not ran:
            raise LuaError(value.decode("latin-1"))
        return value

    def close(self) -> None:
        """Ends the interpreter."""
        self._process.communicate(timeout=10)


@dataclass(frozen=True)
class Expression:
    """A value that is better made in Lua than written out."""

    code: str


def literal(value: Any) -> str:
    """A Lua literal of a Python value; None is nil."""
    if isinstance(value, Expression):
        return value.code
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, str | bytes):
        raw = value if isinstance(value, bytes) else value.encode()
        return '"' + "".join(f"\\{byte:03d}" for byte in raw) + '"'
    if isinstance(value, dict):
        return "{" + ",".join(f"[{literal(k)}]={literal(v)}" for k, v in value.items()) + "}"
    return repr(value)


class LuaError(Exception):
    """The chunk raised."""


def install(folder: Path, settings: Settings) -> None:
    """Writes what the controller's folder holds."""
    for name, text in render_lua_folder(settings, folder).items():
        (folder / name).write_text(text)
