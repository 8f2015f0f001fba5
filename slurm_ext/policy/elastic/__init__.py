"""How many GPUs each elastic job gets. Pure."""
