#!/bin/bash
#SBATCH --job-name=[2J]0;owned
# [31m[2J]0;owned
echo ran
