"""Evidence of earlier runs in the advisor's memory: runs, priors, calibration."""
