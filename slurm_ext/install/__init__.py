"""Puts dlqueue into a Slurm's files and takes it out again, with nothing half done.

What is wanted becomes a plan (`plan.py`: files before → files after, pure), the plan is shown or
carried out (`apply.py`: all of it or nothing), and what was there before is remembered
(`kept.py`), so that taking out is the same plan with less wanted.
"""
