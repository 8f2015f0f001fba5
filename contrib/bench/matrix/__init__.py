"""Do the tests of the real Slurm pass under every release of Slurm that users have?"""
