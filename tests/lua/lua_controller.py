"""dlqueue.lua as slurmctld holds it, in a real interpreter: what a test submits to."""

from pathlib import Path
from typing import Any

from slurm_ext.core.settings.document import Settings
from tests.fake_advisor import (
    DECISION,
    cpus,
    reply,
)
from tests.lua.lua_process import Expression, Lua, install, literal

AS_WRITTEN = {b"cpus_per_task": 65534, b"min_cpus": 1, b"pn_min_cpus": 65534}
CHANGE = reply(cpus(4, DLQUEUE_DECISION=DECISION), "dlqueue: cpus-per-task 1 -> 4")


class Controller:
    """dlqueue.lua as one slurmctld would hold it, with its folder, socket and kill file."""

    def __init__(self, lua: Lua, folder: Path, **advisor: int) -> None:
        self.lua, self.socket, self.kill_file = lua, folder / "s", folder / "off"
        values: dict[str, Any] = {f"advisor.{key}": value for key, value in advisor.items()}
        values |= {"paths.socket": str(self.socket), "paths.kill_file": str(self.kill_file)}
        install(folder, Settings(values=values))
        lua.run("dlqueue = dofile(...)", str(folder / "dlqueue.lua").encode())

    def submit(
        self,
        fields: dict[str, Any] | None = None,
        env: dict[str, Any] | None = None,
        partitions: dict[str, Any] | None = None,
    ) -> dict[bytes, Any]:
        """One submission: `answer`, and the `job`, `env`, `said` and `logged` that it left."""
        given: tuple[Any, ...] = (fields or {}, {} if env is None else env, {}, partitions or {})
        result: dict[bytes, Any] = self.lua.run(f"return submit({', '.join(map(literal, given))})")
        return result


def as_written(result: dict[bytes, Any]) -> bool:
    """Whether the job went through untouched and its user saw nothing."""
    unchanged = {name: result[b"job"][name] for name in AS_WRITTEN} == AS_WRITTEN
    return result[b"answer"] == 0 and unchanged and not result[b"env"] and not result[b"said"]


def giant(byte: int) -> Expression:
    """4 MB of one byte."""
    return Expression(f'("\\{byte:03d}"):rep(4000000)')
