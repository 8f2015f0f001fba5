"""A long benchmark that was stopped continues with the steps that it lacks."""

from pathlib import Path

from contrib.bench.common.kept_steps import Figures, KeptSteps


def test_a_finished_step_is_measured_once(tmp_path: Path) -> None:
    """In the next run, too; under other conditions all is measured again."""
    done: list[str] = []

    def measured(name: str) -> Figures:
        done.append(name)
        return {"name": name}

    for conditions in ("many", "many", "few"):
        steps = KeptSteps(tmp_path / "steps.json", conditions)
        for name in ("first", "second"):
            assert steps.step(name, lambda name=name: measured(name)) == {"name": name}  # type: ignore[misc]
    assert done == ["first", "second"] * 2
