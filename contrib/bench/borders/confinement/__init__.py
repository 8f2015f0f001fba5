"""Is a program as confined as the unit of its service says?"""
