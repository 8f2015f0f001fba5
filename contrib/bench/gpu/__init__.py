"""Do counters, MPS, pairs, ranks, probe, loaders and energy hold on this machine's NVIDIA GPU?"""
