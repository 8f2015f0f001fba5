#!/bin/bash
#SBATCH --job-name="x'); DROP TABLE runs; --"
#SBATCH --comment="' OR 1=1; DELETE FROM decisions; --"
echo ran
