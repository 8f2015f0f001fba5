"""Is the first advice on a slow training the right one, and is a healthy one left in peace?"""
