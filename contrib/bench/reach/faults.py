"""Faults that doctor names, by the tests that inject them one by one."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[3]
TESTS = "tests/cli/doctor/test_doctor_faults.py"
NAMED = "test_a_fault_is_named_with_its_cure"


def named(folder: Path) -> dict[str, int]:
    """Number of faults that were injected, and of those named with a cure."""
    report = folder / "faults.xml"
    words = ["-q", f"--junitxml={report}", "-k", NAMED, TESTS]
    command = [sys.executable, "-m", "pytest", *words]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    cases = ET.parse(report).findall(".//testcase")
    bad = [one for one in cases if one.find("failure") is not None or one.find("error") is not None]
    left_out = [one for one in cases if one.find("skipped") is not None]
    of = len(cases) - len(left_out)
    return {"named": of - len(bad), "of": of, "left_out": len(left_out)}
