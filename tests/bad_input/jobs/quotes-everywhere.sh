#!/bin/bash
#SBATCH --job-name="it's a \\ name"
# ' " ` $( ' """ ]]] }}} \" \\
echo "r"'a'n
