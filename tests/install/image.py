"""An image of a site that has scripts of its own, for `install --root`."""

from pathlib import Path

from slurm_ext.cli import main
from slurm_ext.install.site_files import InstallRoot

CONF = """\
ClusterName=Trial
SlurmUser=nobody
Prolog=/etc/slurm/prolog.sh # the site's
Epilog=/etc/slurm/epilog.d/*
PrologFlags=Serial
NodeName=n1"""
LUA = """\
function slurm_job_submit(job, parts, uid)
  if job.name == "bad" then return slurm.ERROR end
  return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
return slurm.SUCCESS
"""

Tree = dict[str, tuple[bytes, int]]


class Site:
    """An image of a site under a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, text in {"slurm.conf": CONF, "job_submit.lua": LUA}.items():
            self.write(f"/etc/slurm/{name}", text)
        (root / "etc/slurm/epilog.d").mkdir()

    def path(self, name: str) -> Path:
        """A path of the site as this machine sees it."""
        return self.root / name.lstrip("/")

    def write(self, name: str, text: str) -> None:
        """A file of the site's."""
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text)

    def text(self, name: str) -> str:
        """What a file says."""
        return self.path(name).read_text()

    def tree(self) -> Tree:
        """Every file and folder: bytes and mode."""
        return {
            str(each.relative_to(self.root)): (
                each.read_bytes() if each.is_file() else b"",
                each.lstat().st_mode,
            )
            for each in sorted(self.root.rglob("*"))
        }

    def run(self, *words: str) -> int:
        """The command's exit status."""
        return main([words[0], "--root", str(self.root), *words[1:]])

    @property
    def place(self) -> InstallRoot:
        """The site as the room knows it."""
        return InstallRoot(self.root, Path("/etc/dlqueue"), Path("/etc/slurm/slurm.conf"))
