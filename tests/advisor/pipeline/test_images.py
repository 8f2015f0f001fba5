"""Which scripts run a program in an image of Apptainer, and how their jobs are told of it."""

import pytest

from slurm_ext.advisor.pipeline.images import runs_an_image
from tests.advisor.pipeline.test_journey import ask, job


@pytest.mark.parametrize(
    ("line", "does"),
    [
        ("apptainer exec --nv x.sif python train.py", True),
        ("  srun -n2 /opt/bin/singularity -q run x.sif", True),
        ("CMD=1 'apptainer' shell x.sif < in", True),
        ("# apptainer exec x.sif python train.py", False),
        ("module load apptainer; python train.py exec", False),
        ("apptainer pull x.sif docker://image", False),
        ("python my-apptainer run", False),
    ],
)
def test_a_command_of_the_script_runs_an_image(line: str, *, does: bool) -> None:
    """Comments do not, and neither do modules or other commands of Apptainer's."""
    assert runs_an_image(f"#!/bin/bash\n#SBATCH -c4\n{line}\n") is does


def test_its_job_is_told_so_with_its_own_token() -> None:
    """In every mode that names the job; no other job has that word by inheritance."""
    script = "#!/bin/bash\napptainer exec x.sif python train.py\n"
    told = ask(job(script=script)).edits.env
    assert told["DLQUEUE_IMAGE"] == told["DLQUEUE_DECISION"]
    assert "DLQUEUE_IMAGE" not in ask(job()).edits.env
