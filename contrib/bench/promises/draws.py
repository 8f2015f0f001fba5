"""Random trainings, and random surroundings for their runs: the same seed draws the same ones."""

from dataclasses import dataclass
from math import exp, log
from random import Random

TRAINING_S = 6.0  # of a run as written, about: long enough where it gets faster, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Other jobs on the node, and whether they can use this job's cores."""

    others: int  # busy processes
    constrained: bool  # each job has its cores to itself

    @property
    def name(self) -> str:
        """As the table names it."""
        beside = f"beside {self.others}" if self.others else "alone"
        return f"{beside}, {'constrained' if self.constrained else 'unconstrained'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A program as its user wrote it; costs are seconds for one sample, of a step for one batch."""

    cpus: int
    workers: int
    ranks: int
    batch: int
    load_cpu_s: float
    load_sleep_s: float
    step_wait_s: float
    step_products: int  # of matrices, on the CPU; 0: a stand-in for a GPU
    threads: int  # of torch; 0: as torch chooses
    validation: int  # samples behind each epoch
    samples: int
    epochs: int

    def arguments(self) -> list[str]:
        """The command line behind the program's name."""
        names = (
            "workers",
            "ranks",
            "batch",
            "load_cpu_s",
            "load_sleep_s",
            "step_wait_s",
            "step_products",
            "threads",
            "validation",
            "samples",
            "epochs",
        )
        return [f"--{name.replace('_', '-')}={getattr(self, name):.6g}" for name in names]


def surroundings(random: Random) -> Surroundings:
    """Alone, or beside one or three others that share its cores or do not."""
    return Surroundings(others=random.choice((0, 0, 1, 3)), constrained=random.random() < 0.5)


def training(random: Random, cores: int) -> Training:
    """A training of some seconds, bound by its loader, its step or neither."""
    batch, on_cpu = random.choice((4, 8, 16, 32)), random.random() < 0.3
    ranks = random.choice((1, 1, 1, 2))
    load_cpu_s = _between(random, 0.0005, 0.012)
    load_sleep_s = random.choice((0.0, 0.0, _between(random, 0.001, 0.02)))
    step_wait_s = 0.0 if on_cpu else _between(random, 0.005, 0.15)
    products = round(_between(random, 2, 60)) if on_cpu else 0
    a_batch_s = batch * (load_cpu_s + load_sleep_s) + step_wait_s + 0.002 * products
    batches = max(12, round(TRAINING_S / a_batch_s))
    epochs = random.choice((1, 2, 3))
    return Training(
        cpus=random.randint(1, cores),
        workers=random.choice((0, 0, 1, 2, 4)),
        ranks=ranks,
        batch=batch,
        load_cpu_s=load_cpu_s,
        load_sleep_s=load_sleep_s,
        step_wait_s=step_wait_s,
        step_products=products,
        threads=random.choice((0, 1, 2)) if on_cpu else 0,
        validation=random.choice((0, 0, 2 * batch)),
        samples=max(8, batches // epochs) * batch,
        epochs=epochs,
    )


def _between(random: Random, low: float, high: float) -> float:
    """As likely in each doubling."""
    return exp(random.uniform(log(low), log(high)))
