"""Does any of forty faults reject a submission, drain a node, or lose or double a record?"""
