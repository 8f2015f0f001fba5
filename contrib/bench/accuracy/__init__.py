"""How near is the predicted throughput of real trainings to the measured one?"""
