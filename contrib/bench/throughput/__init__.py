"""How well is a training's throughput predicted from a few measurements, on published tables?"""
