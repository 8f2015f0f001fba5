"""Do several ranks on one GPU (AccDP) make a training faster, and is their number chosen well?"""
