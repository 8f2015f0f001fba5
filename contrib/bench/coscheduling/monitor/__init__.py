"""Does the monitor find a job that a newcomer slows down, and separate the two?"""
