"""The order of waiting jobs, and the `nice` values that bring it about. Pure.

`Rule` is what a queue policy of one's own is made of: `from slurm_ext.policy.queue import Rule`.
"""

from slurm_ext.policy.queue.order import Rule

__all__ = ["Rule"]
