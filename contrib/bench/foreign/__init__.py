"""Does the probe say of foreign trainings what their own clocks say, and change no result?"""
