"""Do counters, MPS, pairs, ranks, probe, loaders, stalls, buckets and energy hold on this GPU?"""
