"""Windows of a profile job: normal, cached batches, no gradient synchronisation, both, in turn.

FSDP without synchronisation would hold whole gradients: it gets cached batches under torch's
profiler instead, whose trace says which communication nothing hides.

Only `dlqueue profile` switches this on, by DLQUEUE_PROFILE: cached batches and gradients that are
not synchronised spoil the weights, so nothing that such a run would keep is written.
"""
