"""What does the node allocator gain over an even split, on Synergy's measured tables?"""
