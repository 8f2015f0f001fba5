"""Runner, state folder and action log of all control loops."""
