"""How many nodes a partition will need in the next hours. numpy only."""
