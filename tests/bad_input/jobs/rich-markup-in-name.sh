#!/bin/bash
#SBATCH --job-name="[red]x[/blink][link=file:///etc/passwd]"
echo ran
