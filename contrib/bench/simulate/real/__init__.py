"""Does a replay start jobs when and in the order that a real Slurm does?"""
