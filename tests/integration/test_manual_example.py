"""The example in CONTRIBUTING.md is a test that passes."""

import re
from typing import Any

import pytest

from tests.conftest import MakeSandbox
from tests.manual import ROOT

pytestmark = pytest.mark.slurm


def test_the_example_of_a_test(make_sandbox: MakeSandbox) -> None:
    """Copied as it stands, it runs and holds."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"pytest": pytest, "MakeSandbox": MakeSandbox}
    exec(compile(example, "CONTRIBUTING.md", "exec"), names)
    names["test_a_job_runs_as_written"](make_sandbox)
