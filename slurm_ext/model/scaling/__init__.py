"""How a training scales over GPUs, nodes and batch size, and its goodput. numpy only."""
