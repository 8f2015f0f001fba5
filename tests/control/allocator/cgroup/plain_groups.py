"""Control groups as plain files: a job of one process in versions 1 and 2."""

from pathlib import Path

from slurm_ext.control.allocator.cgroup.job_location import JobLocation

OWN = "dlqueue_n1_7"


class PlaceOf12(JobLocation):
    """A job of one process."""

    def pids(self) -> set[int]:
        """The processes."""
        return {12}


def texts(folder: Path) -> dict[str, str]:
    """Files of a folder."""
    return {path.name: path.read_text() for path in folder.iterdir()}


def slurms_v1(place: JobLocation, controller: str, **files: str) -> Path:
    """A version 1 group that Slurm made for the job."""
    job = Path(place.mount, controller, "slurm_n1/uid_1000/job_7")
    job.mkdir(parents=True)
    for name, text in files.items():
        (job / f"cpu.{name}").write_text(text)
    return job
