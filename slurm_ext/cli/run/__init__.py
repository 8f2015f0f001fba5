"""`dlqueue run`: one program under the probe, without root, Slurm or an advisor."""
