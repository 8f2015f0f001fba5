"""How far is a new user from the first useful line, and a login node from an answer?"""
