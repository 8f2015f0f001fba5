"""`dlqueue recommend`: ranks per GPU, batch and workers from measured runs."""
