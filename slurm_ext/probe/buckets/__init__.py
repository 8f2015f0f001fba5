"""Bucket sizes of DistributedDataParallel, set at its construction if all ranks agree on them.

DLQUEUE_BUCKETS asks for it (request.py). Its absence changes and measures nothing.
"""
