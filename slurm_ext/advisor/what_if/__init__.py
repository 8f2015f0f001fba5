"""One job in other shapes: speed, run time and waiting time of each."""
