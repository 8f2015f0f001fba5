"""A profile whose script goes to another cluster is followed, and cancelled, there."""

from pathlib import Path

import pytest

from slurm_ext.cli.profile import batch
from slurm_ext.cli.profile.run_folder import ProfileLimits

SBATCH = """#!/bin/sh
for word in "$@"; do case $word in --output=*) out=${word#--output=};; esac; done
echo '{"v": 1}' > "${out%/*}/windows-1.json"
echo "the site's word; of no matter"
echo "4711;gpu"
"""
SAYS = '#!/bin/sh\necho "${0##*/} $*" >> "${0%/*}/asked"\necho JobState=COMPLETED\n'


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the programs in the place of Slurm's write how they were called."""
    for name, text in (("sbatch", SBATCH), ("scontrol", SAYS), ("scancel", SAYS)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(batch, "_FIRST_S", 0.0)
    return tmp_path / "asked"


def profiled(folder: Path) -> str:
    """How the job ended."""
    script = "#!/bin/sh\n#SBATCH --clusters=gpu\n"
    limits = ProfileLimits(steps=10, seconds=1.0, startup_s=1.0, seed=0)
    return batch.run([str(folder / "job.sh")], script, limits, str(folder / "sbatch")).how


def test_the_jobs_own_cluster_is_asked(asked: Path) -> None:
    """The number alone is that of another job here."""
    assert profiled(asked.parent) == "ended"
    assert asked.read_text() == "scontrol --clusters=gpu show job -o 4711\n"


def test_the_job_is_cancelled_on_its_own_cluster(
    asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody's job of that number here is touched."""

    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(batch, "_until_over", interrupted)
    with pytest.raises(KeyboardInterrupt):
        profiled(asked.parent)
    assert asked.read_text() == "scancel --clusters=gpu 4711\n"
