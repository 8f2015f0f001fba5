"""How many GPUs does matching of jobs save, on Gavel's published pairs?"""
