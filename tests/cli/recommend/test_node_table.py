"""The table of node types: bad ones are named by file, key and what is valid."""

from pathlib import Path

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.policy.node_shapes import NodeType
from slurm_ext.questions.recommend.billing import billed, slurm_table
from slurm_ext.questions.recommend.node_table import MOST_TYPES, parse_table, read_table
from slurm_ext.slurm.records import NodeInfo, PartitionInfo

GOOD = """
[[node]]
name = "g5.12xlarge"
gpu = "a10g"
gpus = 4
cores = 48
price_per_hour = 5.67
"""
FULL = (
    GOOD + "mem_gib = 2\ndisk_bytes_per_s = 1e9\nnet_bytes_per_s = 5e9\nspeed = 2\nmost_nodes = 8\n"
)


def test_a_table_is_read() -> None:
    """Numbers in bytes; what is left out sets no limit."""
    (full,) = parse_table(FULL, "nodes.toml")
    assert (full.name, full.gpu, full.gpus, full.cores) == ("g5.12xlarge", "a10g", 4, 48)
    assert (full.mem_bytes, full.most_nodes, full.speed) == (2 << 30, 8, 2.0)
    (short,) = parse_table(GOOD, "nodes.toml")
    assert (short.mem_bytes, short.disk_bytes_per_s, short.net_bytes_per_s) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "node = None is not valid: expected 1 to 200 tables named [[node]]"),
        ("node = 3", "node = 3 is not valid"),
        ("[node]\nname='x'", "expected 1 to 200 tables"),
        ("nodes = 1\n" + GOOD, "nodes = 1 is not valid: expected tables named [[node]] alone"),
        ("[[node]\n", "is not TOML"),
        (GOOD + "colour = 1\n", "node[1].colour = 1 is not valid: expected one of the keys name,"),
        (GOOD.replace("gpus = 4", ""), "node[1].gpus is missing: expected a whole number from 1"),
        (GOOD.replace("4\n", "0\n", 1), "node[1].gpus = 0 is not valid: expected a whole number"),
        (GOOD.replace("gpus = 4", "gpus = 4.5"), "node[1].gpus = 4.5 is not valid"),
        (GOOD.replace("gpus = 4", "gpus = true"), "node[1].gpus = True is not valid"),
        (GOOD.replace("5.67", "-1"), "node[1].price_per_hour = -1 is not valid: expected a number"),
        (GOOD.replace("5.67", "nan"), "node[1].price_per_hour = nan is not valid"),
        (GOOD.replace("5.67", "'5'"), "node[1].price_per_hour = '5' is not valid"),
        (GOOD.replace("a10g", ""), "node[1].gpu = '' is not valid: expected a name of 1 to 64"),
        (GOOD * 2, "node[2].name = 'g5.12xlarge' is not valid: expected a name that no other"),
        (GOOD + ".".join("a" * 600) + " = 1\n", "line 8 has more than 1000 characters"),
        ("node = [1]", "node[1] = 1 is not valid: expected a table named [[node]]"),
        (GOOD * (MOST_TYPES + 1), "expected 1 to 200 tables"),
    ],
)
def test_a_bad_table_is_named(text: str, said: str) -> None:
    """The file, the key, the value, and what is valid."""
    with pytest.raises(InputError) as refused:
        parse_table(text, "nodes.toml")
    assert str(refused.value).startswith("nodes.toml: ")
    assert said in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Absent, a folder, or not text."""
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            read_table(path)
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read_table(tmp_path / "x.toml")


def node(name: str, gres: dict[str, int], *partitions: str) -> NodeInfo:
    """Of 32 CPUs and 256 GiB."""
    return NodeInfo(name=name, cpus=32, mem_mib=256 << 10, gres=gres, partitions=partitions)


A100 = {"gpu": 4, "gpu:a100": 4}


def test_a_partitions_weights_are_its_nodes_price() -> None:
    """CPUs, memory in the weight's unit, and GPUs of the type before GPUs of any."""
    weights = "CPU=1.0,Mem=0.25G,GRES/gpu=2.0"
    assert billed(weights, 32, 256 << 10, "a100", 4) == pytest.approx(32 + 64 + 8)
    typed = f"{weights},GRES/gpu:a100=10"
    assert billed(typed, 32, 256 << 10, "a100", 4) == pytest.approx(32 + 64 + 40)
    assert billed(typed, 32, 256 << 10, "v100", 4) == pytest.approx(32 + 64 + 8)
    assert billed("Mem=0.001", 32, 1024, "", 1) == pytest.approx(1.024)
    assert billed(weights, 32, 256 << 10, "a100", 4, max_tres=True) == 64


@pytest.mark.parametrize("weights", ["CPU=many", "CPU", "CPU=-1", "CPU=1.0X"])
def test_weights_that_are_none_are_named(weights: str) -> None:
    """As Slurm would print them."""
    with pytest.raises(InputError, match="TRESBillingWeights"):
        billed(weights, 1, 1, "", 1)


def test_a_cluster_is_a_table() -> None:
    """A type for each partition and kind of node with GPUs; nodes without say nothing."""
    found = slurm_table(
        [
            node("n1", A100, "gpu"),
            node("n2", A100, "gpu"),
            node("n3", {"gpu": 2, "gpu:v100": 2}, "gpu", "free"),
            node("n4", {}, "gpu"),
        ],
        [PartitionInfo(name="gpu", billing="GRES/gpu=3"), PartitionInfo(name="free")],
    )
    assert [(one.name, one.gpu, one.gpus, one.most_nodes) for one in found] == [
        ("gpu:a100:4", "a100", 4, 2),
        ("gpu:v100:2", "v100", 2, 1),
    ]
    assert [one.price_per_hour for one in found] == [12.0, 6.0]
    (alone,) = slurm_table([node("n1", A100, "gpu")], [PartitionInfo(name="gpu", billing="CPU=1")])
    assert isinstance(alone, NodeType)
    assert alone.name == "gpu"


def test_a_cluster_without_prices_is_no_table() -> None:
    """It says what to give instead."""
    with pytest.raises(InputError, match="give --nodes a file with prices"):
        slurm_table([node("n1", A100, "gpu")], [PartitionInfo(name="gpu")])
