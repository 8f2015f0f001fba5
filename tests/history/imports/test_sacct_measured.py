"""What jobstats and energy counters add to a line of sacct, with units and bounds."""

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC

import pytest

from slurm_ext.history.imports import jobstats, sacct, sacct_energy
from slurm_ext.history.imports.sacct import records_of
from tests.history.imports.sacct_lines import LEAST, names, only, records


def packed(nodes: object) -> str:
    """A summary as jobstats writes it."""
    return "JS1:" + b64encode(gzip.compress(json.dumps({"nodes": nodes}).encode())).decode()


def test_a_summary_counts_instead_of_slurms_own_time_on_every_node() -> None:
    """A node that the summary lacks has nothing, not a part of what sacct says; energy stays."""
    comment = packed({"n1": {"total_time": 5}})
    columns = {"TotalCPU": "01:00", "AdminComment": comment, "ConsumedEnergyRaw": "8"}
    first, second = records(NodeList="n1,n2", **columns)
    energy = {"name": "node_energy_all", "unit": "J", "source": "sacct/ConsumedEnergy"}
    cpu = {"name": "cpu_user", "unit": "s", "source": "jobstats", "value": 5.0}
    assert first["counters"] == [cpu, {**energy, "value": 4.0}]
    assert second["counters"] == [{**energy, "value": 4.0}]


@pytest.mark.parametrize(
    ("comment", "note"),
    [
        ("JS1:x", "jobs with a summary of jobstats that cannot be read (taken without it)"),
        ("JS1:Short", None),
        ("hello", None),
    ],
)
def test_a_summary_that_cannot_be_read_is_noted(comment: str, note: str | None) -> None:
    """With the words that the import's own count shows."""
    line = {**LEAST, "AdminComment": comment, "TotalCPU": "00:01"}
    found, said = records_of(line, cluster="c", zone=UTC, names=names)
    assert (said, len(found[0]["counters"])) == (note, 1)


@pytest.mark.parametrize("text", ["", "Unknown", "None", "None assigned"])
def test_a_node_list_without_nodes(text: str) -> None:
    """Is one node without a name."""
    assert only("identity", NodeList=text)["node"] == ""


def test_what_jobstats_measured_has_its_units() -> None:
    """Per cent become shares, bytes stay bytes, long names of GPUs are cut, others are left out."""
    node = {
        "total_time": 5,
        "used_memory": 6,
        "gpu_utilization": {"0": 50, "123456789": 100},
        "gpu_used_memory": {"1": 7},
        "cpus": 4,
    }
    found = [tuple(counter.values()) for counter in jobstats.counters_of(node)]
    assert found == [
        ("cpu_user", "s", "jobstats", 5.0),
        ("mem_peak", "B", "jobstats", 6.0),
        ("gpu_util", "1", "jobstats/gpu0", 0.5),
        ("gpu_util", "1", "jobstats/gpu12345678", 1.0),
        ("gpu_mem_peak", "B", "jobstats/gpu1", 7.0),
    ]
    assert [list(counter) for counter in jobstats.counters_of(node)] == [
        ["name", "unit", "source", "value"]
    ] * 5
    assert jobstats.counters_of(None) == []


@pytest.mark.parametrize(
    ("value", "sound"),
    [
        (0, True),
        (0.0, True),
        (9.9e17, True),
        (1e18, False),
        (-1, False),
        (True, False),
        ("5", False),
        (None, False),
        (float("nan"), False),
    ],
)
def test_a_figure_of_jobstats_is_a_number_within_reason(value: object, sound: bool) -> None:
    """Of a node and of a GPU alike; one that is none costs only itself."""
    node = {"total_time": value, "used_memory": 1, "gpu_utilization": {"0": value, "1": 100}}
    found = [counter["name"] for counter in jobstats.counters_of(node)]
    wanted = ["cpu_user", "mem_peak", "gpu_util", "gpu_util"]
    assert found == (wanted if sound else wanted[1:3])
    assert jobstats.counters_of({"gpu_utilization": [5], "gpu_used_memory": 3}) == []


def test_a_summary_is_found_behind_its_mark_only() -> None:
    """Spaces around it do not hide it; nodes come back as they are."""
    text = packed({"n1": {"a": 1}})
    assert jobstats.summary_of(f"  {text}\n") == {"n1": {"a": 1}}
    assert jobstats.summary_of(text[4:]) == {}
    for nothing in ("", "JS1:", "JS1:Short", "JS1:None", "js1:x"):
        assert jobstats.summary_of(nothing) == {}
    with pytest.raises(jobstats.NoSummaryError, match=r"^nodes is no object of objects$"):
        jobstats.summary_of(packed({"n1": {}, "n2": 1}))


@pytest.mark.parametrize(
    ("text", "joules"),
    [
        ("1", 1.0),
        ("1.5K", 1.5e3),
        ("2M", 2e6),
        ("2G", 2e9),
        ("2T", 2e12),
        ("1P", 1e15),
        ("1000000000000000", 1e15),
        ("1000000000000001", None),
        ("2P", None),
        ("0", None),
        ("0.00K", None),
        ("", None),
    ],
)
def test_energy_in_joules(text: str, joules: float | None) -> None:
    """Thousands, not 1024; nothing is no energy, and what no node can have drawn is none."""
    found = sacct_energy.counters_of({"ConsumedEnergy": text}, 1)
    assert [counter["value"] for counter in found] == ([] if joules is None else [joules])


@pytest.mark.parametrize(
    ("line", "joules"),
    [
        ({"ConsumedEnergyRaw": " 10 ", "ConsumedEnergy": "20"}, 10),
        ({"ConsumedEnergyRaw": "0", "ConsumedEnergy": "20"}, 20),
        ({"ConsumedEnergyRaw": "0", "ConsumedEnergy": "0", "AllocTRES": "energy=30"}, 30),
        ({"ConsumedEnergy": "20", "AllocTRES": "energy=30"}, 20),
    ],
)
def test_the_exact_energy_counts_first(line: Mapping[str, str], joules: float) -> None:
    """Then the rounded one, then that of AllocTRES; an equal part to each node."""
    assert sacct_energy.counters_of(line, 4) == [
        {
            "name": "node_energy_all",
            "unit": "J",
            "source": "sacct/ConsumedEnergy",
            "value": joules / 4,
        }
    ]


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ({"ConsumedEnergyRaw": "x"}, "ConsumedEnergyRaw"),
        ({"ConsumedEnergy": "x"}, "ConsumedEnergy"),
        ({"AllocTRES": "energy=x"}, "AllocTRES energy"),
    ],
)
def test_what_is_no_energy_names_its_column(line: Mapping[str, str], column: str) -> None:
    """And says what one looks like."""
    with pytest.raises(ValueError, match=r"expected joules") as error:
        sacct_energy.counters_of(line, 1)
    assert str(error.value) == f"{column} is 'x': expected joules, such as 12345678 or 12.35M"


def test_the_columns_that_are_asked_for() -> None:
    """The order of `sacct -o`, which the message to the user shows."""
    assert ",".join(sacct.COLUMNS) == (
        "JobIDRaw,State,Submit,Start,End,Cluster,JobID,JobName,User,UID,Account,Partition,"
        "ExitCode,Timelimit,ElapsedRaw,NCPUS,NNodes,AllocTRES,NodeList,WorkDir,TotalCPU,"
        "AdminComment,ConsumedEnergyRaw"
    )
