"""What does a queue ordered by predicted durations gain, on Philly's virtual clusters?"""
