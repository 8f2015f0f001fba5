"""How much does the probe slow down a training?"""
