"""Time that gradients take to other ranks beside the backward pass, and buckets that shorten it."""
