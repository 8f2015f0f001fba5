"""How well is the speed of nginx beside noisy neighbours predicted, on NTUA's campaigns?"""
