"""Test sandboxes that are up together have job numbers, and ports, of their own."""

from itertools import product

from tests.job_numbers import APART, ROUNDS, first_job_id

JOBS = 100  # of a sandbox whose jobs open ports
PORTS = 12_000  # job_templates/spatial.sbatch
MOST = 0x03FF0000  # Slurm's MaxJobId


def test_no_two_sandboxes_of_a_run_share_a_number() -> None:
    """Nor do two of its five workers share a port while each makes its next few."""
    made = list(product(range(5), range(ROUNDS)))
    firsts = [first_job_id(worker, "run", nth) for worker, nth in made]
    assert len(set(firsts)) == len(firsts)
    assert min(b - a for a, b in zip(sorted(firsts), sorted(firsts)[1:], strict=False)) >= APART
    assert 1 <= min(firsts) < max(firsts) < MOST - APART
    near = [first_job_id(worker, "run", nth) % PORTS for worker in range(5) for nth in (0, 1)]
    assert min(b - a for a, b in zip(sorted(near), sorted(near)[1:], strict=False)) >= JOBS
    assert first_job_id(0, "run", 0) != first_job_id(0, "another run", 0)
