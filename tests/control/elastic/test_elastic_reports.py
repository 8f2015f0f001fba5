"""Reports of elastic jobs at the bounds of every number in them."""

import copy
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.elastic.job_report import parsed, report_of
from slurm_ext.slurm.records import JobInfo

REPORT: dict[str, Any] = {
    "v": 1,
    "left": 7.5,
    "limits": {"initial": 128, "most": 4096, "local_least": 16, "local_most": 512},
    "noise": {"square": 1.0, "variance": 100.0},
    "steps": [{"gpus": 5, "nodes": 2, "local": 128, "compute_s": 0.1, "sync_s": 0.002}],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The report with another value at a path such as `limits.most`."""
    body: Any = copy.deepcopy(REPORT)
    *above, name = path.split(".")
    of = body
    for step in above:
        of = of[0] if step == "0" else of[step]
    of[name] = value
    return dict(body)


def test_every_number_of_a_report_is_read() -> None:
    """The fullest node has its part of the GPUs, rounded up."""
    report = parsed(REPORT)
    assert asdict(report) == {
        "left": 7.5,
        "limits": {"initial": 128, "most": 4096, "local_least": 16, "local_most": 512},
        "noise": {"square": 1.0, "variance": 100.0},
        "steps": (
            {
                "gpus": 5,
                "nodes": 2,
                "most": 3,
                "local": 128.0,
                "compute_s": 0.1,
                "sync_s": 0.002,
            },
        ),
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("left", 0),
        ("left", 1e12),
        ("limits.initial", 1),
        ("limits.initial", 4096),
        ("limits.most", 128),
        ("limits.local_least", 512),
        ("limits.local_least", 1),
        ("limits.local_most", 16),
        ("limits.most", 1e12),
        ("noise.square", 1e-12),
        ("noise.variance", 1e12),
        ("steps.0.gpus", 2),
        ("steps.0.gpus", 2.0),
        ("steps.0.nodes", 5),
        ("steps.0.nodes", 1),
        ("steps.0.local", 0.5),
        ("steps.0.compute_s", 1e-12),
        ("steps.0.sync_s", 0),
        ("steps", []),
    ],
)
def test_the_bounds_of_a_report_are_allowed(path: str, value: Any) -> None:
    """Each number may have the last value that is allowed."""
    parsed(changed(path, value))


NUMBER, WHOLE = "expected a number from 0 to 1e+12", "expected a whole number above 0"
LIMITS = "limits: expected initial <= most and local_least <= local_most"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("v", 2, "version 2, expected 1"),
        ("v", None, "version None, expected 1"),
        ("left", -1e-9, f"left = -1e-09: {NUMBER}"),
        ("left", 1.001e12, f"left = 1001000000000.0: {NUMBER}"),
        ("left", True, f"left = True: {NUMBER}"),
        ("left", "5", f"left = '5': {NUMBER}"),
        ("left", float("nan"), f"left = nan: {NUMBER}"),
        ("left", float("inf"), f"left = inf: {NUMBER}"),
        ("limits.initial", 0, f"initial = 0: {WHOLE}"),
        ("limits.initial", 1.5, f"initial = 1.5: {WHOLE}"),
        ("limits.initial", 4097, LIMITS),
        ("limits.most", 127, LIMITS),
        ("limits.local_least", 513, LIMITS),
        ("limits.local_most", 15, LIMITS),
        ("noise.square", 0.9e-12, "square = 9e-13: expected above 0"),
        ("noise.variance", 0, "variance = 0: expected above 0"),
        ("steps.0.gpus", 0.5, f"gpus = 0.5: {WHOLE}"),
        ("steps.0.nodes", 6, "5 GPUs on 6 nodes"),
        ("steps.0.local", 0, "local = 0: expected above 0"),
        ("steps.0.compute_s", 0, "compute_s = 0: expected above 0"),
        ("steps.0.sync_s", -1, f"sync_s = -1: {NUMBER}"),
    ],
)
def test_a_number_out_of_bounds_is_named(path: str, value: Any, message: str) -> None:
    """The message has the name, the value and what is expected, for the job's owner."""
    with pytest.raises(ValueError, match=r".") as caught:
        parsed(changed(path, value))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "path", ["v", "left", "limits.initial", "limits.local_most", "noise.variance", "steps.0.sync_s"]
)
def test_no_number_of_a_report_may_be_left_out(path: str) -> None:
    """There is no default for a measurement."""
    body = changed(path, None)
    *above, name = path.split(".")
    of: Any = body
    for step in above:
        of = of[0] if step == "0" else of[step]
    del of[name]
    with pytest.raises(KeyError, match=f"^'{name}'$"):
        parsed(body)


def test_the_first_256_steps_count() -> None:
    """A long report is not refused; what comes later is not even looked at."""
    step = REPORT["steps"][0]
    assert len(parsed(changed("steps", [step] * 255 + [step | {"gpus": 9}])).steps) == 256
    report = parsed(changed("steps", [step] * 255 + [step | {"gpus": 9}, "odd"]))
    assert [report.steps[0].gpus, report.steps[-1].gpus, len(report.steps)] == [5, 9, 256]


def job(folder: str, user_id: int = -1) -> JobInfo:
    """Job 42 that works in a folder."""
    return JobInfo(job_id=42, work_dir=folder, user_id=user_id)


def test_a_report_is_found_by_the_jobs_id(tmp_path: Path) -> None:
    """In its work folder; without one there is no report, and nothing to complain about."""
    assert report_of(job(str(tmp_path))) == (None, None)
    (tmp_path / "dlqueue-elastic-42.json").write_text(json.dumps(REPORT))
    assert report_of(job(str(tmp_path))) == (parsed(REPORT), None)
    assert report_of(job(str(tmp_path), os.getuid())) == (parsed(REPORT), None)


def test_a_folder_without_a_root_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm shows an absolute path or none; the loop's own folder holds nobody's report."""
    (tmp_path / "dlqueue-elastic-42.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert report_of(job("")) == (None, None)
    assert report_of(job(".")) == (None, None)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("{}", "KeyError('v')"),
        ('{"v": 3}', "ValueError('version 3, expected 1')"),
        ("3", "TypeError(\"'int' object is not subscriptable\")"),
        (" " * 65537, "UnusableFileError('has 65537 bytes, at most 65536 are read')"),
    ],
)
def test_a_bad_report_is_named_with_its_fault(tmp_path: Path, body: str, why: str) -> None:
    """The file and the fault, as `dlqueue control status` shows them."""
    (tmp_path / "dlqueue-elastic-42.json").write_text(body)
    assert report_of(job(str(tmp_path))) == (None, f"dlqueue-elastic-42.json: {why}")


def test_a_report_has_at_most_64_kib(tmp_path: Path) -> None:
    """A file of exactly that size is still read."""
    text = json.dumps(REPORT)
    (tmp_path / "dlqueue-elastic-42.json").write_text(text + " " * (65536 - len(text)))
    assert report_of(job(str(tmp_path))) == (parsed(REPORT), None)


@pytest.mark.parametrize("owner", [0, 1])
def test_a_report_of_another_user_is_not_used(tmp_path: Path, owner: int) -> None:
    """Whoever may write into the folder must not resize the job; root's uid 0 is one, too."""
    path = tmp_path / "dlqueue-elastic-42.json"
    path.write_text(json.dumps(REPORT))
    if os.geteuid() == 0:
        os.chown(path, 4711, -1)
    other = path.stat().st_uid
    why = f"UnusableFileError('belongs to uid {other}, not {owner}')"
    assert report_of(job(str(tmp_path), owner)) == (None, f"{path.name}: {why}")
