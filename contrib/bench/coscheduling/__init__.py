"""Which jobs should share a node, and what does choosing them well gain?"""
