"""How much sooner do jobs end when their GPUs are redistributed, on the Pollux tables?"""
