"""`dlqueue sandbox`: a private Slurm, and what to try in it."""
