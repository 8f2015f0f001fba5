"""From one measured shape and a table of nodes, is the cheapest shape within a deadline found?"""
