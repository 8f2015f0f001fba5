"""How long do the node's hooks take, and how much memory do they need?"""
