"""Runs of `dlqueue run`: a user's own history, where no site has one."""
