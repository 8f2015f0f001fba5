"""Does a training that nobody has seen find its best worker count within its first run?"""
