"""Several ranks of one job on one GPU: what runs inside the job (AccDP, HiPC 2022).

    python -m slurm_ext.ranks --ranks-per-gpu 2 train.py …      starts them (launch.py)
    reduction.TwoLevelReduction, mpi.MpiTwoLevelReduction       reduce their gradients

NCCL refuses two ranks on one device, so gradients are first added up among the ranks of a GPU, then
among one leader a GPU. Like the probe, this room brings nothing along: torch and mpi4py are the
job's own.
"""
