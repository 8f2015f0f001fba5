"""Small CUDA programs, with MPS or without it, as the row of MPS sees them."""

import contextlib
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from contrib.bench.gpu.here import Here
from contrib.bench.gpu.report import AbsentError
from contrib.bench.gpu.talker import Talker

ANSWER_S = 30.0
_numbers = count()


class Client(Talker):
    """One program; `first` is what it said of its context."""

    def __init__(self, here: Here, env: Mapping[str, str] | None = None) -> None:
        said = f"{here.folder}/client-{next(_numbers)}"
        super().__init__(here.command("client"), here.environment(env), said)
        self.first: dict[str, Any] = {}

    @property
    def why(self) -> str:
        """The reason why it has no context; empty: it has one."""
        if self.first["ready"]:
            return ""
        failed = [f"{name} gave {code}" for name, code in self.first["codes"].items() if code]
        return self.first.get("why") or ", ".join(failed)

    def act(self, **told: Any) -> dict[str, int]:
        """Codes of the calls that it made for that; the last one is cuCtxSynchronize."""
        self.tell(**told)
        codes: dict[str, int] = self.hear(ANSWER_S)["codes"]
        return codes

    def works(self) -> bool:
        """True if the context is still of use."""
        return not any(self.act().values())


@contextlib.contextmanager
def client(here: Here, env: Mapping[str, str] | None = None) -> Iterator[Client]:
    """A client with its context. Raises AbsentError where it gets none."""
    with Client(here, env) as one:
        one.first = one.hear(ANSWER_S)
        if one.why:
            raise AbsentError(one.why)
        yield one
