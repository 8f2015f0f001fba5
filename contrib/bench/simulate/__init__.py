"""How long does a replay of a million jobs take, and how much memory does it need?"""
