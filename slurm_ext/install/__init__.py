"""Installs dlqueue into the files of a Slurm site, and takes it out again, all or nothing.

`plan.py` turns the wanted steps into changes of files (pure), `apply.py` makes all of them or none,
and `backups.py` remembers the files of before: to uninstall is to apply a plan with fewer steps.
Commands and their options are in cli/install/.
"""
