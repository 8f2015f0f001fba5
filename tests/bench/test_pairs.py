"""The proof of pairing: its replay, its policies and its tables say what happened, and no more."""

import json
import random
import time
from pathlib import Path

import pytest

from contrib.bench.coscheduling import live_runs, policies
from contrib.bench.coscheduling.kernels import FILE_MIB, KERNELS, KINDS, MIB, READERS, make
from contrib.bench.coscheduling.live import Ran, idle_s, makespan_s
from contrib.bench.coscheduling.lower_bound import least_s
from contrib.bench.coscheduling.matrix import Matrix
from contrib.bench.coscheduling.published_pairs import __main__ as pairs_tables
from contrib.bench.coscheduling.replay import Job, replay
from slurm_ext.core.errors import InputError
from tests.bench.program import run_bench

SPEED = {("d", "d"): 0.4, ("d", "c"): 1.0, ("c", "d"): 1.0, ("c", "c"): 1.0}


def jobs(kinds: str) -> list[Job]:
    """Of 100 s each."""
    return [Job(name=f"{number}", kind=kind, work_s=100.0) for number, kind in enumerate(kinds)]


def test_a_replayed_job_runs_at_the_speed_of_its_company() -> None:
    """Two that hurt each other end late, and what they did together is kept as a segment."""
    order = jobs("ddc")
    assert replay(order, policies.fifo, SPEED, floor=0.85) == pytest.approx(350)
    assert order[0].segments == [("d", 0.4, 250.0)]
    assert order[0].ratio == pytest.approx(0.4)
    assert order[0].below_s == pytest.approx(250)


def test_the_policy_that_knows_parts_what_hurts() -> None:
    """Knowing the speeds, each reader has a computing job beside it."""
    known = policies.Measured(SPEED)
    made = {}
    for name, choose in {
        "fifo": policies.fifo,
        "alone": policies.alone,
        "oracle": policies.steered(known),
    }.items():
        made[name] = replay(jobs("ddcc"), choose, SPEED, floor=0.85)
    assert made == {"fifo": 350.0, "alone": 400.0, "oracle": 200.0}


def test_no_policy_ends_before_the_least_makespan() -> None:
    """Two that hurt each other take turns beside a third where the floor forbids them to meet."""
    speed = {("a", "b"): 0.8, ("b", "a"): 0.8, ("a", "c"): 1.0, ("c", "a"): 1.0}
    speed |= {("b", "c"): 1.0, ("c", "b"): 1.0}
    assert least_s("abc", speed, floor=0.0, work_s=100.0) == pytest.approx(162.5)
    assert least_s("abc", speed, floor=0.85, work_s=100.0) == pytest.approx(200.0)


def test_earlier_orders_teach_what_hurts() -> None:
    """After a few orders the product's model parts the readers, without the measured speeds."""
    earlier = []
    for seed in range(6):
        order = jobs("ddcc")
        random.Random(seed).shuffle(order)
        replay(order, policies.fifo, SPEED, floor=0.85)
        earlier.append(order)
    known = policies.learned(earlier, random.Random(1))
    order = jobs("ddcc")
    replay(order, policies.steered(known), SPEED, floor=0.85)
    assert min(job.ratio for job in order) == pytest.approx(1.0)


def test_a_policy_that_starts_nobody_is_an_error() -> None:
    """The replay ends; it does not spin."""
    with pytest.raises(ValueError, match="nobody is started"):
        replay(jobs("c"), lambda _waiting, _running: [], SPEED, floor=0.85)


@pytest.mark.parametrize("kind", KERNELS)
def test_every_kernel_works(kind: str, data: Path) -> None:
    """A step takes CPU time of this process; the trainings need torch and run in the live proof."""
    step = make(kind, data)
    began_s = time.process_time()
    step()
    assert time.process_time() - began_s > 1e-4


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that they read, without their bytes on the disk."""
    path: Path = tmp_path_factory.mktemp("pairs")
    for kind in READERS:
        with (path / kind).open("wb") as file:
            file.truncate(FILE_MIB * MIB)
    return path


def test_the_matrix_is_read_as_it_was_written() -> None:
    """Through the file that --matrix names."""
    matrix = Matrix(dict.fromkeys(KINDS, 1.0), {("stream", "read"): 0.5}, 0.1)
    assert Matrix.from_json(json.loads(json.dumps(matrix.as_json()))) == matrix


def test_a_table_is_matched(tmp_path: Path) -> None:
    """Four jobs, two good pairs: the perfect matching and, knowing all, ours."""
    names, good = "abcd", [{"a", "b"}, {"c", "d"}]
    rows = ["job_a,job_b,rel_a,rel_b,infeasible"]
    for at, a in enumerate(names):
        for b in names[at:]:
            rel = 0.95 if {a, b} in good else 0.4
            rows.append(f"{a},{b},{rel},{rel},0")
    (tmp_path / "table.csv").write_text("\n".join(rows))
    told = pairs_tables.figures(pairs_tables.read(tmp_path / "table.csv"), "v100", 1)
    assert told["perfect_0.85"] == pytest.approx(1.9)
    assert told["ours_1_0.5"]["throughput"] == pytest.approx(1.9)
    assert told["random"] < told["random_with_turns"] < 1.9


def test_an_absent_table_is_named() -> None:
    """Exit 1, one line, the file's name."""
    done = run_bench("coscheduling.published_pairs", "--tables", "/nowhere")
    assert done.returncode == 1
    assert "gavel_pytorch_pairs_v100.csv" in done.stderr


