"""A program of the list: how it is started, what it needs, how it ends."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """One training program; `library` is the module that it imports, empty: torch alone."""

    name: str
    library: str = ""
    status: int = 0
    ranks: int = 1  # processes that torchrun starts
    races: bool = False  # two runs as written differ: they race, or nobody seeded their draws

    @property
    def argv(self) -> list[str]:
        """Arguments of the interpreter."""
        module, _, function = self.name.rpartition(".")
        target = ["-m", f"contrib.bench.foreign.programs.{module}", function]
        if self.ranks == 1:
            return target
        ranks = ["--nproc-per-node", str(self.ranks), "--standalone"]
        return ["-m", "torch.distributed.run", *ranks, *target]
