"""How well is the speed of a job beside another predicted, on published tables?"""
