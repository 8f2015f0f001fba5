"""Two ranks that construct modules in turn, each with a request of the submission of its own.

`python -m tests.probe.programs_bucketed FILE`, with torchrun's variables: first they train under
the probe, with the environment's request. Then rank 0 writes to FILE, for each construction, what
both ranks did with their request, their buckets and their gradients.
"""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed

from slurm_ext.probe.buckets.agreement import Agreement
from slurm_ext.probe.buckets.construction import Constructions, signature_of
from slurm_ext.probe.buckets.request import BucketRequest

DDP: Any = torch.nn.parallel.DistributedDataParallel
WIDTH, LAYERS, PROBED_LAYERS, WAIT_S = 64, 6, 8, 2.0  # 16 KiB a layer
Options = dict[str, Any]


class Subclass(DDP):  # type: ignore[misc] # torch's own is not typed
    def __init__(self, module: Any) -> None:
        super().__init__(module, find_unused_parameters=False)


def model(layers: int = LAYERS) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)])


def requested(caps: str, *, ranks: int = 2, layers: int = LAYERS) -> BucketRequest:
    return BucketRequest({"DLQUEUE_BUCKETS": f"{signature_of(model(layers))}:{ranks}:{caps}"})


AGREEMENT = Agreement(WAIT_S)


def construct(request: BucketRequest, kind: Any = DDP, **options: Any) -> tuple[Any, Any]:
    """As the probe does it, but for what it hears from the environment."""
    constructions = Constructions(request, AGREEMENT)
    original, seen = DDP.__init__, []

    def init(self: Any, *args: Any, **given: Any) -> None:
        args, given, made = constructions.arranged(original, (self, *args), given)
        seen.append(made)
        original(*args, **given)

    DDP.__init__ = init
    try:
        module = kind(options.pop("module", None) or model(), **options)
    finally:
        DDP.__init__ = original
    return module, seen[0]


def stepped(module: Any, rank: int) -> list[int]:
    """Three steps; the bytes of the buckets that are in use then."""
    for step in range(3):
        torch.manual_seed(10 * step + rank)
        module(torch.randn(4, WIDTH)).square().sum().backward()
    data = module._get_ddp_logging_data()
    return [int(size) for size in str(data.get("rebuilt_bucket_sizes") or "").split(", ") if size]


def same(rank: int) -> Any:
    return construct(requested("16,32x2,999"))


def one_cap(rank: int) -> Any:
    return construct(requested("32"))


def subclass(rank: int) -> Any:
    return construct(requested("16,32x2,999"), Subclass)


def user_cap(rank: int) -> Any:
    return construct(requested("16,32"), bucket_cap_mb=25)


def unset_by_name(rank: int) -> Any:
    return construct(requested("32"), bucket_cap_mb=None)


def other_caps_in_rank_1(rank: int) -> Any:
    return construct(requested("16,32" if rank == 0 else "32,16"))


def user_cap_in_rank_1(rank: int) -> Any:
    return construct(requested("16,32"), **({"bucket_cap_mb": 25} if rank == 1 else {}))


def not_asked_in_rank_1(rank: int) -> Any:
    return construct(requested("16,32") if rank == 0 else BucketRequest({}))


def late_rank_1(rank: int) -> Any:
    time.sleep(0.2 * rank)
    return construct(requested("16,32x2,999"))


def other_model(rank: int) -> Any:
    return construct(requested("16,32"), module=model(LAYERS - 1))


def other_ranks(rank: int) -> Any:
    return construct(requested("16,32", ranks=4))


def deterministic(rank: int) -> Any:
    torch.use_deterministic_algorithms(True)
    try:
        return construct(requested("16,32"))
    finally:
        torch.use_deterministic_algorithms(False)


def unused(rank: int) -> Any:
    return construct(requested("16,32"), find_unused_parameters=True)


def delayed(rank: int) -> Any:
    module = model()
    names = [next(module.named_parameters())]
    hook = [*module.parameters()][1]
    return construct(
        requested("16,32"),
        module=module,
        delay_all_reduce_named_params=names,
        param_to_hook_all_reduce=hook,
    )


def in_a_group(rank: int) -> Any:
    return construct(requested("16,32x2,999"), process_group=torch.distributed.new_group([0, 1]))


SCENARIOS: tuple[Callable[[int], Any], ...] = (
    same,
    one_cap,
    subclass,
    user_cap,
    unset_by_name,
    other_caps_in_rank_1,
    user_cap_in_rank_1,
    late_rank_1,
    other_model,
    other_ranks,
    deterministic,
    unused,
    delayed,
    in_a_group,
    not_asked_in_rank_1,  # last: the ranks' constructions have other numbers from here on
)


def trained() -> None:
    """A dozen steps of a module that the probe's own wrapper constructs."""
    module = DDP(model(PROBED_LAYERS), process_group=torch.distributed.new_group([0, 1]))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.001)
    for _ in range(12):
        module(torch.randn(4, WIDTH)).square().sum().backward()
        optimizer.step()


def played(scenario: Callable[[int], Any], rank: int) -> Options:
    module, made = scenario(rank)
    return {
        "caps": made and made.caps,
        "left_alone": made and made.left_alone,
        "buckets": stepped(module, rank) if scenario is not delayed else [],
        "gradients": [p.grad.tolist() for p in module.parameters() if p.grad is not None][:1],
    }


def main() -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    trained()
    DDP.__init__ = DDP.__init__.__wrapped__
    told: Options = {}
    for scenario in SCENARIOS:
        both: list[Any] = [None, None]
        torch.distributed.all_gather_object(both, played(scenario, rank))
        told[scenario.__name__] = both
    if rank == 0:
        Path(sys.argv[1]).write_text(json.dumps(told), encoding="ascii")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
