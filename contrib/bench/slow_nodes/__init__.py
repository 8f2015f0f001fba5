"""How soon is a node that became slow found from jobs' own rates, and how often is one blamed?"""
