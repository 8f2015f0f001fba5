#!/bin/bash
#SBATCH --job-name="<script>alert(1)</script><b>"
#SBATCH --comment="<img src=x onerror=alert(1)>"
echo ran
