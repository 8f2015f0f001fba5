"""`dlqueue demo`: the whole loop on a private Slurm."""
