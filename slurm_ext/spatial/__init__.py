"""Hybrid-parallel training: each sample's volume is divided among ranks, and samples among groups.

    mesh = Mesh(data=2, space=(2, 1, 1))            # after start(), on every rank
    model = parallelise(UNet(), mesh)               # exact on slabs, layer by layer
    model = DistributedDataParallel(model)          # over all ranks; loss.GlobalLoss scales for it

Like `ranks`, this room brings nothing along: torch is the job's own. planning/ needs no torch.
"""
