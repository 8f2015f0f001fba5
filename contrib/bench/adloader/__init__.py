"""Do tuned loaders and lent cores speed up a node's live trainings, and slow none of them?"""
