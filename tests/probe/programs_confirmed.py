"""Two ranks that ask for something else once their modules are constructed with other buckets.

`python -m tests.probe.programs_confirmed FILE`, with torchrun's variables. Rank 0 writes to FILE,
for each scenario, the losses and buckets of both ranks, and of the same one without dlqueue.
"""

# ruff: noqa: D103 - written as jobs are, each named by what it does

import copy
import json
import pickle
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed

from slurm_ext.probe.buckets import construction, first_pass
from slurm_ext.probe.buckets.agreement import Agreement, store_of
from slurm_ext.probe.buckets.construction import Constructions, signature_of
from slurm_ext.probe.buckets.request import BucketRequest
from slurm_ext.probe.stalls.gradient_sync import watch

DDP: Any = torch.nn.parallel.DistributedDataParallel
WIDTH, LAYERS, STEPS, WAIT_S = 64, 6, 5, 3.0  # 16 KiB a layer
CAPS = "16,32x2,999"
AGREEMENT = Agreement(WAIT_S)
Made = Callable[..., Any]
MADE: Any = weakref.WeakKeyDictionary()


def model() -> Any:
    torch.manual_seed(0)
    linear: Any = torch.nn.Linear
    layers = [
        part for _ in range(LAYERS) for part in (linear(WIDTH, WIDTH, False), torch.nn.Tanh())
    ]
    return torch.nn.Sequential(*layers)


def bucketed() -> Any:
    """DistributedDataParallel as the probe has it, where a submission asks for CAPS."""

    class Bucketed(DDP):  # type: ignore[misc] # torch's own is not typed
        pass

    request = BucketRequest({"DLQUEUE_BUCKETS": f"{signature_of(model())}:2:{CAPS}"})
    watch(Bucketed, MADE.__setitem__, Constructions(request, AGREEMENT))
    return Bucketed


def rounded(_: Any, bucket: Any) -> Any:
    """A hook whose sums depend on what lies in one bucket: 8 bits, of its largest value."""
    largest = bucket.buffer().abs().max()
    torch.distributed.all_reduce(largest, torch.distributed.ReduceOp.MAX)
    coarse = (bucket.buffer() / largest * 127).round() * largest / 127
    work: Any = torch.distributed.all_reduce(coarse, async_op=True)
    return work.get_future().then(lambda done: done.value()[0] / 2)


def plain(_: Any, bucket: Any) -> Any:
    """A hook that does what torch does without one."""
    work: Any = torch.distributed.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda done: done.value()[0] / 2)


# torch compares annotations with its classes.
rounded.__annotations__.clear()
plain.__annotations__.clear()


def untouched(made: Made, rank: int) -> Any:
    return made(model())


def hook(made: Made, rank: int) -> Any:
    module = made(model())
    module.register_comm_hook(None, rounded)
    return module


def hook_on_views(made: Made, rank: int) -> Any:
    module = made(model(), gradient_as_bucket_view=True, static_graph=True)
    module.register_comm_hook(None, rounded)
    return module


def builtin_hook(made: Made, rank: int) -> Any:
    module = made(model())
    distributed: Any = torch.distributed
    module._register_builtin_comm_hook(distributed.BuiltinCommHookType.FP16_COMPRESS)
    return module


def power_sgd(made: Made, rank: int) -> Any:
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    module = made(model())
    state = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2)
    module.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return module


def hook_of_one_rank(made: Made, rank: int) -> Any:
    module = made(model())
    if rank == 1:
        module.register_comm_hook(None, plain)
    return module


def deterministic(made: Made, rank: int) -> Any:
    module = made(model())
    torch.use_deterministic_algorithms(True)
    return module


def deterministic_in_one_rank(made: Made, rank: int) -> Any:
    module = made(model())
    torch.backends.cudnn.deterministic = rank == 1
    return module


class Failing:
    """A store that works for so many calls, and then no more, or not for some time."""

    def __init__(self, store: Any, calls: int, fails: int = 1 << 30) -> None:
        self._store, self._calls, self._fails = store, calls, fails

    def __getattr__(self, name: str) -> Any:
        self._calls -= 1
        if -self._fails <= self._calls < 0:
            raise torch.distributed.DistNetworkError("the connection is gone")
        return getattr(self._store, name)


