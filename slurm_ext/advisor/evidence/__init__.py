"""What the advisor holds in memory of earlier runs: evidence, priors, calibration."""
