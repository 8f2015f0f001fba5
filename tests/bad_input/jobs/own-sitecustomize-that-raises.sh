#!/bin/bash
set -e
mkdir own-site-$SLURM_JOB_ID
echo 'raise RuntimeError("mine")' > own-site-$SLURM_JOB_ID/sitecustomize.py
PYTHONPATH=$PWD/own-site-$SLURM_JOB_ID:$PYTHONPATH python3 -c "print('ran')" 2>/dev/null
