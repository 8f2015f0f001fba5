#!/bin/bash
set -e
mkdir own-modules-$SLURM_JOB_ID
cd own-modules-$SLURM_JOB_ID
for name in json sqlite3 statistics; do echo 'raise RuntimeError("mine")' > $name.py; done
for name in torch jax tensorflow keras; do echo '__path__ = []' > $name.py; done
echo 'import torch, jax, tensorflow, keras; print("ran")' > train.py
python3 train.py
