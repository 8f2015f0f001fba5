"""Buckets of DistributedDataParallel by the submission's word: two real ranks over gloo."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed

from slurm_ext.node.record.field_checks import known_summary
from slurm_ext.probe.buckets.agreement import Agreement
from slurm_ext.probe.buckets.construction import Constructions, signature_of
from slurm_ext.probe.buckets.ready_times import MOST_GROUPS, PASSES, ReadyTimes
from slurm_ext.probe.buckets.request import BucketRequest
from tests.probe.conftest import Environment
from tests.probe.programs_bucketed import PROBED_LAYERS, model
from tests.probe.several_ranks import ran_ranks

KIB = 1024
Told = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, environment: Environment) -> Path:
    """The folder of one run of programs_bucketed.py: its run folder, and what it told."""
    path = tmp_path_factory.mktemp("bucketed")
    request = f"{signature_of(model(PROBED_LAYERS))}:2:16,32,64"
    env = environment(path / "run", DLQUEUE_BUCKETS=request)
    ran_ranks("tests.probe.programs_bucketed", path / "told", env)
    return path


@pytest.fixture(scope="module")
def told(folder: Path) -> Told:
    """What both ranks did in each scenario."""
    found: Told = json.loads((folder / "told").read_text(encoding="ascii"))
    return found


@pytest.mark.parametrize("name", ["same", "subclass", "in_a_group", "late_rank_1"])
def test_ranks_that_agree_get_the_list(told: Told, name: str) -> None:
    """Whichever way the module is constructed; torch's buckets close where the list says."""
    for rank in told[name]:
        assert rank["caps"] == "16,32x2,999"
        assert rank["buckets"] == [16 * KIB, 32 * KIB, 32 * KIB, 16 * KIB]


@pytest.mark.parametrize("name", ["one_cap", "unset_by_name"])
def test_one_cap_is_that_of_every_bucket(told: Told, name: str) -> None:
    """The first one's, too; a None that is given by name is not the user's choice."""
    assert [rank["buckets"] for rank in told[name]] == [[32 * KIB] * 3] * 2


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("user_cap", "the program sets its own bucket size"),
        ("other_model", ""),
        ("other_ranks", ""),
        ("deterministic", "its results must be the same bit for bit"),
        ("unused", "it has find_unused_parameters"),
        ("delayed", "it has delay_all_reduce_named_params"),
        ("other_caps_in_rank_1", "its ranks do not agree on buckets"),
    ],
)
def test_what_must_be_left_alone_is(told: Told, name: str, why: str) -> None:
    """In both ranks, which say why; another model than the one that is meant is no fault."""
    assert [(rank["caps"], rank["left_alone"]) for rank in told[name]] == [("", why)] * 2


@pytest.mark.parametrize(
    "name", ["user_cap", "other_caps_in_rank_1", "user_cap_in_rank_1", "not_asked_in_rank_1"]
)
def test_if_one_rank_does_not_agree_no_rank_changes(told: Told, name: str) -> None:
    """Both have torch's own buckets, whoever it was that had another word, or none."""
    assert [rank["buckets"] for rank in told[name]] == [[96 * KIB]] * 2
    assert not any(rank["caps"] for rank in told[name])


def test_two_ranks_add_up_the_same_bits(told: Told) -> None:
    """Whatever the buckets: a + b is b + a."""
    alike = [ranks for name, ranks in told.items() if name not in ("other_model", "delayed")]
    gradients = [rank["gradients"] for ranks in alike for rank in ranks]
    assert len(gradients) > 20
    assert all(one == gradients[0] for one in gradients)


def test_the_summary_tells_buckets_and_ready_times(folder: Path) -> None:
    """By the probe in the job's own processes; rank 0 alone tells when gradients are ready."""
    paths = (folder / "run").glob("summary-*.json")
    summaries = [json.loads(path.read_text(encoding="ascii")) for path in paths]
    summaries.sort(key=lambda summary: int(summary["rank"]))
    said = [summary["communication"] for summary in summaries]
    assert [one["bucket_bytes"] for one in said] == [[16 * KIB, 32 * KIB, 64 * KIB, 16 * KIB]] * 2
    assert [one["buckets"]["caps"] for one in said] == ["16,32,64"] * 2
    assert said[0]["buckets"]["ready_bytes"] == [16 * KIB] * PROBED_LAYERS
    ready_s = said[0]["buckets"]["ready_s"]
    assert ready_s == sorted(ready_s, reverse=True)
    assert ready_s[-1] == 0.0
    assert said[1]["buckets"]["ready_s"] == []
    assert [known_summary(summary) for summary in summaries] == summaries


# -- one process ---------------------------------------------------------------------------


class Clock:
    """A clock that its own sleep moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Only the clock goes on."""
        self.now += seconds


def agreement() -> tuple[Agreement, Clock]:
    """An agreement whose wait takes no time."""
    clock = Clock()
    return Agreement(30.0, clock, clock.sleep), clock


DISTRIBUTED: Any = torch.distributed  # torch's types leave its stores out


@pytest.mark.parametrize("kind", ["HashStore", "FileStore"])
def test_nobody_waits_longer_than_told(kind: str, tmp_path: Path) -> None:
    """A rank that never comes: after half a minute the others go on without, and so would it."""
    where = (str(tmp_path / "store"), 2) if kind == "FileStore" else ()
    shared = getattr(DISTRIBUTED, kind)(*where)
    first, clock = agreement()
    assert not first.reached(shared, "g", 2, "a")
    assert 30.0 <= clock.now < 31.0
    late, clock = agreement()
    assert not late.reached(shared, "g", 2, "a")
    assert clock.now == 0.0


