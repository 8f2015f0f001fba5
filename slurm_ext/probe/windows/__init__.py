"""Windows of a profile job: normal, cached batches, no gradient synchronisation, both, in turn.

Only `dlqueue profile` switches this on, by DLQUEUE_PROFILE: cached batches and gradients that are
not synchronised spoil the weights, so nothing that such a run would keep is written.
"""
