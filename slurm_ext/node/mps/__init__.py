"""The life of NVIDIA MPS daemons: started by the prolog, released by the epilog."""
