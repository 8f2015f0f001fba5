"""How many data-parallel ranks of one job share each of its GPUs (AccDP). Pure."""
