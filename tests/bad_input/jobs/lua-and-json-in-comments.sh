#!/bin/bash
#SBATCH --comment="]] os.execute('touch /tmp/owned') --[[ %s%d%n {\u0000"
# "}]} \u0000 \ud800 %b() ]]--[==[
echo ran