def ran(kind: str, began_s: float, ended_s: float) -> Ran:
    """Ten steps a second, alone and here."""
    rows = [(began_s, 0, 0.0), (ended_s, round(10 * (ended_s - began_s)), 0.0)]
    return Ran(kind=kind, began_s=began_s, rows=rows, solo=10.0)


MATRIX = Matrix(dict.fromkeys("ab", 10.0), {(x, y): 1.0 for x in "ab" for y in "ab"})


def test_live_runs_are_played_in_pieces(tmp_path: Path) -> None:
    """What is in the file is not played again; speeds and makespans are told over all of it."""
    path = tmp_path / "runs.json"
    assert live_runs.load(path, MATRIX, 16.0) == {}
    runs = {
        ("fifo", 0): [ran("a", 0.0, 20.0), ran("b", 10.0, 30.0)],
        ("warm", 0): [ran("a", 0.0, 20.0), ran("b", 0.0, 15.0)],
        ("fifo", 1): [ran("a", 0.0, 90.0)],
    }
    live_runs.keep(path, MATRIX, 16.0, runs)
    found = live_runs.load(path, MATRIX, 16.0)
    todo = [one for one in live_runs.plan(["fifo", "warm", "cold"], [0, 1]) if one not in found]
    assert todo == [("warm", 1), ("cold", 1)]
    told = live_runs.figures_of(found, MATRIX)["live"]
    assert told["fifo"]["makespans_s"] == {"0": 30.0, "1": 90.0}
    assert live_runs.ratio(told, "fifo") == pytest.approx(20 / 30)
    assert live_runs.ratio(told, "oracle") is None


def test_a_few_live_orders_stand_for_all() -> None:
    """The middles of equal parts by what they cost FIFO; as many as there are: all."""
    cost = {0: 5.0, 1: 1.0, 2: 9.0, 3: 2.0, 4: 3.0, 5: 4.0}
    assert live_runs.spread(cost, 3) == [3, 5, 2]
    assert sorted(live_runs.spread(cost, 6)) == list(cost)


def test_runs_of_another_matrix_are_refused(tmp_path: Path) -> None:
    """Their jobs had other lengths; the file is named."""
    path = tmp_path / "runs.json"
    live_runs.keep(path, MATRIX, 16.0, {})
    with pytest.raises(InputError, match=r"runs\.json"):
        live_runs.load(path, Matrix({"a": 1.0}, {}), 16.0)
    with pytest.raises(InputError, match="lengths"):
        live_runs.load(path, MATRIX, 5.0)
    path.write_text("{")
    with pytest.raises(InputError, match="remove it"):
        live_runs.load(path, MATRIX, 16.0)


def test_idle_slots_are_counted_until_the_last_start() -> None:
    """Two slots; one stood still for five seconds while somebody waited."""
    order = [ran("a", 0.0, 10.0), ran("b", 0.0, 20.0), ran("c", 15.0, 30.0)]
    assert idle_s(order) == pytest.approx(5.0)
    assert makespan_s(order) == 30.0


def test_the_judged_gain_is_at_the_floor_that_the_product_has() -> None:
    """Pairs in which a job may fall to a tenth of its speed gain more, and nobody gets them."""
    low = {"throughput": 1.5, "above_floor": 1.0}
    ours = {"throughput": 1.1, "above_floor": 0.8}
    figures = {"v100": {"random_with_turns": 1.0, "ours_0.5_0.1": low, "ours_0.5_0.85": ours}}
    mean, best, above = pairs_tables._wanted(figures)
    assert (mean["got"], best["got"], above["got"]) == (1.1, 1.1, 0.8)
