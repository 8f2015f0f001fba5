"""How many node-hours does sleep save, on published demand series, and who has to wait?"""
