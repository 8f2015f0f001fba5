"""Counts of the source tree and of real calls."""

import json

from contrib.bench.house import ways
from tests import house
from tests.bench.program import run_bench


def test_the_tree_is_counted_by_the_tables_of_the_tests() -> None:
    """The last line has every count beside its target; nothing is called with --quick."""
    last = json.loads(run_bench("house", "--quick", "--json").stdout)
    counts = last["figures"]["product"]
    assert counts["modules"] + counts["packages"] == len([*house.PACKAGE.rglob("*.py")])
    assert counts["packages"] == len([*house.PACKAGE.rglob("__init__.py")])
    files = house.PACKAGE.rglob("*.py")
    assert counts["lines"] == sum(len(path.read_bytes().splitlines()) for path in files)
    assert {row["what"].partition(":")[0] for row in last["wanted"]} == {
        "product",
        "benchmarks",
        "control",
    }


def test_a_call_passes_what_it_enters() -> None:
    """Functions of the package count once, each call counts, and what was entered is named."""
    from slurm_ext.core import units

    way = ways.way_of(lambda: [units.parse_memory("1G"), units.parse_memory("2G")])
    assert way["names"][0].startswith("core/units.py:")
    assert way["files"] == 1
    assert way["own_calls"] >= 2 * way["functions"] > 0
    assert way["calls"] >= way["own_calls"]
    assert way["room_switches"] == 0


def test_predict_without_anything_is_counted_in_a_fresh_process() -> None:
    """It passes the command's own file, and neither the advisor's threads nor torch."""
    names = ways.counted("predict")["names"]
    assert any(name.startswith("cli/predict/command.py:") for name in names)
    assert not any(name.startswith(("advisor/service/server", "training/")) for name in names)