def test_a_rank_that_is_against_it_holds_nobody_up() -> None:
    """Its word is the verdict at once."""
    shared = DISTRIBUTED.HashStore()
    against, clock = agreement()
    assert not against.reached(shared, "g", 2, "")
    other, clock = agreement()
    assert not other.reached(shared, "g", 2, "a")
    assert clock.now == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Measure",
        "3f0c9a51be77:2:",
        "3f0c9a51be77:2:0",
        "3f0c9a51be77:2:1,,2",
        "3f0c9a51be77:2:1x0",
        "3f0c9a51be77:2:1x999,1",
        "3f0c9a51be77:2:9999999",
        "3f0c9a51be7:2:1",
        "3f0c9a51be77:0:1",
        "3f0c9a51be77:2:1\n",
        "3f0c9a51be77:2:1.5",
    ],
)
def test_a_request_of_another_form_asks_for_nothing(text: str) -> None:
    """Neither measuring nor buckets."""
    request = BucketRequest({"DLQUEUE_BUCKETS": text})
    assert (request.measures, request.caps_kib) == (False, ())


def test_a_request_names_model_ranks_and_caps() -> None:
    """`x3` repeats a cap."""
    request = BucketRequest({"DLQUEUE_BUCKETS": "3f0c9a51be77:16:512,1024x3,8192"})
    assert (request.signature, request.ranks) == ("3f0c9a51be77", 16)
    assert request.caps_kib == (512, 1024, 1024, 1024, 8192)


def test_without_a_request_nothing_is_looked_at() -> None:
    """The arguments are the very same objects."""
    args, options = (object(),), {"bucket_cap_mb": 1}
    arranged = Constructions(BucketRequest({})).arranged(lambda: None, args, options)
    assert arranged == (args, options, None)
    assert arranged[1] is options


def test_arguments_that_torch_refuses_come_to_it_as_they_are() -> None:
    """The error is torch's own."""
    constructions = Constructions(BucketRequest({"DLQUEUE_BUCKETS": "measure"}))

    def init(self: Any, module: Any) -> None:
        """Take a module."""

    for args in ((object(),), (object(), "no module"), (object(), 1, 2)):
        assert constructions.arranged(init, args, {}) == (args, {}, None)


def test_a_signature_is_of_the_gradients() -> None:
    """Other sizes, types, orders or frozen layers make another one; values do not."""

    def linear(*widths: int) -> Any:
        return torch.nn.Sequential(*[torch.nn.Linear(width, 2) for width in widths])

    frozen, ignored = linear(3, 4), linear(3, 4)
    frozen[0].weight.requires_grad_(False)
    ignored._ddp_params_and_buffers_to_ignore = ["0.weight"]
    alike = [linear(3, 4), linear(3, 4)]
    different = [linear(4, 3), linear(3, 5), linear(3, 4).double(), frozen]
    assert len({*map(signature_of, alike)}) == 1
    assert len({*map(signature_of, [alike[0], *different])}) == 5
    assert signature_of(ignored) == signature_of(frozen)


class Synchronised(torch.nn.Module):
    """Layers in a chain; as DistributedDataParallel tells that a pass is synchronised."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2, False) for _ in range(layers)])
        self.require_backward_grad_sync = True

    def forward(self, data: Any) -> Any:
        """Through all of them."""
        for layer in self.layers:
            data = layer(data)
        return data


def passed(module: Any, passes: int) -> None:
    """So many backward passes."""
    for _ in range(passes):
        module(torch.ones(1, 2)).sum().backward()


def hooks_of(module: Any) -> int:
    """Hooks that are on its parameters."""
    return sum(len(p._post_accumulate_grad_hooks or ()) for p in module.parameters())


def test_hooks_are_gone_after_a_few_passes() -> None:
    """Nothing is told before, and the order is that of the backward pass."""
    module = Synchronised(3)
    times = ReadyTimes(module)
    assert hooks_of(module) == 3
    passed(module, PASSES)
    assert times.groups() == []
    passed(module, PASSES)
    assert hooks_of(module) == 0
    assert [size for size, _ in times.groups()] == [16] * 3
    assert times.groups()[-1][1] == 0.0


def test_passes_without_synchronisation_do_not_count() -> None:
    """As under no_sync: another pass adds to the same gradients."""
    module = Synchronised(3)
    times = ReadyTimes(module)
    module.require_backward_grad_sync = False
    passed(module, 20)
    assert times.groups() == []
    assert hooks_of(module) == 3


def test_a_model_with_unused_parameters_has_no_times() -> None:
    """Its hooks are gone after a while all the same."""
    module = Synchronised(3)
    module.register_parameter("unused", torch.nn.Parameter(torch.ones(2)))
    times = ReadyTimes(module)
    passed(module, 60)
    assert hooks_of(module) == 0
    assert times.groups() == []


def test_many_gradients_are_told_in_groups() -> None:
    """All their bytes, in bounds that a record has."""
    module = Synchronised(3 * MOST_GROUPS)
    times = ReadyTimes(module)
    passed(module, 2 * PASSES)
    groups = times.groups()
    assert len(groups) <= MOST_GROUPS
    assert sum(size for size, _ in groups) == 16 * 3 * MOST_GROUPS
    assert groups[-1][1] == 0.0