def failing(made: Made, rank: int, where: Any, calls: int, fails: int = 1 << 30) -> Any:
    """A module of which rank 1's store fails after so many calls of an agreement, in `where`."""

    def broken(group: Any) -> Any:
        store, name = store_of(group)
        return Failing(store, calls, fails), name

    where.store_of = broken if rank == 1 else store_of
    return made(model())


def store_fails_before_the_vote(made: Made, rank: int) -> Any:
    return failing(made, rank, construction, 1)


def store_fails_at_the_vote(made: Made, rank: int) -> Any:
    return failing(made, rank, construction, 2)


def store_fails_after_the_vote(made: Made, rank: int) -> Any:
    return failing(made, rank, construction, 3)


def store_fails_before_the_second_vote(made: Made, rank: int) -> Any:
    return failing(made, rank, first_pass, 0)


def store_fails_for_a_while(made: Made, rank: int) -> Any:
    return failing(made, rank, construction, 2, 2)


def store_fails_after_the_second_vote(made: Made, rank: int) -> Any:
    return failing(made, rank, first_pass, 2)


def tried_without_gradients(made: Made, rank: int) -> Any:
    module = made(model())
    if rank == 0:
        with torch.no_grad():
            module(torch.ones(1, WIDTH))
    return module


def a_copy(made: Made, rank: int) -> Any:
    module = made(model())
    copy.deepcopy(module)
    pickle.loads(pickle.dumps({**module.__dict__["_forward_pre_hooks"]}))
    return module


def compiled_with_a_hook(made: Made, rank: int) -> Any:
    module = made(model())
    module.register_comm_hook(None, rounded)
    return torch.compile(module, backend="eager")


def accumulating(made: Made, rank: int) -> Any:
    module = made(model())
    module.register_comm_hook(None, rounded)
    with module.no_sync():
        module(torch.ones(1, WIDTH)).square().mean().backward()
    return module


def joining(made: Made, rank: int) -> Any:
    module = made(model())
    with module.join():
        for _ in range(2 * (1 - rank)):
            module(torch.ones(1, WIDTH)).square().mean().backward()
    return module


SCENARIOS: tuple[Callable[[Made, int], Any], ...] = (
    untouched,
    hook,
    hook_on_views,
    builtin_hook,
    power_sgd,
    hook_of_one_rank,
    deterministic,
    deterministic_in_one_rank,
    store_fails_before_the_vote,
    store_fails_at_the_vote,
    store_fails_after_the_vote,
    store_fails_before_the_second_vote,
    store_fails_after_the_second_vote,
    store_fails_for_a_while,
    tried_without_gradients,
    a_copy,
    compiled_with_a_hook,
    accumulating,
    joining,
)


def losses(module: Any, rank: int) -> list[str]:
    """Bit by bit, of each step."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    data = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(rank))
    found = []
    for _ in range(STEPS):
        loss = (module(data) - data.roll(1, 1).tanh()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item().hex())
    return found


def played(scenario: Callable[[Made, int], Any], kind: Any, rank: int) -> dict[str, Any]:
    torch.manual_seed(1)
    torch.distributed.barrier()
    module = scenario(kind, rank)
    found: dict[str, Any] = {"losses": losses(module, rank)}
    said = module._get_ddp_logging_data()
    sizes = said.get("rebuilt_bucket_sizes") or said["bucket_sizes"]
    found["buckets"] = [int(size) >> 10 for size in sizes.split(", ")]
    found["made"] = (made := MADE.get(getattr(module, "_orig_mod", module))) and made.row()
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False
    for where in (construction, first_pass):
        setattr(where, "store_of", store_of)  # noqa: B010 - mypy: they import it
    return found


def main() -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    torch._dynamo.config.optimize_ddp = False
    told: dict[str, Any] = {}
    for scenario in SCENARIOS:
        ours = played(scenario, bucketed(), rank)
        own = played(scenario, DDP, rank)
        both: list[Any] = [None, None]
        torch.distributed.all_gather_object(both, {"ours": ours, "own": own})
        told[scenario.__name__] = both
    if rank == 0:
        Path(sys.argv[1]).write_text(json.dumps(told), encoding="ascii")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
